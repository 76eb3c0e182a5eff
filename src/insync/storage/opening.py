"""The files of a log around its batches: making or opening them, and what a flush has to sync."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from insync.storage import checkpoints, recovery, swapping
from insync.storage import disk as disks
from insync.storage.config import LogConfig
from insync.storage.disk import Disk, SyncLater
from insync.storage.epoch_cache import EpochCache
from insync.storage.file_names import SNAPSHOT, file_name
from insync.storage.producer_state import ProducerStates
from insync.storage.recovery import OpenedLog
from insync.storage.segment import Segment

if TYPE_CHECKING:
    from insync.storage.log import Log


def open_files(
    disk: Disk, directory: str, topic_id: UUID, config: LogConfig, recovery_point: int, clean: bool, log_start: int
) -> OpenedLog:
    if not disk.exists(directory):
        return _new(disk, directory, topic_id, config, log_start)
    swapping.settle(disk, directory)
    _write_identity(disk, directory, topic_id)
    interval = config.index_interval_bytes
    opened = recovery.open_clean(disk, directory, interval, recovery_point) if clean else None
    opened = opened or recovery.recover(disk, directory, interval, recovery_point)
    return opened or _without_segments(disk, directory, config, log_start)


def sync_closed_segment(log: Log, segment: Segment, end_offset: int) -> list[SyncLater]:
    """Its batches, its indexes, and the producers as of its end are what recovery builds on next time."""
    paths = [*segment.paths(), disks.join(log.directory, file_name(end_offset, SNAPSHOT))]
    return [_sync_later(log.disk, path) for path in paths if log.disk.exists(path)]


def sync_names(log: Log) -> list[SyncLater]:
    """The directory itself may be new, so its parent is synced too, and what says whose it is."""
    identity = [] if log.names_synced else [_sync_later(log.disk, _identity(log.directory))]
    return [
        *identity,
        log.disk.sync_dir_later(log.directory),
        log.disk.sync_dir_later(disks.parent(log.directory)),
    ]


def doom_directory(disk: Disk, directory: str, doomed: str) -> None:
    """Under its other name it is known as deleted, even if a crash leaves some of its files."""
    if disk.exists(doomed):
        disk.rmtree(doomed)
    disk.rename(directory, doomed)


def read_topic_id(disk: Disk, directory: str) -> UUID | None:
    data = disks.read_if_exists(disk, _identity(directory))
    return None if data is None else checkpoints.decode_partition_metadata(data)


def _identity(directory: str) -> str:
    return disks.join(directory, checkpoints.PARTITION_METADATA)


def _new(disk: Disk, directory: str, topic_id: UUID, config: LogConfig, log_start: int) -> OpenedLog:
    """Durable with the first flush: a log that a crash takes back was empty, or had nothing in it that counts yet.

    Making files is what takes long in making a thousand logs, so the segment's own comes with its first batch.
    """
    disk.mkdir(directory)
    disks.write_plainly(disk, _identity(directory), checkpoints.encode_partition_metadata(topic_id))
    return _empty(disk, directory, config, log_start)


def _without_segments(disk: Disk, directory: str, config: LogConfig, log_start: int) -> OpenedLog:
    """D1: an epoch table without a log tells of one that is gone."""
    disks.remove_if_exists(disk, disks.join(directory, checkpoints.LEADER_EPOCHS))
    return _empty(disk, directory, config, log_start)


def _empty(disk: Disk, directory: str, config: LogConfig, log_start: int) -> OpenedLog:
    segment = Segment(disk, directory, log_start, 0, config.index_interval_bytes)
    return OpenedLog(
        segments=[segment],
        leo=log_start,
        epochs=EpochCache(disk, directory),
        producers=ProducerStates(),
        snapshots=[],
        report=None,
    )


def _write_identity(disk: Disk, directory: str, topic_id: UUID) -> None:
    if read_topic_id(disk, directory) != topic_id:
        disks.write_atomically(disk, _identity(directory), checkpoints.encode_partition_metadata(topic_id))


def _sync_later(disk: Disk, path: str) -> SyncLater:
    file = disk.open(path)
    try:
        return file.sync_later()
    finally:
        file.close()
