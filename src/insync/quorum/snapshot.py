"""Snapshots: the image at one offset, as a file, standing for the whole log below it (Q6, KIP-630).

A file is named by where it ends, `<offset, 20 digits>-<epoch, 10 digits>.checkpoint`, and is a row of record batches:
a header control batch, the payloads, a footer control batch. Without its footer, or with a bad CRC, it does not count.
The log may be cut from the front up to the oldest snapshot that is kept, never further.

Notes: quorum_snapshot_written(offset, epoch, records), quorum_snapshot_loaded(offset, epoch, records),
quorum_snapshot_refused(offset, epoch).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from insync.errors import InvariantError
from insync.quorum import damage, messages, offset_checkpoint
from insync.quorum.messages import OffsetAndEpoch
from insync.sansio import Message
from insync.storage.disk import Disk, join, read_all, remove_if_exists, write_atomically
from insync.storage.strays import DAMAGED
from insync.wire import batch, control
from insync.wire.errors import MalformedBatch

if TYPE_CHECKING:
    from insync.quorum.core import Core

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
        for name in [each for each in names if each.endswith(SUFFIX + ".tmp")]:
            disk.remove(join(directory, name))
        self.ids: list[OffsetAndEpoch] = sorted(parse_name(name) for name in names if is_snapshot_name(name))

    @property
    def earliest(self) -> OffsetAndEpoch | None:
        return self.ids[0] if self.ids else None

    @property
    def latest(self) -> OffsetAndEpoch | None:
        return self.ids[-1] if self.ids else None

    def load_latest(self) -> tuple[OffsetAndEpoch, list[bytes]] | None:
        """The newest sound snapshot and its payloads; damaged ones are renamed, and `damaged` has their paths."""
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
        """Off the event loop; `add` or `discard` follows."""
        return WriteSnapshot(self._disk, self._path(snapshot), data)

    def add(self, snapshot: OffsetAndEpoch) -> None:
        """Its file is written."""
        self.ids = sorted([*(known for known in self.ids if known != snapshot), snapshot])

    def discard(self, snapshot: OffsetAndEpoch) -> None:
        """Its file is written, and superseded by now."""
        if snapshot not in self.ids:
            self._remove(snapshot)

    def keep(self, count: int) -> None:
        """Forget all but the newest `count`."""
        while len(self.ids) > count:
            self._remove(self.ids.pop(0))

    def read(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> tuple[int, bytes]:
        """The size of the file and a piece of it."""
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
    """Disk work off the event loop."""

    __slots__ = ("_data", "_disk", "_path")

    def __init__(self, disk: Disk, path: str, data: bytes | bytearray) -> None:
        self._disk = disk
        self._path = path
        self._data = data

    def run(self) -> None:
        write_atomically(self._disk, self._path, self._data)


class SnapshotBuilder:
    """A snapshot that is being encoded. Payloads may be added over many steps."""

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
        while part := [batch.NewRecord(None, payload) for payload in islice(rest, RECORDS_PER_BATCH)]:
            self._data += batch.build(
                part, base_offset=self._next_offset, leader_epoch=self.id.epoch, timestamp_ms=self._timestamp_ms
            )
            self._next_offset += len(part)
            self.count += len(part)

    def finish(self) -> bytearray:
        """The whole file."""
        self._data += control.snapshot_footer_batch(
            base_offset=self._next_offset, leader_epoch=self.id.epoch, timestamp_ms=self._timestamp_ms
        )
        return self._data


class Download:
    """A snapshot on its way from the leader, piece by piece."""

    __slots__ = ("data", "id", "size")

    def __init__(self, snapshot: OffsetAndEpoch) -> None:
        self.id = snapshot
        self.data = bytearray()
        self.size = -1

    @property
    def complete(self) -> bool:
        return len(self.data) == self.size

    def next_request(self, core: Core) -> Message:
        size = core.config.snapshot_chunk_bytes
        return messages.fetch_snapshot_request(core.cluster_id, core.node_id, core.epoch, self.id, len(self.data), size)

    def take(self, answer: Any, max_bytes: int) -> bool:
        """Add the piece if it is the one asked for, and fits in what the snapshot is said to be."""
        named = OffsetAndEpoch(answer.snapshot_id.end_offset, answer.snapshot_id.epoch)
        if named != self.id or answer.position != len(self.data) or not answer.unaligned_records:
            return False
        if not len(self.data) + len(answer.unaligned_records) <= answer.size <= max_bytes:
            return False
        self.data += answer.unaligned_records
        self.size = answer.size
        return True


def open_replica(core: Core, now: int) -> None:
    """Bring snapshot and log in line after a restart, and hand the snapshot to the listener.

    A crash may have come between storing a snapshot and cutting the log for it, so both cuts are made again.
    """
    loaded = core.snapshots.load_latest()
    log = core.log
    if loaded is not None:
        snapshot, payloads = loaded
        if snapshot.offset > log.leo or 0 <= log.last_epoch < snapshot.epoch:
            core.restart_log_at(snapshot)
        _load(core, snapshot, payloads, now)
        _prune(core)
    if log.log_start > (0 if loaded is None else loaded[0].offset):
        _set_log_aside(core)
    elif core.snapshots.damaged:
        text = (
            f"Damaged metadata snapshots: {', '.join(core.snapshots.damaged)}. An older one and the log replace them."
        )
        core.findings.report("snapshot_damaged", core.directory, text)


def _set_log_aside(core: Core) -> None:
    """Q8: without a snapshot for what was before it, a log is of no use here; it is kept for people."""
    log = core.log
    missing = ", ".join(core.snapshots.damaged) or f"a snapshot for the log below offset {log.log_start}"
    core.damage.append(f"missing or unreadable: {missing}; the rest of the log is kept as *.log{DAMAGED}")
    core.condition = offset_checkpoint.DAMAGED
    core.checkpoint = replace(
        core.checkpoint, log_end=damage.max_end(core.checkpoint.log_end, core.log_end()), condition=core.condition
    )
    for segment in log.segments:
        path = segment.paths()[0]
        if core.disk.exists(path):
            core.disk.rename(path, path + DAMAGED)
    core.restart_log_at(OffsetAndEpoch(0, 0))
    core.hwm = 0
    log.set_hwm(0)


def begin(core: Core, snapshot: OffsetAndEpoch) -> SnapshotBuilder | None:
    """A snapshot of the image at a committed offset; None if there is a newer one.

    The last entry may be a control record of a later epoch than the last payload: the log knows, its reader does not.
    """
    latest = core.snapshots.latest
    if latest is not None and snapshot.offset <= latest.offset:
        return None
    covers_only_committed(core, snapshot.offset)
    core.log.roll()  # only whole segments can be dropped
    snapshot = OffsetAndEpoch(snapshot.offset, max(snapshot.epoch, core.log.epochs.epoch_at(snapshot.offset - 1)))
    return SnapshotBuilder(snapshot, last_timestamp(core, snapshot.offset))


def write(core: Core, builder: SnapshotBuilder) -> None:
    """Store it, then drop what it and its predecessor make superfluous. The log may have moved on, or been replaced by
    a snapshot from the leader, since the snapshot was begun."""
    job = core.snapshots.store_later(builder.id, builder.finish())
    core.out.sync(job, lambda _now: _written(core, builder))


def _written(core: Core, builder: SnapshotBuilder) -> None:
    snapshot, latest = builder.id, core.snapshots.latest
    if latest is not None and snapshot.offset <= latest.offset:
        core.snapshots.discard(snapshot)
        return
    core.snapshots.add(snapshot)
    _prune(core)
    core.store_checkpoint()
    core.out.note("quorum_snapshot_written", offset=snapshot.offset, epoch=snapshot.epoch, records=builder.count)


def last_timestamp(core: Core, offset: int) -> int:
    """Of the last entry that a snapshot at `offset` stands for, which is how old the snapshot's content is."""
    return max((header.max_timestamp for header in core.log.iter_headers(offset - 1, offset)), default=0)


