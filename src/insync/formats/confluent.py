"""Confluent's wire format: a zero byte, the schema's id in four bytes, for Protobuf the message's place in its file.

The place is a list of indexes, each below the message before it: their number, then the indexes, all zigzag varints. A
single zero stands for the first message.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from insync.columnar.walk import read_varint
from insync.formats.errors import BAD_VARINT, NO_MAGIC

HEADER = 5
MAX_INDEXES = 100


def split_ids(data: Any, starts: Any, ends: Any, status: Any) -> Any:
    """The schema id of each value, which then begins after it. Values that are null or have no id get -1."""
    ids = np.full(len(starts), -1, np.int64)
    present = starts >= 0
    long_enough = present & (ends - starts >= HEADER)
    rows = np.flatnonzero(long_enough)
    at = starts[rows]
    rows = rows[data[at] == 0] if len(at) else rows
    at = starts[rows]
    words = [data[at + i].astype(np.int64) << (8 * (4 - i)) for i in range(1, HEADER)] if len(at) else [at]
    ids[rows] = sum(words[1:], words[0])
    status[present & (ids < 0)] = NO_MAGIC
    starts[rows] += HEADER
    starts[ids < 0] = -1
    return ids


@njit(cache=True)  # type: ignore[untyped-decorator]
def skip_indexes(data: Any, starts: Any, ends: Any, status: Any, places: Any) -> None:
    """Move the starts behind the message indexes. `places` gets a number for each list of indexes: 0 for the first
    message, i for the i-th, and beyond a hash."""
    for row in range(len(starts)):
        at, end = starts[row], ends[row]
        if at < 0:
            continue
        count, at = read_varint(data, at, end)
        hashed = np.int64(0)
        if at >= 0 and (count < 0 or count > MAX_INDEXES):
            at = -1
        for i in range(count if at >= 0 else 0):
            index, at = read_varint(data, at, end)
            if at < 0:
                break
            hashed = index if i == 0 else (hashed + 1) * 1_000_003 + index
        if at < 0:
            status[row] = BAD_VARINT
        starts[row] = at
        places[row] = hashed


def read_indexes(value: bytes) -> tuple[int, ...]:
    """The message indexes of a whole value."""
    data = np.frombuffer(value, np.uint8)
    count, at = read_varint.py_func(data, HEADER, len(data))
    indexes = []
    for _ in range(count):
        index, at = read_varint.py_func(data, at, len(data))
        indexes.append(int(index))
    return tuple(indexes) or (0,)
