"""Which offsets of a log are known to be damaged on disk (D6). They are not served until they are repaired.

A damaged range has offsets, which stay, and positions in one segment file, which a compaction moves. It extends from
the end of the last sound batch before it to the start of the first sound batch after it: a replacement has to fit
between these two.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace


class CorruptSegmentError(OSError):
    """A segment has no batch where there must be one: its bytes changed since they were written, or are unreadable.

    Where another replica can help, the error is caught and the damage repaired. Elsewhere it ends the node, as every
    failure of a disk does, and the next start recovers the log.
    """

    def __init__(self, path: str, offset: int, detail: str) -> None:
        super().__init__(errno.EIO, detail, path)
        self.path = path
        self.offset = offset


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedRange:
    start_offset: int
    end_offset: int
    segment_base: int
    file: str
    start: int
    """The position of the damaged batch in the file."""
    end: int
    reason: str

    def moved(self, by: int) -> DamagedRange:
        """The same range after the bytes before it in the file became more or fewer."""
        return replace(self, start=self.start + by, end=self.end + by)

    def __str__(self) -> str:
        return (
            f"offsets {self.start_offset} to {self.end_offset - 1} in {self.file}, bytes {self.start} to "
            f"{self.end - 1}: {self.reason}"
        )


class Damage:
    """The damaged ranges of one log, in order; they do not overlap."""

    __slots__ = ("irreparable", "ranges")

    def __init__(self) -> None:
        self.ranges: list[DamagedRange] = []
        self.irreparable = False
        """No other replica has an intact copy."""

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def add(self, damaged: DamagedRange) -> bool:
        """False if it is known already. Ranges that overlap with it are replaced."""
        if damaged in self.ranges:
            return False
        kept = [known for known in self.ranges if not _do_overlap(known, damaged)]
        self.ranges = sorted([*kept, damaged], key=lambda known: known.start_offset)
        self.irreparable = False
        return True

    def remove(self, damaged: DamagedRange) -> None:
        if damaged in self.ranges:
            self.ranges.remove(damaged)

    def of_segment(self, base: int) -> list[DamagedRange]:
        return [known for known in self.ranges if known.segment_base == base]

    def replace_segment(self, base: int, ranges: list[DamagedRange]) -> None:
        """The segment was verified again."""
        for known in self.of_segment(base):
            self.remove(known)
        for damaged in ranges:
            self.add(damaged)

    def at(self, offset: int) -> DamagedRange | None:
        """The range that holds `offset`."""
        return next((known for known in self.ranges if known.start_offset <= offset < known.end_offset), None)

    def limit(self, offset: int, limit_offset: int) -> int:
        """Where a read from `offset`, which is in no range, has to end: before the next range."""
        for known in self.ranges:
            if known.start_offset >= offset:
                return min(limit_offset, known.start_offset)
        return limit_offset

    def keep_within(self, start: int, end: int) -> None:
        """Forget the ranges that a truncation removed."""
        self.ranges = [known for known in self.ranges if known.end_offset > start and known.end_offset <= end]


def _do_overlap(one: DamagedRange, other: DamagedRange) -> bool:
    if one.segment_base == other.segment_base and one.start < other.end and other.start < one.end:
        return True
    return one.start_offset < other.end_offset and other.start_offset < one.end_offset
