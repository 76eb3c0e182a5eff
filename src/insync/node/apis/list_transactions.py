"""ListTransactions (66): there are none. States that no transaction ever has are named, as Kafka does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import list_transactions as api
from insync.wire.types import NO_DURATION

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 66
VERSIONS = (0, 1)

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    unknown = tuple(state for state in request.state_filters if state not in STATES)
    broker.out.reply(
        token,
        api.ListTransactionsResponse(
            throttle_time=NO_DURATION,
            error_code=ErrorCode.none,
            unknown_state_filters=unknown,
            transaction_states=(),
        ),
    )
