"""A segment file in chunks of whole batches.

Files are read, not mapped: a broker that truncates a mapped file would kill the process that maps it. A running broker
appends while we read, so the size of the file is taken once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from insync.columnar.headers import MAGIC, Headers, scan_headers
from insync.wire.batch import HEADER_SIZE

CHUNK_BYTES = 4 << 20
"""40,000 records of 100 bytes: the size of Arrow batch that suits Spark best."""
_LENGTH_END = 12  # base offset and batch length; the length counts what follows
_MAGIC_AT = 16


@dataclass(frozen=True, slots=True)
class Chunk:
    position: int
    """In the file."""
    data: memoryview
    """Whole batches. Overwritten when the next chunk is read."""
    headers: Headers

    @property
    def end(self) -> int:
        return self.position + len(self.data)


@dataclass(frozen=True, slots=True)
class TrailingBytes:
    """Bytes after the last whole batch that are not a whole batch. Nothing of a file comes after them."""

    position: int
    size: int
    reason: str


def read_chunks(path: str, position: int, limit: int | None = None) -> Iterator[Chunk | TrailingBytes]:
    """From the position of a batch up to `limit` (also the position of a batch) or the end of the file."""
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        size = size if limit is None else min(size, limit)
        buffer = bytearray(min(CHUNK_BYTES, max(size - position, 0)))
        while position < size:
            view = _read(file, buffer, position, min(len(buffer), size - position))
            headers, used, broken = scan_headers(_as_array(view))
            if len(headers):
                yield Chunk(position, view[:used], headers)
                position += used
                continue
            needed = _batch_size(view)
            left = size - position
            if broken:
                reason = f"not a valid batch length ({needed} bytes); the {left} bytes from there on are not read"
                yield TrailingBytes(position, left, reason)
                return
            if needed > left:
                reason = f"the file ends within a batch: {left} bytes of at least {needed}"
                yield TrailingBytes(position, left, reason)
                return
            buffer = bytearray(needed)


def parse_headers(data: memoryview) -> Headers:
    return scan_headers(_as_array(data))[0]


def has_batch_at(path: str, position: int, low: int, high: int) -> bool:
    """Whether a batch with a base offset from `low` to `high` can start at `position`. True if the file is unreadable:
    the reader of the file reports that."""
    try:
        with open(path, "rb", buffering=0) as file:
            file.seek(position)
            header = file.read(HEADER_SIZE)
    except OSError:
        return True
    return (
        len(header) == HEADER_SIZE and header[_MAGIC_AT] == MAGIC and low <= int.from_bytes(header[:8], "big") <= high
    )


def _read(file: Any, buffer: bytearray, position: int, count: int) -> memoryview:
    file.seek(position)
    view = memoryview(buffer)[:count]
    done = 0
    while done < count and (more := file.readinto(view[done:])):
        done += more
    return view[:done]


def _as_array(view: memoryview) -> Any:
    array = np.frombuffer(view, np.uint8)
    array.flags.writeable = False
    return array


def _batch_size(view: memoryview) -> int:
    if len(view) < HEADER_SIZE:
        return HEADER_SIZE
    return _LENGTH_END + int.from_bytes(view[8:_LENGTH_END], "big", signed=True)
