"""Which offsets of a log are known to be damaged on disk (D6): they are not served until they are repaired.

A damaged range is known by offsets, which stay, and by positions in one segment file, which a compaction moves. It runs
from the end of the last sound batch before it to the start of the first sound batch behind it, so that whatever fills
it has to fit between these two.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace


class CorruptSegmentError(OSError):
    """A segment has no batch where one has to be: its bytes are not those that were written, or cannot be read.

    Where another replica can help it is caught and repaired. Elsewhere it is what every failure of a disk is: it ends
    the node, and the next start recovers the log.
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
    """The position of the first damaged byte's batch in the file."""
    end: int
    reason: str

    def moved(self, by: int) -> DamagedRange:
        """The same range after something before it in the file became longer or shorter."""
        return replace(self, start=self.start + by, end=self.end + by)

    def __str__(self) -> str:
        return (
            f"offsets {self.start_offset} to {self.end_offset - 1} in {self.file}, bytes {self.start} to "
            f"{self.end - 1}: {self.reason}"
        )


class Damage:
    """The damaged ranges of one log, by offset; they do not overlap."""

    __slots__ = ("irreparable", "ranges")

    def __init__(self) -> None:
        self.ranges: list[DamagedRange] = []
        self.irreparable = False
        """Every other replica was asked, and none has an intact copy."""

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def add(self, damaged: DamagedRange) -> bool:
        """False if it was known. What is known of the same bytes less exactly is replaced."""
        if damaged in self.ranges:
            return False
        kept = [known for known in self.ranges if not _overlap(known, damaged)]
        self.ranges = sorted([*kept, damaged], key=lambda known: known.start_offset)
        self.irreparable = False
        return True

    def remove(self, damaged: DamagedRange) -> None:
        if damaged in self.ranges:
            self.ranges.remove(damaged)

    def of_segment(self, base: int) -> list[DamagedRange]:
        return [known for known in self.ranges if known.segment_base == base]

    def replace_segment(self, base: int, found: list[DamagedRange]) -> None:
        """The segment was verified again."""
        for known in self.of_segment(base):
            self.remove(known)
        for damaged in found:
            self.add(damaged)

    def at(self, offset: int) -> DamagedRange | None:
        """The range that holds `offset`."""
        return next((known for known in self.ranges if known.start_offset <= offset < known.end_offset), None)

    def limit(self, offset: int, limit_offset: int) -> int:
        """A read from `offset`, which is in no range, ends before the next one."""
        for known in self.ranges:
            if known.start_offset >= offset:
                return min(limit_offset, known.start_offset)
        return limit_offset

    def keep_within(self, start: int, end: int) -> None:
        """The log was cut: what is gone is damaged no more."""
        self.ranges = [known for known in self.ranges if known.end_offset > start and known.end_offset <= end]


def _overlap(one: DamagedRange, other: DamagedRange) -> bool:
    if one.segment_base == other.segment_base and one.start < other.end and other.start < one.end:
        return True
    return one.start_offset < other.end_offset and other.start_offset < one.end_offset
