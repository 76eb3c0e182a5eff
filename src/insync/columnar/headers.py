"""The headers of record batches as arrays, one element for each batch, read by compiled code."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from insync.wire.batch import HEADER_SIZE, MAGIC

_LENGTH_END = 12
_FIELDS = 14

TRANSACTIONAL, CONTROL, LOG_APPEND_TIME, CODEC = 0x10, 0x20, 0x08, 0x07


class Headers(NamedTuple):
    """The headers of whole batches, in order: arrays of the same length."""

    position: Any
    size: Any
    base_offset: Any
    leader_epoch: Any
    crc: Any
    attributes: Any
    last_offset_delta: Any
    base_timestamp: Any
    max_timestamp: Any
    producer_id: Any
    producer_epoch: Any
    base_sequence: Any
    count: Any
    magic: Any

    def __len__(self) -> int:
        return len(self.position)

    @property
    def last_offset(self) -> Any:
        return self.base_offset + self.last_offset_delta

    def select(self, mask: Any) -> Headers:
        return Headers(*(column[mask] for column in self))


def scan_headers(data: Any) -> tuple[Headers, int, bool]:
    """(headers, bytes of whole batches, whether what follows cannot be a batch)."""
    rows, used, broken = _scan(data, np.empty((len(data) // HEADER_SIZE + 1, _FIELDS), np.int64))
    return Headers(*rows.T), int(used), bool(broken)


def next_offset(data: bytes | memoryview) -> int:
    """One past the last whole batch; -1 if there is none."""
    headers, _, _ = scan_headers(np.frombuffer(data, np.uint8))
    return int(headers.last_offset[-1]) + 1 if len(headers) else -1


@njit(cache=True)  # type: ignore[untyped-decorator]
def _big_endian(data: Any, at: int, size: int) -> Any:
    value = np.int64(data[at])
    if value >= 128:
        value -= 256
    for i in range(1, size):
        value = (value << 8) | np.int64(data[at + i])
    return value


@njit(cache=True)  # type: ignore[untyped-decorator]
def _scan(data: Any, rows: Any) -> Any:
    at, n = 0, 0
    while at + HEADER_SIZE <= len(data):
        size = _LENGTH_END + _big_endian(data, at + 8, 4)
        if size < HEADER_SIZE:
            return rows[:n], at, True
        if at + size > len(data):
            break
        row = rows[n]
        row[0] = at
        row[1] = size
        row[2] = _big_endian(data, at, 8)
        row[3] = _big_endian(data, at + 12, 4)
        row[4] = _big_endian(data, at + 17, 4) & 0xFFFFFFFF
        row[5] = _big_endian(data, at + 21, 2)
        row[6] = _big_endian(data, at + 23, 4)
        row[7] = _big_endian(data, at + 27, 8)
        row[8] = _big_endian(data, at + 35, 8)
        row[9] = _big_endian(data, at + 43, 8)
        row[10] = _big_endian(data, at + 51, 2)
        row[11] = _big_endian(data, at + 53, 4)
        row[12] = _big_endian(data, at + 57, 4)
        row[13] = data[at + 16]
        n += 1
        at += size
    return rows[:n], at, False


__all__ = ["CODEC", "CONTROL", "LOG_APPEND_TIME", "MAGIC", "TRANSACTIONAL", "Headers", "next_offset", "scan_headers"]
