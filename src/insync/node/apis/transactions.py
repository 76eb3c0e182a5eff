"""ListTransactions and DescribeTransactions: there are no transactions.

As in Kafka, ListTransactions names the state filters that no transaction can have, and refuses a pattern of
transactional ids that is not a regular expression.
"""

from __future__ import annotations

import re

from insync.node.broker_role import BrokerRole
from insync.node.parts import Parts
from insync.sansio import Request
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_transactions, list_transactions
from insync.wire.types import EPOCH, NO_DURATION

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

DESCRIBE_PARTS = Parts(asked=("transactional_ids",), answered=("transaction_states",), limit=500)


def list_all(broker: BrokerRole, event: Request, now: int) -> None:
    request: list_transactions.ListTransactionsRequest = event.request
    answer = list_transactions.ListTransactionsResponse(
        throttle_time=NO_DURATION,
        error_code=_pattern_error(request.transactional_id_pattern),
        unknown_state_filters=tuple(state for state in request.state_filters if state not in STATES),
        transaction_states=(),
    )
    broker.out.reply(event.token, answer)


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


def describe(broker: BrokerRole, event: Request, now: int) -> None:
    request: describe_transactions.DescribeTransactionsRequest = event.request
    states = tuple(
        without_state(transactional_id, ErrorCode.transactional_id_not_found)
        for transactional_id in request.transactional_ids
    )
    answer = describe_transactions.DescribeTransactionsResponse(throttle_time=NO_DURATION, transaction_states=states)
    broker.out.reply(event.token, answer)


def without_state(transactional_id: str, error: ErrorCode) -> describe_transactions.TransactionState:
    return describe_transactions.TransactionState(
        error_code=error,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout=NO_DURATION,
        transaction_start_time=EPOCH,
        producer_id=0,
        producer_epoch=0,
        topics=(),
    )
