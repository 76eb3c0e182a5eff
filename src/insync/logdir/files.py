"""Log directories, Apache Kafka's and ours: which replicas and segments they hold, and which of them to read.

A log directory holds `meta.properties`, checkpoints and one directory per partition. Ours keeps partitions and the
metadata log apart, in `data` and `metadata`. A segment is named after its first offset. By default reading stops at the
high watermark that the broker last checkpointed: what lies above may still be truncated. Records below the log start
are deleted, even if they are still on disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from insync.logdir.options import FAIL, HWM, LogDirectoryError, ReadOptions
from insync.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    TopicPartition,
    decode_meta_properties,
    decode_offsets,
)
from insync.storage.file_names import LOG, file_name, parse_directory, parse_file_name
from insync.wire.types import METADATA_TOPIC

NO_LIMIT = (1 << 63) - 1
_SUBDIRECTORIES = ("", "data", "metadata")


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment, and the offsets to read of it: from `start` up to, but not including, `end`."""

    broker: int
    topic: str
    partition: int
    path: str
    base: int
    start: int
    end: int
    required_end: int
    """The log is damaged if it ends below this offset; -1 unless this is the log's last segment."""
    corrupt: str = FAIL
    include_control: bool = False

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def stem(self) -> str:
        return self.path.removesuffix(LOG)


@dataclass(frozen=True, slots=True)
class Replica:
    broker: int
    topic: str
    partition: int
    directory: str
    hwm: int | None
    """None if the broker's checkpoint has none, which counts as 0."""
    log_start: int


def plan_segments(options: ReadOptions, is_wanted: Callable[[Replica], bool] = lambda _: True) -> list[Segment]:
    """The segments that may hold something of what the options ask for, in order."""
    return plan_segments_of(filter(is_wanted, list_replicas(options)), options)


def plan_segments_of(replicas: Iterable[Replica], options: ReadOptions) -> list[Segment]:
    return [segment for replica in replicas for segment in _plan_replica(replica, options)]


def list_replicas(options: ReadOptions) -> list[Replica]:
    replicas = [
        replica for number, path in enumerate(options.paths) for replica in _list_directory(path, number, options)
    ]
    present = {replica.topic for replica in replicas}
    for topic in options.topics:
        if topic not in present:
            raise LogDirectoryError(f"topic {topic!r} is in none of the log directories {', '.join(options.paths)}")
    return sorted(replicas, key=lambda replica: (replica.broker, replica.topic, replica.partition))


# --- directories -----------------------------------------------------------------------------------------------------


def _list_directory(path: str, number: int, options: ReadOptions) -> Iterator[Replica]:
    _check_log_directory(path)
    broker = options.brokers[number] if options.brokers else read_broker_id(path)
    for root in list_roots(path):
        partitions = {key: name for key, name in _list_partitions(root) if _is_wanted(key[0], options)}
        if not partitions:
            continue
        log_starts = _read_checkpoint(os.path.join(root, LOG_STARTS)) or {}
        hwms = _read_checkpoint(os.path.join(root, HIGH_WATERMARKS))
        if options.bound == HWM:
            _check_high_watermarks(root, partitions, hwms)
        for key, name in partitions.items():
            yield Replica(broker, *key, os.path.join(root, name), (hwms or {}).get(key), log_starts.get(key, 0))


def list_roots(path: str) -> list[str]:
    """Where a log directory may have the directories of partitions."""
    roots = (os.path.join(path, subdirectory) if subdirectory else path for subdirectory in _SUBDIRECTORIES)
    return [root for root in roots if os.path.isdir(root)]


def _check_log_directory(path: str) -> None:
    """A log directory may be empty of partitions, but then it has a meta.properties."""
    if os.path.exists(os.path.join(path, META_PROPERTIES)) or _has_partitions(path):
        return
    children = (os.path.join(path, name) for name in sorted(os.listdir(path)))
    hint = next((f" Did you mean {child!r}?" for child in children if _has_partitions(child)), "")
    raise LogDirectoryError(
        f"{path!r} is not a log directory: it has neither {META_PROPERTIES} nor directories such as orders-0.{hint}"
    )


def _has_partitions(path: str) -> bool:
    return any(True for root in list_roots(path) for _ in _list_partitions(root))


