"""S6: what was done because of a high watermark never has to be undone.

A follower's high watermark may go down, and a new leader's may lag. A leader's does not go down within its term, and
the end offset that ListOffsets returns does not go down in real time.
"""

from __future__ import annotations

from insync.properties.history import ListedOffset
from insync.properties.realtime import Floor
from insync.properties.violation import Property

PROPERTY = Property(
    "S6",
    "Applied HWM Monotonicity",
    "A leader's high watermark never goes down within its term, nor does the end offset that clients get.",
)


def check_term(leader: int, epoch: int, before: int, after: int) -> str | None:
    """H2: two high watermarks of one leader in one term, in this order."""
    if after >= before:
        return None
    return f"leader {leader} took its high watermark from {before} down to {after} in epoch {epoch}"


def check_listed(leader: int, listed: int, committed_end: int) -> str | None:
    """H4: the current leader lists the true high watermark, or refuses because it does not know it yet."""
    if listed >= committed_end:
        return None
    return f"leader {leader} listed the end offset {listed} before it knew that {committed_end} is committed"


class ListedOffsets:
    """The end offsets of one partition that clients got."""

    __slots__ = ("_floor",)

    def __init__(self) -> None:
        self._floor = Floor()

    def observe(self, listed: ListedOffset) -> str | None:
        known = self._floor.before(time=listed.started, epoch=listed.leader_epoch)
        self._floor.raise_to(listed.offset, time=listed.time, epoch=listed.leader_epoch)
        if listed.offset >= known:
            return None
        return f"end offset {listed.offset} listed in epoch {listed.leader_epoch}, {known} was listed earlier"

    def forgive(self, epoch: int) -> None:
        """An unclean election in `epoch` may undo what earlier leaders listed."""
        self._floor.forget_below(epoch)
