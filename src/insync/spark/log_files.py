"""Log directories, Apache Kafka's and ours: which replicas and segments there are, and what of them is wanted.

A log directory holds `meta.properties`, checkpoints and one directory per partition; ours keeps partitions and the
metadata log apart, in `data` and `metadata`. A segment's name is its first offset. The high watermark, as the broker
last wrote it down, bounds what is read: what lies above may still be taken back. What lies below the log's start is
deleted, though still on disk.

    for segment in plan(read_options({"path": "/var/lib/kafka"})):
        for batch in log_rows.read(segment, ("offset", "value")):
            ...
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from insync.spark.log_options import FAIL, HWM, LogOptions
from insync.spark.options import OptionError
from insync.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    decode_meta_properties,
    decode_offsets,
)
from insync.wire.types import METADATA_TOPIC

FOREVER = (1 << 63) - 1
_PARTITION = re.compile(r"(.+)-(\d+)")
_SEGMENT = re.compile(r"(\d{20})\.log")
_PLACES = ("", "data", "metadata")

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Segment:
    """What one task reads: the records from `start` up to, not including, `end`."""

    broker: int
    topic: str
    partition: int
    path: str
    base: int
    start: int
    end: int
    reach: int
    """The log is damaged if it ends below this offset; -1 where a later segment follows."""
    corrupt: str = FAIL
    include_control: bool = False

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def stem(self) -> str:
        return self.path.removesuffix(".log")


@dataclass(frozen=True, slots=True)
class Replica:
    broker: int
    topic: str
    partition: int
    directory: str
    hwm: int | None
    """None if the broker has not written one down, which counts as 0."""
    log_start: int


def plan(options: LogOptions) -> list[Segment]:
    """The segments that hold something of what is wanted, in order."""
    return [segment for replica in replicas(options) for segment in _segments(replica, options)]


def replicas(options: LogOptions) -> list[Replica]:
    found = [each for at, path in enumerate(options.paths) for each in _of_directory(path, at, options)]
    if missing := [topic for topic in options.topics if topic not in {each.topic for each in found}]:
        raise OptionError(f"option 'topics' names {missing[0]!r}: no directory of option 'path' has it")
    return sorted(found, key=lambda each: (each.broker, each.topic, each.partition))


# --- directories -----------------------------------------------------------------------------------------------------


def _of_directory(path: str, at: int, options: LogOptions) -> Iterator[Replica]:
    _is_log_directory(path)
    broker = options.brokers[at] if options.brokers else _broker_of(path)
    for place in _PLACES:
        root = os.path.join(path, place) if place else path
        keys = {key: name for key, name in _partitions(root) if _wanted(key[0], options)}
        if not keys:
            continue
        starts = _checkpoint(os.path.join(root, LOG_STARTS)) or {}
        marks = _checkpoint(os.path.join(root, HIGH_WATERMARKS))
        if options.bound == HWM:
            _has_marks(root, keys, marks)
        for key, name in keys.items():
            yield Replica(broker, *key, os.path.join(root, name), (marks or {}).get(key), starts.get(key, 0))


def _is_log_directory(path: str) -> None:
    """It may be empty; a directory of something else is a mistake."""
    if os.path.exists(os.path.join(path, META_PROPERTIES)) or _has_partitions(path):
        return
    below = sorted(os.path.join(path, name) for name in os.listdir(path))
    hint = next((f"; {each!r} is one" for each in below if os.path.isdir(each) and _has_partitions(each)), "")
    raise OptionError(
        f"option 'path' names {path!r}: that is no log directory, which has a {META_PROPERTIES} "
        f"and directories such as orders-0{hint}"
    )


def _has_partitions(path: str) -> bool:
    return any(True for place in _PLACES for _ in _partitions(os.path.join(path, place)))


def _partitions(root: str) -> Iterator[tuple[Key, str]]:
    """Directories that are being deleted or moved have longer names, which end otherwise."""
    for name in sorted(os.listdir(root)) if os.path.isdir(root) else ():
        found = _PARTITION.fullmatch(name)
        if found and os.path.isdir(os.path.join(root, name)):
            yield (found[1], int(found[2])), name


def _wanted(topic: str, options: LogOptions) -> bool:
    return topic in options.topics if options.topics else topic != METADATA_TOPIC


def _has_marks(root: str, keys: dict[Key, str], marks: dict[Key, int] | None) -> None:
    if any(topic == METADATA_TOPIC for topic, _ in keys):
        raise OptionError(f"option 'topics' names {METADATA_TOPIC}: no file has its high watermark, set 'bound' to end")
    if marks is None:
        path = os.path.join(root, HIGH_WATERMARKS)
        raise OptionError(f"{path} is missing or damaged: without high watermarks, set option 'bound' to end")


def _checkpoint(path: str) -> dict[Key, int] | None:
    try:
        with open(path, "rb") as file:
            return decode_offsets(file.read())
    except FileNotFoundError:
        return None


def _broker_of(path: str) -> int:
    for directory in (path, os.path.dirname(path)):  # ours: one above `data`
        try:
            with open(os.path.join(directory, META_PROPERTIES), "rb") as file:
                fields = decode_meta_properties(file.read())
        except FileNotFoundError:
            continue
        text = fields.get("node.id", fields.get("broker.id", ""))
        if text.isdecimal():
            return int(text)
    raise OptionError(
        f"option 'path' names {path!r}: no {META_PROPERTIES} there tells the broker; give the ids with option 'brokers'"
    )


# --- segments of one replica -----------------------------------------------------------------------------------------


def _segments(replica: Replica, options: LogOptions) -> list[Segment]:
    names = sorted(name for name in os.listdir(replica.directory) if _SEGMENT.fullmatch(name))
    bases = [int(name[:20]) for name in names]
    if not names:
        return []
    hwm = replica.hwm or 0
    limit = hwm if options.bound == HWM else FOREVER
    low = max(replica.log_start, options.start or 0)
    high = limit if options.end is None else min(limit, options.end)
    found = [
        Segment(
            broker=replica.broker,
            topic=replica.topic,
            partition=replica.partition,
            path=os.path.join(replica.directory, name),
            base=base,
            start=low,
            end=high,
            reach=min(hwm, high) if following == FOREVER else -1,
            corrupt=options.corrupt,
            include_control=options.include_control,
        )
        for name, base, following in zip(names, bases, [*bases[1:], FOREVER], strict=True)
        if following > low and base < high
    ]
    return [each for each in _between_times(found, options) if each.start < each.end]


def _between_times(segments: list[Segment], options: LogOptions) -> list[Segment]:
    """A time becomes an offset, as in Kafka: that of the first record which is not older."""
    if options.start_time is not None:
        at = _first_not_older(segments, options.start_time)
        if at is None:
            return []
        first, offset = at
        segments = [replace(each, start=max(each.start, offset)) for each in segments[first:]]
    if options.end_time is not None and (at := _first_not_older(segments, options.end_time)):
        last, offset = at
        segments = [replace(each, end=min(each.end, offset)) for each in segments[: last + 1] if each.base < offset]
        segments = [replace(each, reach=min(each.reach, each.end)) for each in segments]
    return segments


def _first_not_older(segments: list[Segment], time: int) -> tuple[int, int] | None:
    """(which segment, offset)."""
    from insync.spark import log_times  # the decoder is slow to load, and most plans do without

    for i, each in enumerate(segments):
        closed = each.reach < 0
        offset = log_times.first_not_older(each.stem, each.base, each.start, each.end, time, closed=closed)
        if offset is not None:
            return i, offset
    return None
