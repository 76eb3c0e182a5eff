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


def format_size(count: float) -> str:
    """Bytes with a unit, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def format_duration(seconds: float) -> str:
    """In the largest unit that fits, with three digits."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{format_number(seconds / size)} {unit}"
    return f"{format_number(seconds)} s"


def format_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
