"""Conversion of the fields that kio does not leave as plain ints: durations, instants and uuids.

kio reads `*_ms` durations as timedelta (and drops the suffix from the field's name), produce's `log_append_time` as an
aware datetime or None for -1, and the all-zero uuid as None. Nodes count in whole milliseconds and identify topics by
UUID.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from uuid import UUID

ZERO_UUID = UUID(int=0)
"""No uuid, on the wire; kio reads it as None and writes None as it."""

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = UUID(int=1)

NO_DURATION = timedelta(0)
"""For `throttle_time`."""

_MILLISECOND = timedelta(milliseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=256)
def ms(milliseconds: int) -> timedelta:
    """A duration for a kio field."""
    return timedelta(milliseconds=milliseconds)


@lru_cache(maxsize=256)
def millis(duration: timedelta) -> int:
    """A kio duration as whole milliseconds."""
    return duration // _MILLISECOND


def instant(milliseconds: int) -> datetime | None:
    """A wall-clock time for a kio field; negative means none (on the wire -1)."""
    return None if milliseconds < 0 else EPOCH + ms(milliseconds)


def instant_millis(moment: datetime | None) -> int:
    """A kio instant as milliseconds since 1970, -1 if there is none."""
    return -1 if moment is None else (moment - EPOCH) // _MILLISECOND


@lru_cache(maxsize=1 << 14)
def uuid_from(raw: bytes) -> UUID | None:
    """As kio reads it: None for the zero uuid. Equal bytes give the same object, so that a lookup in a dict needs no
    comparison, which costs as much as creating a UUID."""
    return UUID(bytes=raw) if len(raw) == len(ZERO_UUID.bytes) and any(raw) else None


def one_uuid(value: UUID) -> UUID:
    """The object that `uuid_from` returns for an equal uuid."""
    return uuid_from(value.bytes) or value
