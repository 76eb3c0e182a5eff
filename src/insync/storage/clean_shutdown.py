"""B5: a clean stop, and the file that it leaves for the next start: the broker epoch, and where every log ended.

The file is Kafka's `.kafka_cleanshutdown`, JSON with `version` and `brokerEpoch`. We add `logs` and `checksum`; Kafka
ignores fields that it does not know. The file is written last, when every log is flushed. The next start reads it and
removes it before anything else, so that a crash from then on is not taken for a clean stop.

`find_damage` compares the files of a log with what was recorded. It reads directory entries and one batch header.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from insync.storage import checkpoints, epoch_cache, recovery, scan
from insync.storage import disk as disks
from insync.storage.checkpoints import NO_BROKER_EPOCH, TopicPartition, is_plausible_offset
from insync.storage.disk import Disk
from insync.storage.epoch_cache import EpochCache
from insync.storage.file_names import LOG, SNAPSHOT, file_name
from insync.storage.log import Log
from insync.storage.segment import Segment
from insync.wire.batch import HEADER_SIZE, MAGIC, read_header

FILE = ".kafka_cleanshutdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """How a clean stop left one log."""

    topic_id: UUID
    log_start: int
    hwm: int
    end_offset: int
    last_batch: int
    """Position of the last batch in the last segment with batches; -1 if there is none, or it is damaged."""
    segments: tuple[tuple[int, int], ...]
    """(base offset, size in bytes) of every segment file."""
    epochs: int
    """Checksum of the leader-epoch checkpoint."""
    producers: bool
    """Whether there is a producer snapshot at the end offset."""


@dataclass(frozen=True, slots=True)
class CleanShutdown:
    broker_epoch: int
    logs: Mapping[TopicPartition, LogEnd] | None
    """None if Apache Kafka wrote the file."""


# --- writing ----------------------------------------------------------------------------------------------------------


def close_all(disk: Disk, logs: Collection[Log]) -> None:
    """All durable on return, indexes and producers saved, so that opening them again reads no batch."""
    unsaved: list[EpochCache] = []
    for log in logs:
        if log.leo == 0 and not log.epochs.on_disk:
            continue  # never written to: it has no files
        if log.truncation_pending_sync:
            log.make_truncation_durable()
        log.save_derived_files()
        if log.epochs.dirty or not log.epochs.on_disk:
            unsaved.append(log.epochs)
    epoch_cache.persist_all(disk, unsaved)
    for log in logs:
        log.recovery_point = log.leo
        log.name_changes_synced = log.name_changes
        log.close_files()


def write(disk: Disk, root: str, broker_epoch: int, logs: Mapping[TopicPartition, LogEnd] | None) -> None:
    """B5: called last, when every log is flushed."""
    disks.write_atomically(disk, disks.join(root, FILE), encode(CleanShutdown(broker_epoch, logs)))


def describe(log: Log, before: LogEnd | None = None) -> LogEnd:
    """Describe a log whose files are all written. `before`: how the last clean stop left it."""
    files = [segment for segment in log.segments if log.disk.exists(segment.paths()[0])]
    segments = tuple((segment.base, segment.size) for segment in files)
    untouched = (
        before is not None and log.truncation_count == 0 and (before.end_offset, before.segments) == (log.leo, segments)
    )
    return LogEnd(
        topic_id=log.topic_id,
        log_start=log.log_start,
        hwm=log.hwm,
        end_offset=log.leo,
        last_batch=before.last_batch if before is not None and untouched else _find_last_batch(files),
        segments=segments,
        epochs=_checksum_of_epochs(log.disk, log.directory),
        producers=bool(log.snapshots) and log.snapshots[-1] == log.leo,
    )


def _find_last_batch(segments: list[Segment]) -> int:
    filled = [segment for segment in segments if segment.size > 0]
    if not filled:
        return -1
    try:
        headers = scan.headers(filled[-1].file, filled[-1].last_indexed, filled[-1].size)
        return max((position for position, _ in headers), default=-1)
    finally:
        filled[-1].close()


def encode(shutdown: CleanShutdown) -> bytes:
    fields: dict[str, Any] = {"version": 0, "brokerEpoch": shutdown.broker_epoch}
    if shutdown.logs is not None:
        fields["logs"] = [_to_row(name, end) for name, end in sorted(shutdown.logs.items())]
        fields["checksum"] = _checksum(fields)
    return _json(fields)


def _to_row(name: TopicPartition, end: LogEnd) -> dict[str, Any]:
    return {
        "topic": name[0],
        "partition": name[1],
        "topicId": checkpoints.encode_uuid(end.topic_id),
        "logStart": end.log_start,
        "highWatermark": end.hwm,
        "endOffset": end.end_offset,
        "lastBatch": end.last_batch,
        "segments": end.segments,
        "epochs": end.epochs,
        "producers": end.producers,
    }


# --- reading ----------------------------------------------------------------------------------------------------------


def take(disk: Disk, root: str) -> CleanShutdown | None:
    """B5: read and remove what the last clean stop left; None after an unclean stop, or if the file is damaged.

    The removal is durable on return: a crash from now on must not be taken for a clean stop.
    """
    path = disks.join(root, FILE)
    data = disks.read_if_exists(disk, path)
    if data is None:
        return None
    disk.remove(path)
    disk.sync_dir(root)
    return decode(data)


def decode(data: bytes) -> CleanShutdown | None:
    """None if it is damaged."""
    try:
        fields = json.loads(data)
        if type(fields) is not dict or fields.get("version") != 0:
            return None
        epoch = fields["brokerEpoch"]
        if type(epoch) is not int or not (epoch == NO_BROKER_EPOCH or is_plausible_offset(epoch)):
            return None
        if "logs" not in fields:
            return CleanShutdown(epoch, None)
        if fields.pop("checksum", None) != _checksum(fields):
            return None
        return CleanShutdown(epoch, dict(_from_row(row) for row in fields["logs"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _from_row(row: dict[str, Any]) -> tuple[TopicPartition, LogEnd]:
    topic_id = checkpoints.decode_uuid(row["topicId"])
    if topic_id is None:
        raise ValueError("invalid topic id")
    end = LogEnd(
        topic_id=topic_id,
        log_start=row["logStart"],
        hwm=row["highWatermark"],
        end_offset=row["endOffset"],
        last_batch=row["lastBatch"],
        segments=tuple((base, size) for base, size in row["segments"]),
        epochs=row["epochs"],
        producers=row["producers"],
    )
    return (row["topic"], row["partition"]), end


def _checksum(fields: Mapping[str, Any]) -> int:
    return zlib.crc32(_json(fields))


def _json(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


# --- comparing --------------------------------------------------------------------------------------------------------


def find_damage(disk: Disk, directory: str, end: LogEnd) -> str | None:
    """How the segments in a directory differ from what the clean stop recorded; None if they do not."""
    sizes = recovery.segment_sizes(disk, directory)
    for base, size in end.segments:
        name = file_name(base, LOG)
        if base not in sizes:
            return f"{name} is missing"
        if sizes[base] != size:
            return f"{name} has {sizes[base]} bytes instead of {size}"
    for base in sizes:
        if (base, sizes[base]) not in end.segments:
            return f"{file_name(base, LOG)} is new"
    return _find_damaged_end(disk, directory, end)


def _find_damaged_end(disk: Disk, directory: str, end: LogEnd) -> str | None:
    """The last batch must end where the file ends, and at the recorded end offset."""
    filled = [(base, size) for base, size in end.segments if size > 0]
    if not filled:
        return None
    base, size = filled[-1]
    file = disks.open_file(disk, disks.join(directory, file_name(base, LOG)))
    try:
        data = disks.read_with_gaps(file, end.last_batch, HEADER_SIZE) if end.last_batch >= 0 else b""
    finally:
        file.close()
    if len(data) == HEADER_SIZE:
        header = read_header(data)
        whole = header.magic == MAGIC and end.last_batch + header.length == size
        if whole and header.next_offset == end.end_offset:
            return None
    return f"{file_name(base, LOG)} does not end with the batch before offset {end.end_offset}"


def has_epochs_and_producers(disk: Disk, directory: str, end: LogEnd) -> bool:
    """Whether the files that can be rebuilt from the batches are as the clean stop left them."""
    if _checksum_of_epochs(disk, directory) != end.epochs:
        return False
    return not end.producers or disk.exists(disks.join(directory, file_name(end.end_offset, SNAPSHOT)))


def _checksum_of_epochs(disk: Disk, directory: str) -> int:
    data = disks.read_if_exists(disk, disks.join(directory, checkpoints.LEADER_EPOCHS))
    return 0 if data is None else zlib.crc32(data)
