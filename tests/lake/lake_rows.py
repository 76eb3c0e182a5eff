"""Rows of a lake, with numbered keys and values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from insync.lake.writer import DECODED, SCHEMA

TYPES = {name: SCHEMA.field(name).type for name in DECODED}


def make_rows(start: int, times: list[int]) -> pa.RecordBatch:
    count = len(times)
    columns = {
        "offset": pa.array(range(start, start + count), pa.int64()),
        "timestamp": pa.array(np.array(times) * 1000).view(TYPES["timestamp"]),
        "key": pa.array([b"k%d" % i for i in range(start, start + count)], pa.binary()),
        "value": pa.array([b"v%d" % i for i in range(start, start + count)], pa.binary()),
    }
    zeros = {
        name: pa.array(np.zeros(count, int)).cast(TYPES[name])
        for name in DECODED
        if name not in columns and name != "headers"
    }
    return pa.RecordBatch.from_pydict({**columns, "headers": pa.nulls(count, TYPES["headers"]), **zeros})
