"""Which offset of the target has the record of a source offset. Arithmetic only.

Offsets of source and target differ if the source was trimmed or compacted, has transactions, or other producers write
to the target. The map is a list of anchors: the first record from `source` on is number `rows` of the mirror, and the
target has the numbers below `rows` below offset `target` and the others from there on. Between two anchors that are
equally far apart by all three counts, every offset is known. Otherwise the source's records have to be counted. A
translation is never too high: a consumer that continues there may read records again, and skips none.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple

ANCHOR_ROWS = 10_000
"""Where the source has gaps, anchors are about this many records apart."""


class Anchor(NamedTuple):
    source: int
    rows: int
    target: int


class Translation(NamedTuple):
    offset: int
    is_exact: bool


class OffsetMap:
    """The map of one partition; anchors are in the order of the mirrored records."""

    def __init__(self, anchors: Iterable[Anchor] = ()) -> None:
        self.anchors = list(anchors)

    def add(self, anchor: Anchor) -> None:
        """Append an anchor; the one before is dropped where it adds nothing."""
        anchors = self.anchors
        if anchors and anchor == anchors[-1]:
            return
        if len(anchors) > 1 and self._is_dispensable(anchors[-2], anchors[-1], anchor):
            anchors.pop()
        anchors.append(anchor)

    @staticmethod
    def _is_dispensable(before: Anchor, middle: Anchor, after: Anchor) -> bool:
        if is_dense(before, middle) and is_dense(middle, after):
            return True
        if not _has_gaps_only(before, middle) or not _has_gaps_only(middle, after):
            return False
        return after.rows - before.rows < ANCHOR_ROWS

    def continue_at(self, source: int) -> None:
        """The next record is the one from `source` on: what lies between was lost, or replaced by other records."""
        last = self.anchors[-1]
        if source < last.source:  # the source was truncated: its offsets from here on are those of other records
            common = self._find_anchor(source)
            self.anchors = [anchor for anchor in self.anchors if anchor.source < source]
            if common is not None:
                self.anchors.append(common)
        self.anchors.append(Anchor(source, last.rows, last.target))

    def _find_anchor(self, source: int) -> Anchor | None:
        """An anchor at `source` exactly; None if records would have to be counted."""
        after = bisect_right(self.anchors, source, key=lambda anchor: anchor.source)
        if after == 0:
            return None
        before = self.anchors[after - 1]
        distance = source - before.source
        if distance == 0:
            return before
        if after < len(self.anchors) and is_dense(before, self.anchors[after]):
            return Anchor(source, before.rows + distance, before.target + distance)
        return None

    def translate(self, source: int, count: Callable[[int, int], int | None]) -> Translation | None:
        """The target's offset for the first record from `source` on. None if nothing is mirrored.

        `count(start, end)` is the number of records that the source has there; None if it no longer knows.
        """
        if not self.anchors:
            return None
        after = bisect_right(self.anchors, source, key=lambda anchor: anchor.source)
        if after == 0:
            return Translation(self.anchors[0].target, True)
        before = self.anchors[after - 1]
        if source == before.source or after == len(self.anchors):
            return Translation(before.target, source == before.source)
        following = self.anchors[after]
        if is_dense(before, following):
            return Translation(before.target + source - before.source, True)
        if before.rows == following.rows:
            return Translation(following.target, True)
        records = count(before.source, source) if has_no_others(before, following) else None
        if records is None:
            return Translation(before.target, False)
        return Translation(before.target + min(records, following.rows - before.rows), True)


def is_dense(before: Anchor, after: Anchor) -> bool:
    """Whether neither the source nor the target has a gap between them."""
    return after.source - before.source == after.rows - before.rows == after.target - before.target


def has_no_others(before: Anchor, after: Anchor) -> bool:
    """Whether the target has nothing between them but mirrored records."""
    return after.rows - before.rows == after.target - before.target


def _has_gaps_only(before: Anchor, after: Anchor) -> bool:
    """Whether counting the source's records between them tells the target's offsets."""
    return has_no_others(before, after) and after.source - before.source >= after.rows - before.rows > 0
