"""Snapshot files: the image at one offset, which stands for the whole log below it (Q6, KIP-630).

A file is named by where it ends, `<offset, 20 digits>-<epoch, 10 digits>.checkpoint`, and is a sequence of record
batches: a header control batch, the payloads, a footer control batch. A file without its footer, or with a bad CRC, is
ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from insync.quorum.messages import OffsetAndEpoch
from insync.storage.disk import Disk, join, read_all, remove_if_exists, write_atomically
from insync.storage.strays import DAMAGED
from insync.wire import batch, control
from insync.wire.errors import MalformedBatchError

SUFFIX = ".checkpoint"
RECORDS_PER_BATCH = 1_000


class SnapshotStore:
    """The snapshots of one replica, oldest first."""

    __slots__ = ("_directory", "_disk", "damaged", "ids")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self.damaged: list[str] = []
        names = disk.listdir(directory)
        for name in names:
            if name.endswith(SUFFIX + ".tmp"):
                disk.remove(join(directory, name))
        self.ids: list[OffsetAndEpoch] = sorted(parse_name(name) for name in names if is_snapshot_name(name))

    @property
    def earliest(self) -> OffsetAndEpoch | None:
        return self.ids[0] if self.ids else None

    @property
    def latest(self) -> OffsetAndEpoch | None:
        return self.ids[-1] if self.ids else None

    def load_latest(self) -> tuple[OffsetAndEpoch, list[bytes]] | None:
        """The newest sound snapshot and its payloads; damaged ones are renamed and listed in `damaged`."""
        while self.ids:
            path = self._path(self.ids[-1])
            payloads = decode(read_all(self._disk, path))
            if payloads is not None:
                return self.ids[-1], payloads
            self._disk.rename(path, path + DAMAGED)
            self.damaged.append(path)
            self.ids.pop()
        return None

    def store(self, snapshot: OffsetAndEpoch, data: bytes | bytearray) -> None:
        write_atomically(self._disk, self._path(snapshot), data)
        self.add(snapshot)

    def store_later(self, snapshot: OffsetAndEpoch, data: bytes | bytearray) -> WriteSnapshot:
        """A job that writes the file off the event loop. Call `add` or `discard` when it is done."""
        return WriteSnapshot(self._disk, self._path(snapshot), data)

    def add(self, snapshot: OffsetAndEpoch) -> None:
        """The file of this snapshot has been written."""
        self.ids = sorted([*(known for known in self.ids if known != snapshot), snapshot])

    def discard(self, snapshot: OffsetAndEpoch) -> None:
        """The file of this snapshot has been written, but a newer one exists by now."""
        if snapshot not in self.ids:
            self._remove(snapshot)

    def keep(self, count: int) -> None:
        """Remove all but the newest `count`."""
        while len(self.ids) > count:
            self._remove(self.ids.pop(0))

    def read(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> tuple[int, bytes]:
        """The size of the file and a chunk of it."""
        file = self._disk.open(self._path(snapshot))
        try:
            return file.size, file.read(position, min(max_bytes, max(0, file.size - position)))
        finally:
            file.close()

    def _remove(self, snapshot: OffsetAndEpoch) -> None:
        remove_if_exists(self._disk, self._path(snapshot))

    def _path(self, snapshot: OffsetAndEpoch) -> str:
        return join(self._directory, f"{snapshot.offset:020d}-{snapshot.epoch:010d}{SUFFIX}")


class WriteSnapshot:
    """Writes a snapshot off the event loop: a `FlushJob`."""

    __slots__ = ("_data", "_disk", "_path")

    def __init__(self, disk: Disk, path: str, data: bytes | bytearray) -> None:
        self._disk = disk
        self._path = path
        self._data = data

    def run(self) -> None:
        write_atomically(self._disk, self._path, self._data)


class SnapshotBuilder:
    """Encodes a snapshot. Payloads may be added over many steps."""

    __slots__ = ("_data", "_next_offset", "_timestamp_ms", "count", "id")

    def __init__(self, snapshot: OffsetAndEpoch, timestamp_ms: int) -> None:
        self.id = snapshot
        self.count = 0
        self._timestamp_ms = timestamp_ms
        self._data = control.snapshot_header_batch(
            last_contained_timestamp_ms=timestamp_ms, leader_epoch=snapshot.epoch, timestamp_ms=timestamp_ms
        )
        self._next_offset = 1

    def add(self, payloads: Iterable[bytes]) -> None:
        rest = iter(payloads)
        while records := [batch.NewRecord(None, payload) for payload in islice(rest, RECORDS_PER_BATCH)]:
            self._data += batch.build(
                records, base_offset=self._next_offset, leader_epoch=self.id.epoch, timestamp_ms=self._timestamp_ms
            )
            self._next_offset += len(records)
            self.count += len(records)

    def finish(self) -> bytearray:
        """The whole file."""
        self._data += control.snapshot_footer_batch(
            base_offset=self._next_offset, leader_epoch=self.id.epoch, timestamp_ms=self._timestamp_ms
        )
        return self._data


def encode(payloads: Sequence[bytes], snapshot: OffsetAndEpoch, timestamp_ms: int) -> bytearray:
    builder = SnapshotBuilder(snapshot, timestamp_ms)
    builder.add(payloads)
    return builder.finish()


def decode(data: bytes | bytearray) -> list[bytes] | None:
    """The payloads; None if the file is incomplete or damaged."""
    batches = list(batch.iter_headers(data))
    if len(batches) < 2 or batches[-1][0] + batches[-1][1].length != len(data):
        return None
    if not all(batch.crc_ok(data, pos, header) for pos, header in batches):
        return None
    try:
        if _control_type(data, batches[0]) != control.SNAPSHOT_HEADER:
            return None
        if _control_type(data, batches[-1]) != control.SNAPSHOT_FOOTER:
            return None
        return list(_payloads(data, batches))
    except MalformedBatchError:
        return None


def _control_type(data: bytes | bytearray, located: tuple[int, batch.BatchHeader]) -> int:
    pos, header = located
    return control.control_type(next(batch.records(data, pos))) if header.is_control else -1


def _payloads(data: bytes | bytearray, batches: Sequence[tuple[int, batch.BatchHeader]]) -> Iterator[bytes]:
    for pos, header in batches:
        if not header.is_control:
            for record in batch.records(data, pos):
                yield record.value or b""


def is_snapshot_name(name: str) -> bool:
    digits = name.removesuffix(SUFFIX).split("-")
    return name.endswith(SUFFIX) and [len(part) for part in digits] == [20, 10] and all(map(str.isdecimal, digits))


def parse_name(name: str) -> OffsetAndEpoch:
    return OffsetAndEpoch(int(name[:20]), int(name[21:31]))
