"""Bytes and records of one segment, by the hour in which they were written.

A closed segment is measured by its indexes, which have an entry for every few kilobytes: its records are not read. The
active segment, a segment without indexes and those of compacted topics are measured by the headers of their batches.
Records without a timestamp count as written when the file was last changed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from insync.logdir import indexes
from insync.logdir.chunks import Chunk, read_chunks
from insync.logdir.indexes import IndexFileError
from insync.storage.file_names import LOG
from insync.wire.batch import HEADER_SIZE, read_header

HOUR_MS = 3_600_000

Hours = dict[int, tuple[int, int]]
"""Bytes and records by the number of the hour since 1970."""


@dataclass(frozen=True, slots=True)
class SegmentTask:
    path: str
    base: int
    next_base: int | None
    """Of the segment that follows; None: it is the active one."""
    compacted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSize:
    base: int
    size: int = 0
    records: int = 0
    first_ms: int = -1
    """The time of its oldest batch; -1 if it is empty."""
    max_timestamp: int = -1
    """-1: there is none."""
    hours: Hours = field(default_factory=dict)
    unread: int = 0
    """Bytes that are no valid batches."""
    broken: bool = False


def measure_segment(task: SegmentTask) -> SegmentSize:
    """Empty if a running broker has deleted the segment meanwhile."""
    try:
        size = os.path.getsize(task.path)
        if task.next_base is not None and not task.compacted:
            measured = _measure_by_indexes(task, size, task.next_base)
            if measured is not None:
                return measured
        return _measure_by_headers(task, size)
    except FileNotFoundError:
        return SegmentSize(base=task.base)


def _measure_by_indexes(task: SegmentTask, size: int, end: int) -> SegmentSize | None:
    """None unless both indexes are there and plausible. The last entry of a closed segment's time index has its largest
    timestamp."""
    stem = task.path.removesuffix(LOG)
    try:
        times = indexes.read_time_index(stem, task.base)
        offsets = indexes.read_offset_index(stem, task.base)
    except (IndexFileError, OSError):
        return None
    with open(task.path, "rb") as file:
        data = file.read(HEADER_SIZE)
    if not len(times) or not len(offsets) or len(data) < HEADER_SIZE:
        return None
    if offsets.values[-1] >= size or times.values[-1] >= end or times.keys[0] < 0:
        return None
    first = read_header(data)
    if first.length > offsets.values[0] or first.last_offset >= end:
        return None
    # an entry has the position of a batch, its last offset, and the largest timestamp up to there
    stamps = np.concatenate(([max(first.max_timestamp, 0) or times.keys[0]], times.keys))
    positions = [max(offsets.floor(int(offset), 0), first.length) for offset in times.values[1:]]
    sizes = np.diff([0, first.length, *positions, size])
    counts = np.diff([task.base, first.last_offset + 1, *(times.values[:-1] + 1), end])
    if (counts < 0).any():
        return None
    hours = _sum_by_hour(stamps, sizes, counts)
    return SegmentSize(
        base=task.base,
        size=size,
        records=end - task.base,
        first_ms=first.base_timestamp if first.base_timestamp >= 0 else int(times.keys[0]),
        max_timestamp=int(times.keys[-1]),
        hours=hours,
    )


def _measure_by_headers(task: SegmentTask, size: int) -> SegmentSize:
    changed_ms = os.stat(task.path).st_mtime_ns // 1_000_000
    hours: Hours = {}
    records, read, newest, oldest = 0, 0, -1, -1
    for chunk in read_chunks(task.path, 0, size):
        if not isinstance(chunk, Chunk):
            break
        headers = chunk.headers
        newest = max(newest, int(headers.max_timestamp.max()))
        stamps = np.where(headers.max_timestamp < 0, changed_ms, headers.max_timestamp)
        first = int(np.where(headers.base_timestamp < 0, stamps, headers.base_timestamp).min())
        oldest = first if oldest < 0 else min(first, oldest)
        counts = np.maximum(headers.count, 0)
        records += int(counts.sum())
        read = chunk.end
        add_hours(hours, _sum_by_hour(stamps, headers.size, counts))
    return SegmentSize(
        base=task.base,
        size=size,
        records=records,
        first_ms=oldest,
        max_timestamp=newest,
        hours=hours,
        unread=size - read,
        broken=read < size,
    )


def _sum_by_hour(times: Any, sizes: Any, counts: Any) -> Hours:
    hours, place = np.unique(times // HOUR_MS, return_inverse=True)
    size_sums = np.bincount(place, sizes, len(hours))
    count_sums = np.bincount(place, counts, len(hours))
    return {
        int(hour): (round(size), round(count))
        for hour, size, count in zip(hours.tolist(), size_sums.tolist(), count_sums.tolist(), strict=True)
    }


def add_hours(total: Hours, more: Hours) -> None:
    for hour, (size, count) in more.items():
        known = total.get(hour, (0, 0))
        total[hour] = (known[0] + size, known[1] + count)
