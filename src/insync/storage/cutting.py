"""Taking records out of a log: at its end (divergence), at its start (retention), or all of them.

A cut at the end is dangerous until it is durable: if old bytes came back after a crash behind new ones, the log would
be one that no replica ever had (D4). So before anything is written after a cut, `settle_truncation` makes durable the
cut itself, the epochs without those that went with it, and a recovery point not above it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from insync.storage import disk as disks
from insync.storage import recovery
from insync.storage.file_names import SNAPSHOT, file_name

if TYPE_CHECKING:
    from insync.storage.log import Log


def truncate_to(log: Log, offset: int) -> int | None:
    """D6: returns the offset of a damaged batch that stays in the log before the cut, None if there is none."""
    if offset < log.log_start:
        truncate_fully(log, offset)
        return None
    damaged = None
    if offset < log.leo:
        damaged = _cut_batches(log, offset)
        log.unsettled = True
    if log.leo < log.log_start:
        truncate_fully(log, log.log_start)  # of the batch that held the log start, and was cut, nothing is left
        return None
    # Even a cut that removes no batch removes epochs in which this replica led and wrote nothing.
    if log.epochs.truncate_from_end(min(offset, log.leo)):
        log.unsettled = True
    if damaged is not None:
        log.roll()  # nothing is appended behind bytes that are no batch
    return damaged


def truncate_fully(log: Log, new_start: int) -> None:
    for segment in log.forget_segments(slice(None)):
        segment.remove()
    log.start_segment(new_start)
    start_lowered = new_start < log.log_start
    log.leo = log.log_start = log.hwm = new_start
    log.recovery_point = min(log.recovery_point, new_start)
    log.cuts += 1
    log.epochs.clear()
    log.producers.producers.clear()
    _drop_snapshots(log, lambda _: True)
    if start_lowered and log.on_offsets_lowered is not None:
        log.on_offsets_lowered()
    settle_truncation(log)


def settle_truncation(log: Log) -> None:
    """Safeguard, D4: the cut is durable before anything is written over it."""
    log.active.file.sync()
    if log.names_changed != log.names_synced:
        log.disk.sync_dir(log.directory)
    if log.epochs.dirty:
        log.epochs.persist()
    if log.stored_recovery_point > log.recovery_point and log.on_offsets_lowered is not None:
        log.on_offsets_lowered()
    log.unsettled = False


def drop_oldest(log: Log, n: int) -> int:
    """Remove the `n` oldest segments; the log start moves up to what is left."""
    if n == 0:
        return 0
    first = log.segments[n].base
    if log.recovery_point < first:
        log.flush()  # else a crash could take what is left, and the log would start at 0 again
    log.log_start = max(log.log_start, first)
    log.hwm = max(log.hwm, log.log_start)
    record_log_start(log)
    for segment in reversed(log.forget_segments(slice(0, n))):
        segment.remove()
    _drop_snapshots(log, lambda offset: offset < first)
    return n


def record_log_start(log: Log) -> None:
    """Safeguard, B5: the epoch table on disk says where the log starts before a segment below that goes. So a first
    segment that is missing for another reason is known as damage, even after an unclean stop."""
    log.epochs.truncate_from_start(log.log_start)
    if log.epochs.dirty:
        log.epochs.persist()


def _cut_batches(log: Log, offset: int) -> int | None:
    keep = sum(1 for segment in log.segments if segment.base < offset) or 1
    if keep < len(log.segments):
        for segment in log.forget_segments(slice(keep, None)):
            log.leo = segment.base
            segment.remove()
        log.reactivate()
        # Durable before the cut goes on below: a segment that came back behind a shorter one would leave a gap.
        log.disk.sync_dir(log.directory)
    damaged = None
    if offset < log.leo:
        position, log.leo, damaged = log.active.find_cut(offset, log.leo)
        log.active.truncate(position, log.leo)
    log.cuts += 1
    log.recovery_point = min(log.recovery_point, log.leo)
    log.hwm = min(log.hwm, log.leo)
    _cut_producers(log)
    return damaged


def _cut_producers(log: Log) -> None:
    _drop_snapshots(log, lambda offset: offset > log.leo)
    if log.producers.touched_since(log.leo):
        log.producers = recovery.load_producers(log.disk, log.directory, log.segments, log.snapshots, log.leo)


def drop_stray_snapshots(log: Log) -> None:
    """Of the snapshots between segments, left by clean stops, only the newest is of use."""
    bases = {segment.base: True for segment in log.segments}
    _drop_snapshots(log, lambda offset: offset not in bases and offset < log.leo)


def _drop_snapshots(log: Log, gone: Callable[[int], bool]) -> None:
    for offset in [offset for offset in log.snapshots if gone(offset)]:
        disks.remove_if_exists(log.disk, disks.join(log.directory, file_name(offset, SNAPSHOT)))
        log.snapshots.remove(offset)
        log.names_changed += 1