def covers_only_committed(core: Core, offset: int) -> None:
    """Q6: a snapshot holds committed records only, and whole batches, as a reader goes on from it with the next one."""
    if offset > core.hwm:
        raise InvariantError("Q6", f"a snapshot at {offset} above the high watermark {core.hwm}")
    following = core.log.read(offset, batch.HEADER_SIZE, limit_offset=core.log.leo)
    if following and batch.read_header(following).base_offset != offset:
        raise InvariantError("Q6", f"a snapshot at {offset}, inside a batch")


def install(core: Core, download: Download, now: int) -> bool:
    """Replace the log by a snapshot from the leader, unless it is damaged: file first, for a crash in between."""
    payloads = decode(download.data)
    if payloads is None:
        core.out.note("quorum_snapshot_refused", offset=download.id.offset, epoch=download.id.epoch)
        return False
    if not core.keeps_committed(download.id.offset):
        return False
    core.snapshots.store(download.id, download.data)
    core.restart_log_at(download.id)
    core.snapshots.keep(1)
    _load(core, download.id, payloads, now)
    return True


def _load(core: Core, snapshot: OffsetAndEpoch, payloads: list[bytes], now: int) -> None:
    core.out.note("quorum_snapshot_loaded", offset=snapshot.offset, epoch=snapshot.epoch, records=len(payloads))
    core.hwm = snapshot.offset
    core.log.set_hwm(snapshot.offset)
    core.listener.on_snapshot(payloads, snapshot.offset, snapshot.epoch, now)


def _prune(core: Core) -> None:
    kept = core.config.snapshots_kept
    if len(core.snapshots.ids) >= kept:
        core.snapshots.keep(kept)
        core.log.prune_prefix(core.snapshots.ids[0].offset)


# --- the file --------------------------------------------------------------------------------------------------------


def encode(payloads: Sequence[bytes], snapshot: OffsetAndEpoch, timestamp_ms: int) -> bytearray:
    builder = SnapshotBuilder(snapshot, timestamp_ms)
    builder.add(payloads)
    return builder.finish()


def decode(data: bytes | bytearray) -> list[bytes] | None:
    """The payloads; None if the file is not whole and sound."""
    batches = list(batch.iter_headers(data))
    if len(batches) < 2 or batches[-1][0] + batches[-1][1].length != len(data):
        return None
    if not all(batch.crc_ok(data, pos, header) for pos, header in batches):
        return None
    try:
        if (_kind(data, batches[0]), _kind(data, batches[-1])) != (control.SNAPSHOT_HEADER, control.SNAPSHOT_FOOTER):
            return None
        return list(_payloads(data, batches))
    except MalformedBatch:
        return None


def _kind(data: bytes | bytearray, found: tuple[int, batch.BatchHeader]) -> int:
    pos, header = found
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
