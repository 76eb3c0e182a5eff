"""A clean stop of many logs: everything is written first, and then waited for all at once (B5).

File by file, a thousand logs would take minutes, because every sync waits for the disk. An epoch table replaces its
file by a new name, which it gets once its content is safe: hence two waits, and not one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from insync.storage import cutting
from insync.storage.disk import Disk
from insync.storage.epoch_cache import EpochCache

if TYPE_CHECKING:
    from insync.storage.log import Log


def close_all(disk: Disk, logs: Collection[Log]) -> None:
    """All durable on return, indexes and producers saved, so that opening again reads no batch."""
    tables = [table for log in logs for table in _write(log)]
    disk.sync_all()
    for table in tables:
        table.put_in_place()
    if tables:
        disk.sync_all()
    for log in logs:
        log.recovery_point = log.leo
        log.names_synced = log.names_changed
        log.release()


def _write(log: Log) -> list[EpochCache]:
    """Returns the log's epoch table if its file is not up to date. A log that was never written to has no files."""
    if log.leo == 0 and not log.epochs.on_disk:
        return []
    if log.unsettled:
        cutting.settle_truncation(log)
    for segment in log.segments:
        segment.save_indexes()
    if log.producers.producers or log.leo in log.snapshots:
        log.take_snapshot()
    if not log.epochs.dirty and log.epochs.on_disk:
        return []
    log.epochs.put_aside()
    return [log.epochs]
