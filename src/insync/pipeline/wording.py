"""Numbers and moments in sentences."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def counted(number: int, one: str, many: str = "") -> str:
    """`1 file`, `2,000 files`; `many` where an s does not make it."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def when(time_ms: int) -> str:
    """In UTC, as options take it; the bare number where no calendar reaches."""
    try:
        return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return str(time_ms)
