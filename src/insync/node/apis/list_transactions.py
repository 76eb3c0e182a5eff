"""ListTransactions (66): there are none. States that no transaction ever has are named, as Kafka does, and a pattern of
transactional ids that is no regular expression is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import list_transactions as api
from insync.wire.types import NO_DURATION

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 66

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

MAX_PATTERN = 4_096
"""Characters: compiling an expression takes microseconds for each."""

_RE2_ONLY = re.compile(r"\\[pPQzC]")
"""Escapes that Kafka's regular expressions (RE2) have and Python's do not."""


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    unknown = tuple(state for state in request.state_filters if state not in STATES)
    broker.out.reply(
        token,
        api.ListTransactionsResponse(
            throttle_time=NO_DURATION,
            error_code=_pattern_error(request.transactional_id_pattern),
            unknown_state_filters=unknown,
            transaction_states=(),
        ),
    )


def _pattern_error(pattern: str | None) -> ErrorCode:
    """Null and empty match every transaction."""
    if not pattern:
        return ErrorCode.none
    if len(pattern) > MAX_PATTERN:
        return ErrorCode.invalid_regular_expression
    if _RE2_ONLY.search(pattern):
        return ErrorCode.none
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return ErrorCode.invalid_regular_expression
    return ErrorCode.none
