"""Helpers for tests of compaction: keyed batches, a whole pass, the records of a log, a disk that fails on cue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from insync.sim.engine.disk import SimDisk, SimFile
from insync.storage.compaction import Compaction
from insync.storage.log import Log
from insync.wire import batch as batches
from insync.wire.batch import NewRecord, Record
from tests.storage.storage_harness import LogHarness

Pair = tuple[bytes | None, bytes | None]


def keyed(pairs: Sequence[Pair], *, timestamp: int = 1_000, **fields: Any) -> Any:
    data = batches.build([NewRecord(key, value) for key, value in pairs], timestamp_ms=timestamp, **fields)
    return data, batches.read_header(data)


def put(harness: LogHarness, *pairs: Pair, epoch: int = 1, now: int = 0, **fields: Any) -> int:
    """Append one batch and commit the whole log."""
    data, header = keyed(pairs, **fields)
    base = harness.log.append_as_leader(data, header, epoch, now)
    harness.log.set_hwm(harness.log.leo)
    return base


def compact(log: Log, *, first_dirty: int = 0, now: int = 0, budget: int = 1, **options: Any) -> Compaction:
    """A whole pass, by default in the smallest steps."""
    work = Compaction(log, first_dirty, now, **options)
    while not work.done:
        sync = work.step(budget)
        if sync is not None:
            sync()
    return work


def records(log: Log, start: int | None = None) -> list[Record]:
    """All records from `start` on, as a consumer reads them: each read continues at the next offset."""
    read: list[Record] = []
    offset = log.log_start if start is None else start
    while offset < log.leo:
        data = log.read(offset, 1, limit_offset=log.leo)
        header = batches.read_header(data)
        read += [record for record in batches.records(data) if record.offset >= offset]
        assert header.last_offset >= offset
        offset = header.next_offset
    return read


def table(log: Log, below: int | None = None) -> dict[bytes, tuple[int, bytes | None]]:
    """The last (offset, value) of each key."""
    limit = log.leo if below is None else below
    return {r.key: (r.offset, r.value) for r in records(log) if r.key is not None and r.offset < limit}


def drop_snapshots(harness: LogHarness) -> None:
    """Without them, producers can only be derived from the batches."""
    for name in harness.disk.listdir("data/t-0"):
        if name.endswith(".snapshot"):
            harness.disk.remove(harness.path(name))


class ProcessDiedError(Exception):
    """The process ended in the middle of a disk operation."""


class MortalDisk(SimDisk):
    """Raises ProcessDiedError instead of making the n-th change; -1: never."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        super().__init__()
        self.left = -1

    def spend(self) -> None:
        if self.left == 0:
            raise ProcessDiedError
        self.left -= 1

    def open(self, path: str) -> MortalFile:
        if not self.exists(path):
            self.spend()
        file = super().open(path)
        return MortalFile(self, file._inode, path)

    def rename(self, source: str, target: str) -> None:
        self.spend()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self.spend()
        super().remove(path)

    def sync_dir(self, path: str) -> None:
        self.spend()
        super().sync_dir(path)


class MortalFile(SimFile):
    __slots__ = ()

    def append(self, data: Any) -> None:
        self._spend()
        super().append(data)

    def sync(self) -> None:
        self._spend()
        super().sync()

    def _spend(self) -> None:
        disk = self._disk
        assert isinstance(disk, MortalDisk)
        disk.spend()
