"""Numbers and times in sentences."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def pluralize(number: int, singular: str, plural: str = "") -> str:
    """`1 file`, `2,000 files`; `plural` where appending an s is wrong."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def format_time(time_ms: int) -> str:
    """ISO format in UTC, as options take it; the bare number if it is outside the calendar."""
    try:
        return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return str(time_ms)
