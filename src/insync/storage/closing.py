"""A clean stop of many logs: everything is written first, and then waited for all at once (B5).

File by file, a thousand logs would take minutes, because every sync waits for the disk. An epoch table replaces its
file by a new name, which it gets once its content is safe: hence two waits, and not one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from insync.storage import cutting
from insync.storage import disk as disks
from insync.storage.disk import Disk
from insync.storage.epoch_cache import EpochCache
from insync.storage.file_names import SNAPSHOT, file_name

if TYPE_CHECKING:
    from insync.storage.log import Log


def close_all(disk: Disk, logs: Collection[Log]) -> None:
    """All durable on return, indexes and producers saved, so that opening again reads no batch."""
    replace_all(disk, [table for log in logs for table in _write(log)])
    for log in logs:
        log.recovery_point = log.leo
        log.names_synced = log.names_changed
        log.release()


def replace_all(disk: Disk, tables: Collection[EpochCache]) -> None:
    """These epoch tables, and whatever else was written before, are durable on return."""
    for table in tables:
        table.put_aside()
    disk.sync_all()
    for table in tables:
        table.put_in_place()
    if tables:
        disk.sync_all()


def close_one(log: Log) -> None:
    """Batches and epochs are durable on return; the rest can be rebuilt from them."""
    if log.unsettled:
        cutting.settle_truncation(log)
    log.flush()
    _write_what_can_be_rebuilt(log)
    if not log.epochs.on_disk:
        log.epochs.persist()
    log.release()


def _write(log: Log) -> list[EpochCache]:
    """Returns the log's epoch table if its file is not up to date. A log that was never written to has no files."""
    if log.leo == 0 and not log.epochs.on_disk:
        return []
    if log.unsettled:
        cutting.settle_truncation(log)
    _write_what_can_be_rebuilt(log)
    return [log.epochs] if log.epochs.dirty or not log.epochs.on_disk else []


def _write_what_can_be_rebuilt(log: Log) -> None:
    for segment in log.segments:
        segment.save_indexes()
    if log.producers.producers or log.leo in log.snapshots:
        take_snapshot(log)


def take_snapshot(log: Log) -> None:
    """The state of the producers as of the log's end: the next segment begins there, or the next uptime."""
    disks.write_plainly(log.disk, disks.join(log.directory, file_name(log.leo, SNAPSHOT)), log.producers.encode())
    if not log.snapshots or log.snapshots[-1] < log.leo:
        log.snapshots.append(log.leo)
    cutting.drop_stray_snapshots(log)
    log.names_changed += 1
