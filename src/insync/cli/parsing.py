"""Reading what people type: numbers in lists, key=value pairs, moments in time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from insync.cli.exits import usage_error

_AGO = re.compile(r"(\d+)(ms|s|m|h|d)")
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def numbers(value: str, what: str) -> list[int]:
    """`1,2,3`"""
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise usage_error(f"'{value}' is not a list of {what}: write numbers with commas, such as 1,2,3")
    return [int(part) for part in parts]


def pairs(values: Sequence[str], what: str) -> dict[str, str]:
    """`key=value`, several times."""
    found = {}
    for value in values:
        key, equals, rest = value.partition("=")
        if not equals or not key:
            raise usage_error(f"'{value}' is not a {what}: write NAME=VALUE")
        found[key] = rest
    return found


def duration_s(value: str) -> float:
    """Seconds; from a number of them, or with a unit: `90s`, `60m`, `8h`, `1d`."""
    if value.isdecimal():
        return float(value)
    if parts := _AGO.fullmatch(value):
        return int(parts[1]) * _UNITS[parts[2]] / 1_000
    raise usage_error(f"'{value}' is not a duration: write 90s, 60m or 8h")


def moment(value: str, now_ms: int) -> int:
    """Milliseconds since 1970; from a number of them, ISO 8601, or how long ago (`90s`, `15m`, `2h`, `1d`)."""
    if value.isdecimal():
        return int(value)
    if ago := _AGO.fullmatch(value):
        return now_ms - int(ago[1]) * _UNITS[ago[2]]
    try:
        read = datetime.fromisoformat(value)
    except ValueError:
        raise usage_error(f"'{value}' is not a time: write 2026-11-15T12:00:00, 15m (ago), or milliseconds") from None
    aware = read if read.tzinfo else read.astimezone()
    return (aware - _EPOCH) // timedelta(milliseconds=1)


def iso(timestamp_ms: int) -> str:
    """A timestamp for people; - where there is none."""
    if timestamp_ms < 0:
        return "-"
    return (_EPOCH + timedelta(milliseconds=timestamp_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
