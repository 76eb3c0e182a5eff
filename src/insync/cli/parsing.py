"""Parsing of arguments: lists of numbers, key=value pairs, durations, times and directories."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from insync.cli.exits import usage_error

_AGO = re.compile(r"(\d+)(ms|s|m|h|d)")
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
MAX_INT = 2**31 - 1
MAX_DIGITS = 15
"""More are neither milliseconds since 1970 nor a duration."""
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,6})?)\s*([kMGT]?)(i?)B?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def numbers(value: str, what: str) -> list[int]:
    """Parse `1,2,3`."""
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isdecimal() and part.isascii() and len(part) <= MAX_DIGITS for part in parts):
        raise usage_error(f"'{value}' is not a list of {what}: write comma-separated numbers, such as 1,2,3")
    chosen = [int(part) for part in parts]
    if max(chosen) > MAX_INT:
        raise usage_error(f"'{value}' is not a list of {what}: {max(chosen)} is too large")
    return chosen


def pairs(values: Sequence[str], what: str) -> dict[str, str]:
    """Parse `key=value` arguments."""
    parsed = {}
    for value in values:
        key, equals, rest = value.partition("=")
        if not equals or not key:
            raise usage_error(f"'{value}' is not a {what}: write NAME=VALUE")
        parsed[key] = rest
    return parsed


def duration_s(value: str) -> float:
    """Parse a duration into seconds: a number, or with a unit as in `90s`, `60m`, `8h`, `1d`."""
    if value.isdecimal() and len(value) <= MAX_DIGITS:
        return float(value)
    if (parts := _AGO.fullmatch(value)) and len(value) <= MAX_DIGITS:
        return int(parts[1]) * _UNITS[parts[2]] / 1_000
    raise usage_error(f"'{value}' is not a duration: write 90s, 60m or 8h")


def byte_count(value: str) -> int:
    """Parse a number of bytes, also with a unit as in `500GB`, `1.5TB` or `64MiB`."""
    parts = _SIZE.fullmatch(value.strip())
    if not parts:
        raise usage_error(f"'{value}' is not a number of bytes: write 500000000, 500GB or 1.5TiB")
    unit = 1024 if parts[3] else 1000
    factor: int = unit ** _POWERS[parts[2].lower()]
    return round(float(parts[1]) * factor)


def moment(value: str, now_ms: int) -> int:
    """Parse a time into milliseconds since 1970: milliseconds, ISO 8601, or how long ago (`90s`, `15m`, `2h`)."""
    if len(value) > MAX_DIGITS and value.isdecimal():
        raise usage_error(f"'{value}' is not a time: it is too large for milliseconds since 1970")
    if value.isdecimal():
        return int(value)
    if (ago := _AGO.fullmatch(value)) and len(value) <= MAX_DIGITS:
        return max(0, now_ms - int(ago[1]) * _UNITS[ago[2]])
    try:
        read = datetime.fromisoformat(value)
    except ValueError:
        raise usage_error(f"'{value}' is not a time: write 2026-11-15T12:00:00, 15m (ago), or milliseconds") from None
    aware = read if read.tzinfo else read.astimezone()
    return (aware - _EPOCH) // timedelta(milliseconds=1)


def iso(timestamp_ms: int) -> str:
    """A readable timestamp; - if there is none."""
    if timestamp_ms < 0:
        return "-"
    return (_EPOCH + timedelta(milliseconds=timestamp_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def empty_directory(path: Path) -> Path:
    """Create the directory if necessary; one that contains files is refused."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise usage_error(f"--keep {path}: {path} is not empty" if path.is_dir() else f"--keep {path}: is a file")
    path.mkdir(parents=True, exist_ok=True)
    return path.resolve()
