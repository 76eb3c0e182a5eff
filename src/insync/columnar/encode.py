"""Arrow columns to record batches, without a Python loop over records: the inverse of `decode`.

    builder = BatchBuilder(codec=LZ4, target=512 << 10)
    taken = builder.add(columns, rows, first=0, now_ms=...)      # as many as fit
    data = builder.finish(producer_id, producer_epoch, sequence)

`rows` selects and orders the rows. A builder collects those of one partition, over any number of calls.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

import numpy as np
from crc32c import crc32c
from numba import njit

from insync.columnar.columns import Columns
from insync.columnar.walk import copy_bytes
from insync.wire import compression
from insync.wire.batch import HEADER_SIZE, MAGIC

_HEADER = Struct(">qiibIhiqqqhii")
_CRC_AT, _CRC_FROM = 17, 21
_U32 = Struct(">I")
_LENGTH_END = 12
_NO_EPOCH = -1


class BatchBuilder:
    __slots__ = ("_at", "_base_time", "_buffer", "_codec", "_newest", "_target", "count")

    def __init__(self, codec: int = compression.NONE, target: int = 512 << 10) -> None:
        self._codec = codec
        self._target = max(target, HEADER_SIZE + 1)
        self._buffer: Any = np.empty(0, np.uint8)
        self._reset()

    def _reset(self) -> None:
        self._at = HEADER_SIZE
        self.count = 0
        self._base_time = self._newest = -1

    @property
    def size(self) -> int:
        """In bytes, before compression."""
        return self._at

    def add(self, columns: Columns, rows: Any, first: int, now_ms: int) -> int:
        """Add the rows `rows[first:]`; returns how many fit. A record larger than the target is a batch of its own."""
        if not len(self._buffer):
            self._buffer = np.empty(self._target, np.uint8)
        if first >= len(rows):
            return 0
        if self.count == 0:
            self._base_time = self._newest = int(columns.times[rows[first]]) if len(columns.times) else now_ms
        taken, at, newest = self._fill(columns, rows, first)
        if taken == 0 and self.count == 0:
            self._buffer = np.empty(HEADER_SIZE + at, np.uint8)  # `at` is the size of the record
            taken, at, newest = self._fill(columns, rows, first)
        if taken:
            self._at, self._newest = at, max(self._newest, newest)
            self.count += taken
        return taken

    def _fill(self, columns: Columns, rows: Any, first: int) -> tuple[int, int, int]:
        result = fill_records(
            *(self._buffer, self._at, self.count, self._base_time, rows, first),
            *(*columns.keys, *columns.values, columns.headers.at),
            *(columns.headers.names.at, columns.headers.names.bytes, *columns.headers.contents, columns.times),
        )
        return int(result[0]), int(result[1]), int(result[2])

    def finish(self, producer_id: int = -1, producer_epoch: int = -1, sequence: int = -1) -> bytes:
        """Returns the batch; the builder is empty afterwards."""
        if self._codec == compression.NONE:
            data = bytearray(self._buffer[: self._at].data)
        else:
            packed = compression.compress(self._codec, bytes(self._buffer[HEADER_SIZE : self._at].data))
            data = bytearray(HEADER_SIZE) + packed
        length, last, records = len(data) - _LENGTH_END, self.count - 1, self.count
        times = (self._base_time, self._newest)
        producer = (producer_id, producer_epoch, sequence)
        _HEADER.pack_into(data, 0, 0, length, _NO_EPOCH, MAGIC, 0, self._codec, last, *times, *producer, records)
        _U32.pack_into(data, _CRC_AT, crc32c(memoryview(data)[_CRC_FROM:]))
        self._buffer = self._buffer if len(self._buffer) == self._target else np.empty(0, np.uint8)
        self._reset()
        return bytes(data)


@njit(cache=True, inline="always")  # type: ignore[untyped-decorator]
def _varint_size(value: int) -> Any:
    """Bytes of a zigzag varint."""
    raw = np.uint64((value << 1) ^ (value >> 63))
    size = 1
    while raw >= np.uint64(128):
        raw >>= np.uint64(7)
        size += 1
    return size


@njit(cache=True, inline="always")  # type: ignore[untyped-decorator]
def _put_varint(out: Any, at: int, value: int) -> Any:
    raw = np.uint64((value << 1) ^ (value >> 63))
    while raw >= np.uint64(128):
        out[at] = np.uint8((raw & np.uint64(0x7F)) | np.uint64(0x80))
        raw >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(raw)
    return at + 1


@njit(cache=True, inline="always")  # type: ignore[untyped-decorator]
def _bytes_size(at: Any, known: Any, i: int) -> Any:
    """Of a byte string with its length."""
    if not known[i]:
        return 1
    size = np.int64(at[i + 1]) - np.int64(at[i])
    return size + _varint_size(size)


@njit(cache=True, inline="always")  # type: ignore[untyped-decorator]
def _put_bytes(out: Any, to: int, at: Any, data: Any, known: Any, i: int) -> Any:
    if not known[i]:
        return _put_varint(out, to, -1)
    size = np.int64(at[i + 1]) - np.int64(at[i])
    to = _put_varint(out, to, size)
    copy_bytes(out, to, data, np.int64(at[i]), size)
    return to + size


@njit(cache=True)  # type: ignore[untyped-decorator]
def fill_records(
    out: Any,
    to: int,
    index: int,  # of the next record in its batch
    base_time: int,
    rows: Any,
    first: int,
    key_at: Any,
    key_bytes: Any,
    key_known: Any,
    value_at: Any,
    value_bytes: Any,
    value_known: Any,
    list_at: Any,
    name_at: Any,
    name_bytes: Any,
    content_at: Any,
    content_bytes: Any,
    content_known: Any,
    times: Any,
) -> Any:
    """(records written, position after them, newest timestamp); if not even one fits, the size of the first instead."""
    taken, newest = 0, base_time
    for n in range(first, len(rows)):
        row = rows[n]
        time = times[row] if len(times) else base_time
        begin, end = np.int64(list_at[row]), np.int64(list_at[row + 1])
        size = 1 + _varint_size(time - base_time) + _varint_size(index + taken) + _varint_size(end - begin)
        size += _bytes_size(key_at, key_known, row) + _bytes_size(value_at, value_known, row)
        for h in range(begin, end):
            name = np.int64(name_at[h + 1]) - np.int64(name_at[h])
            size += name + _varint_size(name) + _bytes_size(content_at, content_known, h)
        if to + size + _varint_size(size) > len(out):
            if taken == 0:
                return 0, size + _varint_size(size), newest
            break
        to = _put_varint(out, to, size)
        out[to] = 0
        to = _put_varint(out, to + 1, time - base_time)
        to = _put_varint(out, to, index + taken)
        to = _put_bytes(out, to, key_at, key_bytes, key_known, row)
        to = _put_bytes(out, to, value_at, value_bytes, value_known, row)
        to = _put_varint(out, to, end - begin)
        for h in range(begin, end):
            name = np.int64(name_at[h + 1]) - np.int64(name_at[h])
            to = _put_varint(out, to, name)
            copy_bytes(out, to, name_bytes, np.int64(name_at[h]), name)
            to = _put_bytes(out, to + name, content_at, content_bytes, content_known, h)
        newest = max(newest, time)
        taken += 1
    return taken, to, newest
