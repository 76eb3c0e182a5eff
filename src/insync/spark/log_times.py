"""From a time to an offset of a segment. The time index finds the batch; only that one is looked into.

What is damaged is not told here but by whoever reads the segment: meanwhile nothing of it is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from insync.columnar.decode import Wanted, decode
from insync.spark import log_indexes
from insync.spark.log_chunks import Chunk, chunks
from insync.spark.log_indexes import BadIndex


def first_not_older(stem: str, base: int, start: int, end: int, time: int, *, closed: bool) -> int | None:
    """The first offset from `start` up to `end` with a timestamp (ms) of at least `time`; None if there is none.
    Only the time index of a `closed` segment knows its largest timestamp."""
    try:
        newest = log_indexes.last_time(stem) if closed else None
        if newest is not None and newest < time:
            return None
        times = log_indexes.times(stem, base)
        offsets = log_indexes.offsets(stem, base)
        near = offsets.floor(max(times.floor(time, base), start), 0)
        return _search(f"{stem}.log", near, start, end, time)
    except (BadIndex, OSError):
        return max(base, start)


def _search(path: str, position: int, start: int, end: int, time: int) -> int | None:
    for chunk in chunks(path, position):
        if not isinstance(chunk, Chunk):
            return None
        headers = chunk.headers
        for i in np.flatnonzero((headers.max_timestamp >= time) & (headers.last_offset >= start)):
            if headers.base_offset[i] >= end:
                return None
            offset = _in_batch(chunk, i, start, end, time)
            if offset is not None:
                return offset
        if len(headers) and headers.last_offset[-1] >= end:
            return None
    return None


def _in_batch(chunk: Chunk, i: Any, start: int, end: int, time: int) -> int | None:
    at, size = int(chunk.headers.position[i]), int(chunk.headers.size[i])
    found = decode(bytes(chunk.data[at : at + size]), Wanted(("offset", "timestamp", "control"), start, end)).batch
    late = pc.greater_equal(found.column("timestamp").cast("int64"), time * 1_000)
    offsets = found.column("offset").filter(late)
    return offsets[0].as_py() if len(offsets) else None
