"""Snapshots of a replica: loaded at the start, written as the log grows, downloaded from the leader (Q6, KIP-630).

The log may be pruned from the front up to the oldest snapshot that is kept, never further.

Notes: quorum_snapshot_written(offset, epoch, records), quorum_snapshot_loaded(offset, epoch, records, installed),
quorum_snapshot_refused(offset, epoch).
"""

from __future__ import annotations

from dataclasses import replace

from insync.errors import InvariantError
from insync.quorum import damage, snapshot_store
from insync.quorum.messages import OffsetAndEpoch
from insync.quorum.snapshot_store import SnapshotBuilder
from insync.quorum.state import RaftState
from insync.storage.strays import DAMAGED
from insync.wire import batch
from insync.wire.messages import fetch_snapshot


class Download:
    """A snapshot that is fetched from the leader, chunk by chunk."""

    __slots__ = ("data", "id", "size")

    def __init__(self, snapshot: OffsetAndEpoch) -> None:
        self.id = snapshot
        self.data = bytearray()
        self.size = -1

    @property
    def is_complete(self) -> bool:
        return len(self.data) == self.size

    def add(self, answer: fetch_snapshot.ResponsePartition, max_bytes: int) -> bool:
        """Add the chunk; False if it is not the one that was asked for, or exceeds the size of the snapshot."""
        named = OffsetAndEpoch(answer.snapshot_id.end_offset, answer.snapshot_id.epoch)
        if named != self.id or answer.position != len(self.data) or not answer.unaligned_records:
            return False
        if not len(self.data) + len(answer.unaligned_records) <= answer.size <= max_bytes:
            return False
        self.data += answer.unaligned_records
        self.size = answer.size
        return True


def open_replica(state: RaftState, now: int) -> None:
    """Make snapshot and log consistent after a restart, and pass the snapshot on.

    A crash may have come between storing a snapshot and truncating the log for it, so the log is truncated again.
    """
    loaded = state.snapshots.load_latest()
    log = state.log
    if loaded is not None:
        snapshot, payloads = loaded
        if snapshot.offset > log.leo or 0 <= log.epochs.last_epoch < snapshot.epoch:
            state.restart_log_at(snapshot)
        _load(state, snapshot, payloads, now)
        _prune(state)
    if log.log_start > (0 if loaded is None else loaded[0].offset):
        _set_log_aside(state)
    elif state.snapshots.damaged:
        text = (
            f"Damaged metadata snapshots: {', '.join(state.snapshots.damaged)}. An older one and the log replace them."
        )
        state.findings.report("snapshot_damaged", state.directory, text)


def _set_log_aside(state: RaftState) -> None:
    """Q8: a log is of no use here without a snapshot of what came before it; its files are kept for an operator."""
    log = state.log
    missing = ", ".join(state.snapshots.damaged) or f"a snapshot for the log below offset {log.log_start}"
    state.damage.add(f"missing or unreadable: {missing}; the rest of the log is kept as *.log{DAMAGED}")
    last = state.checkpoint.last
    state.checkpoint.last = replace(
        last, log_end=damage.max_end(last.log_end, state.log_end()), condition=state.damage.condition
    )
    for segment in log.segments:
        path = segment.paths()[0]
        if state.disk.exists(path):
            state.disk.rename(path, path + DAMAGED)
    state.restart_log_at(OffsetAndEpoch(0, 0))
    state.hwm = 0
    log.set_hwm(0)


def begin(state: RaftState, snapshot: OffsetAndEpoch) -> SnapshotBuilder | None:
    """Begin a snapshot of the image at a committed offset; None if there is a newer one.

    The last entry may be a control record of a later epoch than the last payload: the log knows, its reader does not.
    """
    latest = state.snapshots.latest
    if latest is not None and snapshot.offset <= latest.offset:
        return None
    check_covers_only_committed(state, snapshot.offset)
    state.log.roll()  # only whole segments can be dropped
    snapshot = OffsetAndEpoch(snapshot.offset, max(snapshot.epoch, state.log.epochs.epoch_at(snapshot.offset - 1)))
    return SnapshotBuilder(snapshot, last_timestamp(state, snapshot.offset))


def write(state: RaftState, builder: SnapshotBuilder) -> None:
    """Store the snapshot, then drop what it and its predecessor make superfluous. The log may have moved on, or been
    replaced by a snapshot from the leader, since the snapshot was begun."""
    job = state.snapshots.store_later(builder.id, builder.finish())
    state.out.sync(job, lambda _now: _on_written(state, builder))


def _on_written(state: RaftState, builder: SnapshotBuilder) -> None:
    snapshot, latest = builder.id, state.snapshots.latest
    if latest is not None and snapshot.offset <= latest.offset:
        state.snapshots.discard(snapshot)
        return
    state.snapshots.add(snapshot)
    _prune(state)
    state.store_checkpoint()
    state.out.note("quorum_snapshot_written", offset=snapshot.offset, epoch=snapshot.epoch, records=builder.count)


def last_timestamp(state: RaftState, offset: int) -> int:
    """The timestamp of the last entry below `offset`: how old the content of a snapshot at `offset` is."""
    return max((header.max_timestamp for header in state.log.iter_headers(offset - 1, offset)), default=0)


def check_covers_only_committed(state: RaftState, offset: int) -> None:
    """Q6: a snapshot covers committed records only, and whole batches, because a reader continues with the next one."""
    if offset > state.hwm:
        raise InvariantError("Q6", f"a snapshot at {offset} above the high watermark {state.hwm}")
    following = state.log.read(offset, batch.HEADER_SIZE, limit_offset=state.log.leo)
    if following and batch.read_header(following).base_offset != offset:
        raise InvariantError("Q6", f"a snapshot at {offset}, inside a batch")


def install(state: RaftState, download: Download, now: int) -> bool:
    """Replace the log by a snapshot from the leader; False if it is damaged. The file is written before the log is
    truncated, for a crash in between."""
    payloads = snapshot_store.decode(download.data)
    if payloads is None:
        state.out.note("quorum_snapshot_refused", offset=download.id.offset, epoch=download.id.epoch)
        return False
    if not state.keeps_committed(download.id.offset):
        return False
    state.snapshots.store(download.id, download.data)
    state.restart_log_at(download.id)
    state.snapshots.keep(1)
    _load(state, download.id, payloads, now, is_installed=True)
    return True


def _load(
    state: RaftState, snapshot: OffsetAndEpoch, payloads: list[bytes], now: int, *, is_installed: bool = False
) -> None:
    state.out.note(
        "quorum_snapshot_loaded",
        offset=snapshot.offset,
        epoch=snapshot.epoch,
        records=len(payloads),
        installed=is_installed,
    )
    state.hwm = snapshot.offset
    state.log.set_hwm(snapshot.offset)
    state.on_snapshot(payloads, snapshot.offset, snapshot.epoch, now)


def _prune(state: RaftState) -> None:
    kept = state.config.snapshots_kept
    if len(state.snapshots.ids) >= kept:
        state.snapshots.keep(kept)
        state.log.raise_log_start(state.snapshots.ids[0].offset)
