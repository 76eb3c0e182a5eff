"""The parts of a segment file whose batches were verified by this process, as a few ranges of positions (D6)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

MAX_RANGES = 16
"""Readers go through a segment in order, so ranges merge; above this many the smallest is forgotten."""


class Extents:
    """Ranges in order that neither touch nor overlap."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def covers(self, start: int, end: int) -> bool:
        at = bisect_right(self._starts, start) - 1
        return at >= 0 and end <= self._ends[at]

    def add(self, start: int, end: int) -> None:
        first, last = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last], self._ends[first:last] = [start], [end]
        if len(self._starts) > MAX_RANGES:
            smallest = min(range(len(self._starts)), key=lambda at: self._ends[at] - self._starts[at])
            del self._starts[smallest], self._ends[smallest]

    def truncate(self, end: int) -> None:
        """Forget everything from `end` on."""
        kept = bisect_left(self._starts, end)
        del self._starts[kept:], self._ends[kept:]
        if kept and self._ends[-1] > end:
            self._ends[-1] = end
