"""D1: the offset at which each leader epoch started. Two replicas compare these to find where their logs diverge.

An epoch ends where the next one starts; the newest ends at the log's end. Epochs and start offsets both rise
strictly: assigning an entry removes those that it contradicts, which also drops epochs in which nothing was written.

On disk it is Kafka's `leader-epoch-checkpoint`. `persist` makes it durable. The file may lack epochs above the recovery
point, which recovery takes from the batches, and after a crash it may have epochs above the end of the log, which
recovery removes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence

from insync.storage import checkpoints
from insync.storage import disk as disks
from insync.storage.disk import Disk

NO_EPOCH = -1


class EpochCache:
    __slots__ = ("_disk", "_epochs", "_path", "_starts", "dirty", "last_epoch", "stale")

    def __init__(self, disk: Disk, directory: str, entries: Sequence[tuple[int, int]] = ()) -> None:
        self._disk = disk
        self._path = disks.join(directory, checkpoints.LEADER_EPOCHS)
        self.load(entries)
        self.dirty = False
        self.stale = False
        """The file has epochs that the log did not have when it was opened: it is replaced before the next append."""

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def last_start(self) -> int:
        """The start offset of the newest epoch, -1 if there is none."""
        return self._starts[-1] if self._starts else -1

    @property
    def first_start(self) -> int:
        """The start offset of the oldest epoch, -1 if there is none."""
        return self._starts[0] if self._starts else -1

    def load(self, entries: Sequence[tuple[int, int]]) -> None:
        """Replace all entries; those that contradict later ones are dropped."""
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.last_epoch = NO_EPOCH
        for epoch, start in entries:
            self._put(epoch, start)
        self.dirty = True

    def assign(self, epoch: int, start: int) -> None:
        """D1: `epoch` starts at `start`, if that is not known already. Durable with the log's next flush."""
        if epoch == self.last_epoch and start >= self._starts[-1]:
            return
        self._put(epoch, start)
        self.dirty = True

    def end_offset_for(self, epoch: int, leo: int) -> tuple[int, int] | None:
        """D2's lookup: the highest epoch not above `epoch`, with its end offset; None if all are higher."""
        at = bisect_right(self._epochs, epoch)
        if at == 0:
            return None
        end = self._starts[at] if at < len(self._starts) else leo
        return self._epochs[at - 1], end

    def lowest(self) -> tuple[int, int] | None:
        """The oldest epoch with its start, for D2's answer to an epoch older than all of these."""
        return (self._epochs[0], self._starts[0]) if self._epochs else None

    def epoch_at(self, offset: int) -> int:
        """The epoch in which `offset` was or would be written, -1 if it lies before the first."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else NO_EPOCH

    def truncate_from_end(self, offset: int) -> bool:
        """The log now ends at `offset`: epochs that started there or later are gone. False if there were none."""
        before = keep = len(self._starts)
        while keep and self._starts[keep - 1] >= offset:
            keep -= 1
        self._keep(slice(0, keep))
        return keep < before

    def truncate_from_start(self, offset: int) -> None:
        """The log now starts at `offset`: the epoch that covers it starts there, older ones are gone."""
        at = bisect_right(self._starts, offset)
        if at and self._starts[at - 1] != offset:
            self._starts[at - 1] = offset
            self.dirty = True
        self._keep(slice(max(0, at - 1), len(self._starts)))

    def clear(self) -> None:
        self._keep(slice(0, 0))

    def persist(self) -> None:
        """Safeguard: nothing relies on an epoch that a crash could remove."""
        disks.write_atomically(self._disk, self._path, checkpoints.encode_epochs(self.entries))
        self.dirty = self.stale = False

    @property
    def on_disk(self) -> bool:
        return self._disk.exists(self._path)

    def write_temporary(self) -> None:
        """The first half of `persist`, for `persist_all`: written under a temporary name."""
        disks.write_plainly(self._disk, self._path + disks.TEMPORARY, checkpoints.encode_epochs(self.entries))

    def rename_temporary(self) -> None:
        """The second half, once the temporary file is synced; the caller syncs the directory."""
        self._disk.rename(self._path + disks.TEMPORARY, self._path)
        self.dirty = self.stale = False

    def _put(self, epoch: int, start: int) -> None:
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start)
        self.last_epoch = epoch

    def _keep(self, part: slice) -> None:
        before = len(self._epochs)
        self._epochs = self._epochs[part]
        self._starts = self._starts[part]
        self.last_epoch = self._epochs[-1] if self._epochs else NO_EPOCH
        self.dirty = self.dirty or len(self._epochs) != before


def persist_all(disk: Disk, caches: Collection[EpochCache]) -> None:
    """Make many tables durable at once, and with them everything else that was written before.

    File by file, a thousand logs would take minutes, because every sync waits for the disk. A table replaces its file
    by a rename, which has to wait until the content is safe: hence two syncs and not one.
    """
    for cache in caches:
        cache.write_temporary()
    disk.sync_all()
    for cache in caches:
        cache.rename_temporary()
    if caches:
        disk.sync_all()


def read_checkpoint(disk: Disk, directory: str) -> list[tuple[int, int]] | None:
    """The entries on disk; None if the file is missing or damaged."""
    data = disks.read_if_exists(disk, disks.join(directory, checkpoints.LEADER_EPOCHS))
    return None if data is None else checkpoints.decode_epochs(data)
