"""A segment file in pieces of whole batches.

Files are read, not mapped: a broker that cuts a mapped file would kill the process that looks at it. A running broker
appends while we read; how long the file is, is asked once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from insync.columnar.headers import MAGIC, Headers, scan
from insync.wire.batch import HEADER_SIZE

CHUNK_BYTES = 4 << 20
"""40,000 records of 100 bytes: the size of batch that Spark likes best."""
_LENGTH_FROM = 12
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
class Rest:
    """What lies behind the last whole batch and is no whole batch: the last thing that is told of a file."""

    position: int
    size: int
    reason: str


def chunks(path: str, position: int, limit: int | None = None) -> Iterator[Chunk | Rest]:
    """From a batch's position on, up to `limit` (a batch's position) or the end of the file."""
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        size = size if limit is None else min(size, limit)
        buffer = bytearray(min(CHUNK_BYTES, max(size - position, 0)))
        while position < size:
            view = _read(file, buffer, position, min(len(buffer), size - position))
            headers, used, broken = scan(_numbers(view))
            if len(headers):
                yield Chunk(position, view[:used], headers)
                position += used
                continue
            needed = _batch_size(view)
            if broken or needed > size - position:
                yield Rest(position, size - position, _reason(broken, needed, size - position))
                return
            buffer = bytearray(needed)


def headers_of(data: memoryview) -> Headers:
    return scan(_numbers(data))[0]


def begins_batch(path: str, position: int, low: int, high: int) -> bool:
    """Whether a batch with a first offset from `low` to `high` can be at a position. No file, no objection."""
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


def _numbers(view: memoryview) -> Any:
    numbers = np.frombuffer(view, np.uint8)
    numbers.flags.writeable = False
    return numbers


def _batch_size(view: memoryview) -> int:
    if len(view) < HEADER_SIZE:
        return HEADER_SIZE
    return _LENGTH_FROM + int.from_bytes(view[8:_LENGTH_FROM], "big", signed=True)


def _reason(broken: bool, needed: int, left: int) -> str:
    if broken:
        return f"a length that no batch has ({needed} bytes); the {left} bytes from there on are not read"
    return f"the file ends within a batch, of which there are {left} bytes instead of {needed} or more"