def _list_partitions(root: str) -> Iterator[tuple[TopicPartition, str]]:
    """Directories that are being deleted or moved have other names."""
    for name in sorted(os.listdir(root)) if os.path.isdir(root) else ():
        key = parse_directory(name)
        if key is not None and os.path.isdir(os.path.join(root, name)):
            yield key, name


def _is_wanted(topic: str, options: ReadOptions) -> bool:
    return topic in options.topics if options.topics else topic != METADATA_TOPIC


def _check_high_watermarks(
    root: str, partitions: dict[TopicPartition, str], hwms: dict[TopicPartition, int] | None
) -> None:
    if any(topic == METADATA_TOPIC for topic, _ in partitions):
        raise LogDirectoryError(
            f"no file has the high watermark of {METADATA_TOPIC}: set 'bound' to 'end' to read that topic"
        )
    if hwms is None:
        path = os.path.join(root, HIGH_WATERMARKS)
        raise LogDirectoryError(f"{path} is missing or damaged: set 'bound' to 'end' to read without high watermarks")


def _read_checkpoint(path: str) -> dict[TopicPartition, int] | None:
    try:
        with open(path, "rb") as file:
            return decode_offsets(file.read())
    except FileNotFoundError:
        return None


def read_broker_id(path: str) -> int:
    for directory in (path, os.path.dirname(path)):  # ours is one level above `data`
        try:
            with open(os.path.join(directory, META_PROPERTIES), "rb") as file:
                fields = decode_meta_properties(file.read())
        except FileNotFoundError:
            continue
        text = fields.get("node.id", fields.get("broker.id", ""))
        if text.isdecimal():
            return int(text)
    raise LogDirectoryError(f"{path!r} has no {META_PROPERTIES} with a broker id: give the ids with 'brokers'")


# --- segments of one replica -----------------------------------------------------------------------------------------


def _plan_replica(replica: Replica, options: ReadOptions) -> list[Segment]:
    bases = sorted(base for name in os.listdir(replica.directory) if (base := parse_file_name(name, LOG)) is not None)
    hwm = replica.hwm or 0
    limit = hwm if options.bound == HWM else NO_LIMIT
    low = max(replica.log_start, options.start_offset or 0)
    high = limit if options.end_offset is None else min(limit, options.end_offset)
    segments = [
        Segment(
            broker=replica.broker,
            topic=replica.topic,
            partition=replica.partition,
            path=os.path.join(replica.directory, file_name(base, LOG)),
            base=base,
            start=low,
            end=high,
            required_end=min(hwm, high) if next_base == NO_LIMIT else -1,
            corrupt=options.corrupt,
            include_control=options.include_control,
        )
        for base, next_base in pairwise([*bases, NO_LIMIT])
        if next_base > low and base < high
    ]
    return [segment for segment in _limit_by_time(segments, options) if segment.start < segment.end]


def _limit_by_time(segments: list[Segment], options: ReadOptions) -> list[Segment]:
    """A timestamp becomes an offset, as in Kafka: that of the first record that is not older."""
    if options.start_time_ms is not None:
        start = _find_offset_for_timestamp(segments, options.start_time_ms)
        if start is None:
            return []
        number, offset = start
        segments = [replace(segment, start=max(segment.start, offset)) for segment in segments[number:]]
    if options.end_time_ms is not None and (end := _find_offset_for_timestamp(segments, options.end_time_ms)):
        number, offset = end
        segments = [
            replace(segment, end=min(segment.end, offset), required_end=min(segment.required_end, segment.end, offset))
            for segment in segments[: number + 1]
            if segment.base < offset
        ]
    return segments if options.newer_than_ms is None else _skip_older(segments, options.newer_than_ms)


def _skip_older(segments: list[Segment], timestamp_ms: int) -> list[Segment]:
    """Without the segments whose records are all older, and without the older records that a segment begins with."""
    newer = []
    for segment in segments:
        position = _find_offset_for_timestamp([segment], timestamp_ms)
        if position is not None:
            newer.append(replace(segment, start=max(segment.start, position[1])))
    return newer


def _find_offset_for_timestamp(segments: list[Segment], timestamp_ms: int) -> tuple[int, int] | None:
    """(number of the segment, offset); None if all records are older."""
    from insync.logdir import times  # loading the decoder takes a second, and most plans do not need it

    for number, segment in enumerate(segments):
        offset = times.find_offset_for_timestamp(
            segment.stem, segment.base, segment.start, segment.end, timestamp_ms, closed=segment.required_end < 0
        )
        if offset is not None:
            return number, offset
    return None
