"""Checks what clients saw against what is committed: S6, S8, S9 and S11 on a history.

Only acks=all is a promise: records sent with acks 0 or 1 may be lost, and no reader sees them before they are
committed. Deleted partitions are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from insync.metadata.partition import PartitionKey
from insync.properties import no_loss, read_consistency
from insync.properties.ghost import PartitionGhost
from insync.properties.history import UNKNOWN_OFFSET, Acked, Failed, History, ListedOffset, Read, Sent

ACKS_ALL = -1

ReportViolation = Callable[[str, str, str], None]
"""Called with the property id, what is wrong, and the partition's name."""


class ClientChecks:
    __slots__ = ("_ghosts", "_open", "_report_violation", "history")

    def __init__(
        self, history: History, ghosts: Mapping[PartitionKey, PartitionGhost], report_violation: ReportViolation
    ) -> None:
        self.history = history
        self._ghosts = ghosts
        self._report_violation = report_violation
        self._open: dict[int, Sent] = {}

    def waiting(self) -> list[int]:
        """L5: the operations without a response."""
        return [op for op, sent in self._open.items() if sent.acks != 0]

    def check(self) -> None:
        for record in self.history.take():
            if isinstance(record, Read):
                self._read(record)
            elif isinstance(record, Sent):
                self._sent(record)
            elif isinstance(record, Acked):
                self._acked(record)
            elif isinstance(record, Failed):
                self._failed(record)
            else:
                self._listed(record)

    def _sent(self, sent: Sent) -> None:
        self._open[sent.op] = sent
        ghost = self._ghosts.get(sent.partition)
        if ghost is not None and sent.acks == ACKS_ALL:
            ghost.writes.sent(sent.op)

    def _failed(self, failed: Failed) -> None:
        sent = self._open.pop(failed.op, None)
        ghost = self._ghosts.get(sent.partition) if sent else None
        if ghost is not None:
            ghost.writes.ended(failed.op)

    def _acked(self, acked: Acked) -> None:
        sent = self._open.pop(acked.op, None)
        ghost = self._ghosts.get(sent.partition) if sent else None
        if sent is None or ghost is None or sent.acks != ACKS_ALL:
            return
        offset = acked.base_offset
        if offset == UNKNOWN_OFFSET:
            ghost.writes.ended(acked.op)
            return
        wrong = no_loss.check_acked(offset, sent.count, sent.crc, ghost.committed)
        if wrong:
            ghost.writes.ended(acked.op)
            self._report(ghost, "S9", None if ghost.forgiven.has(offset, sent.crc) else wrong)
            return
        epoch = ghost.committed.epoch_of_commit(offset)
        self._report(ghost, "S11", ghost.writes.acked(acked.op, offset, sent.count, time=acked.time, epoch=epoch))

    def _read(self, read: Read) -> None:
        ghost = self._ghosts.get(read.partition)
        if ghost is None:
            return
        self._report(ghost, "S8", read_consistency.check(read, ghost.committed, ghost.forgiven))
        if read.leader_epoch >= max(0, ghost.forgive_epoch):
            self._report(ghost, "S11", ghost.writes.read(read))

    def _listed(self, listed: ListedOffset) -> None:
        """A response from before an unclean election is not checked."""
        ghost = self._ghosts.get(listed.partition)
        if ghost is None or listed.leader_epoch < max(0, ghost.forgive_epoch):
            return
        if listed.offset > ghost.committed.end:
            self._report(ghost, "S6", f"end offset {listed.offset} listed, committed is {ghost.committed.end}")
        self._report(ghost, "S6", ghost.listed.observe(listed))
        self._report(ghost, "S11", ghost.writes.listed(listed))

    def _report(self, ghost: PartitionGhost, property_id: str, wrong: str | None) -> None:
        if wrong:
            self._report_violation(property_id, wrong, ghost.partition.name)
