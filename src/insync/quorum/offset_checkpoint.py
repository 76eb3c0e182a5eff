"""`quorum-offset-checkpoint`: how much of the metadata log this replica has acknowledged, and in which epoch (Q8).

A log that ends early looks the same whether its last entries were never synced or were damaged after they had been
acknowledged. This file tells the two apart. It is at the root of the data directory, so that it survives the loss of
the metadata directory, and has one line for each state, the newest last:

    <condition> <log end offset> <its epoch> <high watermark> <election epoch> <voted id> <CRC-32 of the line>

Each line is a lower bound. It is written when its entries are synced and before they are acknowledged, so that it
survives the death of the process; it is synced a little later (`SYNC_INTERVAL_MS`), so that neither commits nor votes
wait for a second fsync. Before the log is truncated, the lower bound is lowered and synced. Lines that are torn or
damaged do not count; a file without any good line does not say how much there was, and the replica counts as damaged.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from insync.quorum.durable_outbox import DurableOutbox
from insync.quorum.messages import OffsetAndEpoch
from insync.storage.checkpoints import MAX_EPOCH, is_plausible_offset
from insync.storage.disk import Disk, DiskFile, SyncLater, read_all, write_atomically

FILE_NAME = "quorum-offset-checkpoint"
SYNC_INTERVAL_MS = 200
MAX_BYTES = 1 << 16
"""A larger file is replaced by its last line when the log is next truncated or a snapshot is written."""

INTACT = "intact"
DAMAGED = "damaged"
"""The replica lost synced entries or its vote, and no leader has restored it yet."""
NEW = "new"
"""The replica has never held anything, as far as it knows: a new cluster, or a replaced disk."""


EMPTY_LOG = OffsetAndEpoch(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumCheckpoint:
    condition: str = NEW
    log_end: OffsetAndEpoch = EMPTY_LOG
    hwm: int = 0
    epoch: int = 0
    """The newest epoch that this replica knew, and `voted_id` its vote in it: a second copy of quorum-state."""
    voted_id: int = -1


class CheckpointFile:
    __slots__ = ("_disk", "_file", "_unsynced", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self._file: DiskFile | None = None
        self._unsynced = False

    def exists(self) -> bool:
        return self._disk.exists(self.path)

    def load(self) -> QuorumCheckpoint | None:
        """The newest good line; None if the file is missing or has none."""
        if not self.exists():
            return None
        for line in reversed(read_all(self._disk, self.path).splitlines()):
            checkpoint = decode(line)
            if checkpoint is not None:
                return checkpoint
        return None

    def append(self, checkpoint: QuorumCheckpoint) -> None:
        """Survives the death of the process; `sync_later` makes it survive a power loss too."""
        if self._file is None:
            self._file = self._disk.open(self.path)
        self._file.append(encode(checkpoint))
        self._unsynced = True

    def sync_later(self) -> SyncLater | None:
        """Makes durable what was appended; None if all of it is."""
        if self._file is None or not self._unsynced:
            return None
        self._unsynced = False
        return self._file.sync_later()

    def store(self, checkpoint: QuorumCheckpoint) -> None:
        """Durable on return."""
        if self._file is not None and self._file.size < MAX_BYTES:
            self.append(checkpoint)
            self._file.sync()
        else:
            self.close()
            write_atomically(self._disk, self.path, encode(checkpoint))
        self._unsynced = False

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class CheckpointSync:
    """Syncs the file off the event loop: a `FlushJob`."""

    __slots__ = ("_sync",)

    def __init__(self, sync: SyncLater) -> None:
        self._sync = sync

    def run(self) -> None:
        self._sync()


class OffsetCheckpoint:
    """The checkpoint of a running replica: the last line written, and the sync that is under way."""

    __slots__ = ("_file", "_is_syncing", "_out", "_synced_ms", "last")

    def __init__(self, file: CheckpointFile, last: QuorumCheckpoint, out: DurableOutbox) -> None:
        self._file = file
        self._out = out
        self._synced_ms = 0
        self._is_syncing = False
        self.last = last

    def append(self, checkpoint: QuorumCheckpoint) -> None:
        if checkpoint != self.last:
            self.last = checkpoint
            self._file.append(checkpoint)

    def store(self, checkpoint: QuorumCheckpoint) -> None:
        """Durable on return."""
        self.last = checkpoint
        self._file.store(checkpoint)

    def is_sync_due(self, now: int) -> bool:
        return not self._is_syncing and now - self._synced_ms >= SYNC_INTERVAL_MS

    def begin_sync(self, now: int) -> None:
        sync = self._file.sync_later()
        if sync is not None:
            self._is_syncing = True
            self._synced_ms = now
            self._out.sync(CheckpointSync(sync), self._on_synced)

    def _on_synced(self, now: int) -> None:
        self._is_syncing = False

    def close(self) -> None:
        self._file.store(self.last)
        self._file.close()


def encode(checkpoint: QuorumCheckpoint) -> bytes:
    numbers = (*checkpoint.log_end, checkpoint.hwm, checkpoint.epoch, checkpoint.voted_id)
    text = " ".join([checkpoint.condition, *map(str, numbers)]).encode()
    return b"%s %08x\n" % (text, zlib.crc32(text))


def decode(line: bytes) -> QuorumCheckpoint | None:
    text, _, crc = line.rpartition(b" ")
    if crc != b"%08x" % zlib.crc32(text):
        return None
    words = text.decode("ascii", "replace").split(" ")
    if len(words) != 6 or words[0] not in (INTACT, DAMAGED, NEW):
        return None
    if not all(word.removeprefix("-").isdecimal() for word in words[1:]):
        return None
    offset, epoch, hwm, election_epoch, voted_id = (int(word) for word in words[1:])
    if not is_plausible_offset(offset) or not is_plausible_offset(hwm) or not 0 <= epoch <= election_epoch <= MAX_EPOCH:
        return None
    return QuorumCheckpoint(
        condition=words[0], log_end=OffsetAndEpoch(offset, epoch), hwm=hwm, epoch=election_epoch, voted_id=voted_id
    )
