"""Valid topic names, and the internal topics of the brokers."""

from __future__ import annotations

import re

from insync.wire.errors import ErrorCode

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
RULE = "a name has 1 to 249 of the characters a-z A-Z 0-9 . _ - and is neither '.' nor '..'"

_VALID = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_valid(name: str) -> bool:
    return _VALID.fullmatch(name) is not None and name not in (".", "..")


def error_if_absent(name: str) -> ErrorCode:
    """The error for a topic that does not exist."""
    return ErrorCode.unknown_topic_or_partition if is_valid(name) else ErrorCode.invalid_topic_exception
