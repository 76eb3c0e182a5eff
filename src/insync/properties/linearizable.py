"""S11: a partition behaves as one log that operations enter one after the other, in real time.

For writes: a write that is acknowledged before another is sent has a lower offset. For reads: what was acknowledged is
visible to later requests, as far as leaders without leases can promise: ListOffsets in the epoch of the commit or a
later one (H4), a fetch in the epoch of the commit itself (the high watermark of a later leader may still lag).
"""

from __future__ import annotations

from insync.properties.history import ListedOffset, Read
from insync.properties.realtime import Floor
from insync.properties.violation import Property

PROPERTY = Property(
    "S11",
    "Linearizable Log",
    "A write acknowledged before another is sent has the lower offset, and later reads see it.",
)


class PartitionHistory:
    """The acks=all writes of one partition, and what readers saw."""

    __slots__ = ("_floors", "_visible", "acked_end")

    def __init__(self) -> None:
        self.acked_end = 0
        self._floors: dict[int, int] = {}
        self._visible = Floor()

    def sent(self, op: int) -> None:
        self._floors[op] = self.acked_end

    def ended(self, op: int) -> None:
        self._floors.pop(op, None)

    def acked(self, op: int, base_offset: int, count: int, *, time: int, epoch: int) -> str | None:
        """`epoch`: the leader epoch in which the batch became committed."""
        floor = self._floors.pop(op, 0)
        end = base_offset + count
        self.acked_end = max(self.acked_end, end)
        self._visible.raise_to(end, time=time, epoch=epoch)
        if base_offset >= floor:
            return None
        return f"write {op} got offset {base_offset}, a write up to {floor} was acknowledged before it was sent"

    def listed(self, listed: ListedOffset) -> str | None:
        known = self._visible.before(time=listed.started, epoch=listed.leader_epoch)
        if listed.offset >= known:
            return None
        return f"end offset {listed.offset} listed in epoch {listed.leader_epoch}, {known} was acknowledged earlier"

    def read(self, read: Read) -> str | None:
        known = self._visible.within(time=read.started, epoch=read.leader_epoch)
        if read.hwm >= known:
            return None
        return f"{read.reader} saw the log to {read.hwm} in epoch {read.leader_epoch}, {known} was acknowledged"

    def forgive(self, offset: int, epoch: int) -> None:
        """A permitted unclean election in `epoch` removed everything from `offset` on."""
        self.acked_end = min(self.acked_end, offset)
        self._floors = {op: min(floor, offset) for op, floor in self._floors.items()}
        self._visible.forget_below(epoch)
