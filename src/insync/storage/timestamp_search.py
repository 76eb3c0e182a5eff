"""From a timestamp to a record of a segment. The time index finds the batch; only that batch is decoded."""

from __future__ import annotations

from collections.abc import Iterator

from insync.storage import scan
from insync.storage.disk import read_with_gaps
from insync.storage.segment import Segment
from insync.wire import batch as batches
from insync.wire.batch import BatchHeader, Record
from insync.wire.batch_filter import MOST_RECORDS
from insync.wire.errors import MalformedBatchError


def find_record(segment: Segment, timestamp: int, start_offset: int) -> Record | None:
    """The first record from `start_offset` on that is not older than `timestamp`; None if there is none."""
    file = segment.file
    start = max(0, segment.index.floor(max(segment.base, segment.times.floor(timestamp))))
    for position, header in scan.headers(file, start, segment.size):
        if header.magic != batches.MAGIC or header.base_offset < segment.base:
            return None  # D6: nothing is known of what lies behind damage
        if header.max_timestamp >= timestamp:
            for record in _records(read_with_gaps(file, position, header.length), header):
                if record.timestamp_ms >= timestamp and record.offset >= start_offset:
                    return record
    return None


def _records(data: bytes, header: BatchHeader) -> Iterator[Record]:
    """A batch that cannot be decoded (P5: an older broker did not check it) is represented by its first offset."""
    try:
        if header.count <= MOST_RECORDS:
            yield from batches.records(data)
            return
    except MalformedBatchError:
        pass
    yield Record(header.base_offset, header.max_timestamp, None, None)
