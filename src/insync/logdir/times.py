"""From a timestamp to an offset of a segment. The time index finds the batch; only that one is decoded.

Damage is not reported here but by the reader of the segment. Until then the whole segment counts as wanted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from insync.columnar.decode import DecodeOptions, decode
from insync.logdir import indexes
from insync.logdir.chunks import Chunk, read_chunks
from insync.logdir.indexes import IndexFileError


def find_offset_for_timestamp(
    stem: str, base: int, start: int, end: int, timestamp_ms: int, *, closed: bool
) -> int | None:
    """The first offset from `start` up to `end` with a timestamp of at least `timestamp_ms`; None if there is none.
    Only the time index of a `closed` segment has its largest timestamp."""
    try:
        newest = indexes.read_last_timestamp(stem) if closed else None
        if newest is not None and newest < timestamp_ms:
            return None
        times = indexes.read_time_index(stem, base)
        offsets = indexes.read_offset_index(stem, base)
        position = offsets.floor(max(times.floor(timestamp_ms, base), start), 0)
        return _search(f"{stem}.log", position, start, end, timestamp_ms)
    except (IndexFileError, OSError):
        return max(base, start)


def _search(path: str, position: int, start: int, end: int, timestamp_ms: int) -> int | None:
    for chunk in read_chunks(path, position):
        if not isinstance(chunk, Chunk):
            return None
        headers = chunk.headers
        for i in np.flatnonzero((headers.max_timestamp >= timestamp_ms) & (headers.last_offset >= start)):
            if headers.base_offset[i] >= end:
                return None
            offset = _search_batch(chunk, i, start, end, timestamp_ms)
            if offset is not None:
                return offset
        if len(headers) and headers.last_offset[-1] >= end:
            return None
    return None


def _search_batch(chunk: Chunk, i: Any, start: int, end: int, timestamp_ms: int) -> int | None:
    at, size = int(chunk.headers.position[i]), int(chunk.headers.size[i])
    data = bytes(chunk.data[at : at + size])
    records = decode(data, DecodeOptions(("offset", "timestamp", "control"), start, end)).batch
    late = pc.greater_equal(records.column("timestamp").cast("int64"), timestamp_ms * 1_000)
    offsets = records.column("offset").filter(late)
    return offsets[0].as_py() if len(offsets) else None
