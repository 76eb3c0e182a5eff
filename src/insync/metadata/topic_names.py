"""Which names topics may have, and which topics belong to the brokers themselves."""

from __future__ import annotations

import re

from insync.wire.errors import ErrorCode

INTERNAL = ("__consumer_offsets", "__transaction_state")
RULE = "a name has 1 to 249 of the characters a-z A-Z 0-9 . _ - and is neither '.' nor '..'"

_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_legal(name: str) -> bool:
    return _LEGAL.fullmatch(name) is not None and name not in (".", "..")


def is_internal(name: str) -> bool:
    return name in INTERNAL


def absence(name: str) -> ErrorCode:
    """What to say of a topic that does not exist, or cannot."""
    return ErrorCode.unknown_topic_or_partition if is_legal(name) else ErrorCode.invalid_topic_exception
