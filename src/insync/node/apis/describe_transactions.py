"""DescribeTransactions (65): there are none, so whichever is asked for is not found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.node.parts import Parts
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_transactions as api
from insync.wire.types import EPOCH, NO_DURATION

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 65

PARTS = Parts(asked=("transactional_ids",), answered=("transaction_states",), limit=500)


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    lines = tuple(_missing(each) for each in request.transactional_ids)
    broker.out.reply(token, api.DescribeTransactionsResponse(throttle_time=NO_DURATION, transaction_states=lines))


def _missing(transactional_id: str) -> Message:
    return api.TransactionState(
        error_code=ErrorCode.transactional_id_not_found,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout=NO_DURATION,
        transaction_start_time=EPOCH,
        producer_id=0,
        producer_epoch=0,
        topics=(),
    )
