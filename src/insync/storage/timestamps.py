"""From a time to an offset. The time index finds the batch; only that one batch is looked into."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from insync.storage import scan
from insync.storage.disk import read_with_gaps
from insync.storage.segment import Segment
from insync.wire import batch as batches
from insync.wire.batch import BatchHeader
from insync.wire.errors import MalformedBatch
from insync.wire.filtering import MOST_RECORDS
from insync.wire.record import Record

if TYPE_CHECKING:
    from insync.storage.log import Log


def first_at_or_after(log: Log, timestamp: int, limit_offset: int) -> tuple[int, int] | None:
    return _below(_first(log, timestamp), limit_offset)


def newest(log: Log, limit_offset: int) -> tuple[int, int] | None:
    """The first of the records with the largest timestamp; None if that one is not below `limit_offset`."""
    record = _first(log, log.max_timestamp)
    if record is None:  # compaction emptied the batch that had it: only the other headers tell which is next
        headers = log.iter_headers(log.log_start, log.leo)
        record = _first(log, max((header.max_timestamp for header in headers if header.count), default=-1))
    return _below(record, limit_offset)


def _first(log: Log, timestamp: int) -> Record | None:
    """None if there is no such record, or no such time."""
    for segment in log.segments if timestamp >= 0 else ():
        if segment.max_timestamp < timestamp:
            continue
        for record in _candidates(log.warm(segment), timestamp):
            if record.timestamp_ms >= timestamp and record.offset >= log.log_start:
                return record
    return None


def _below(record: Record | None, limit_offset: int) -> tuple[int, int] | None:
    return None if record is None or record.offset >= limit_offset else (record.offset, record.timestamp_ms)


def _candidates(segment: Segment, timestamp: int) -> Iterator[Record]:
    """The records of the batches, in order, whose largest timestamp is not below `timestamp`."""
    file = segment.file
    start = max(0, segment.index.floor(max(segment.base, segment.times.floor(timestamp))))
    for position, header in scan.headers(file, start, segment.size):
        if header.magic != batches.MAGIC or header.base_offset < segment.base:
            return  # D6: behind damage nothing is known
        if header.max_timestamp >= timestamp:
            yield from _readable(read_with_gaps(file, position, header.length), header)


def _readable(data: bytes, header: BatchHeader) -> Iterator[Record]:
    """Nobody but its producer has looked into a batch (P5): one that cannot be read is told by its first offset."""
    try:
        if header.count <= MOST_RECORDS:
            yield from batches.records(data)
            return
    except MalformedBatch:
        pass
    yield Record(header.base_offset, header.max_timestamp, None, None)
