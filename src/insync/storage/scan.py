"""Scanning the batches of a segment file, in order.

`headers` reads headers and little else; `batches` reads everything. Both stop where the bytes cannot be a whole batch
or are unreadable (D6). Whether the batches are sound is for the caller to check.
"""

from __future__ import annotations

from collections.abc import Iterator

from insync.storage.disk import DiskFile, read_with_gaps
from insync.wire.batch import HEADER_SIZE, MAGIC, BatchHeader, read_header

_HEADER_CHUNK_BYTES = 4096
_CHUNK_BYTES = 1 << 20


def headers(file: DiskFile, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of the batches between two positions."""
    position = start
    while end - position >= HEADER_SIZE:
        chunk = read_with_gaps(file, position, min(_HEADER_CHUNK_BYTES, end - position))
        at = 0
        while len(chunk) - at >= HEADER_SIZE:
            header = read_header(chunk, at)
            if header.length < HEADER_SIZE or header.length > end - position - at:
                return
            yield position + at, header
            at += header.length
        if at == 0:
            return
        position += at


def is_batch(file: DiskFile, position: int, end: int, last_offset: int) -> bool:
    """Whether a batch that ends with `last_offset` can be at `position`."""
    if end - position < HEADER_SIZE:
        return False
    header = read_header(read_with_gaps(file, position, HEADER_SIZE).ljust(HEADER_SIZE, b"\0"))
    return header.magic == MAGIC and header.length <= end - position and header.last_offset == last_offset


def batches(file: DiskFile, start: int, end: int) -> Iterator[tuple[int, BatchHeader, bytes, int]]:
    """(position, header, buffer, position in the buffer) of the batches between two positions."""
    position, want = start, _CHUNK_BYTES
    while end - position >= HEADER_SIZE:
        chunk = read_with_gaps(file, position, min(want, end - position))
        want = _CHUNK_BYTES
        at = 0
        while len(chunk) - at >= HEADER_SIZE:
            header = read_header(chunk, at)
            if header.length < HEADER_SIZE or header.length > end - position - at:
                return
            if header.length > len(chunk) - at:
                want = max(_CHUNK_BYTES, header.length)
                break
            yield position + at, header, chunk, at
            at += header.length
        if at == 0 and want <= len(chunk):
            return
        position += at
