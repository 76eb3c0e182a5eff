"""`decode` turns raw record batches, as a broker sends or a segment holds them, into an Arrow record batch.

Compiled code decodes the records; Python handles each *batch* once: its CRC, its codec, whether it is visible. Only the
requested columns are made. A damaged batch becomes an entry of `corrupt` and no row; the caller decides what to do.
With the column `crc_ok`, the records of batches with a wrong checksum are rows too, as far as they can be decoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from insync.columnar import transactions, walk
from insync.columnar.buffers import HEADER_ROOM, TYPES, Buffers
from insync.columnar.header_columns import HeaderColumns
from insync.columnar.headers import CODEC, CONTROL, MAGIC, Headers, scan_headers
from insync.wire import compression
from insync.wire.batch import HEADER_SIZE
from insync.wire.errors import MalformedBatchError

READ_UNCOMMITTED, READ_COMMITTED = "read_uncommitted", "read_committed"
MAX_BYTES = 1 << 30
"""Of one call, decompressed: an Arrow binary column has 31-bit offsets."""
MIN_RECORD_BYTES = 7
"""Length, attributes, timestamp, offset, key, value and headers: at least one byte each."""

_NO_LIMIT = (1 << 63) - 1
_CRC_FROM = 21


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """Which columns to make of the records at offsets from `start` up to, but not including, `end`."""

    columns: tuple[str, ...]
    start: int = 0
    end: int | None = None
    isolation: str = READ_UNCOMMITTED
    aborted: tuple[tuple[int, int], ...] = ()
    """(producer id, first offset) of aborted transactions, as in a fetch response."""
    check_crc: bool = True
    base_position: int = 0
    """The position of the data's first byte in its file."""

    def __post_init__(self) -> None:
        for column in self.columns:
            if column not in TYPES:
                raise ValueError(f"unknown column {column!r}; known are {', '.join(TYPES)}")


@dataclass(frozen=True, slots=True)
class CorruptBatch:
    position: int
    base_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    batch: pa.RecordBatch
    rows: int
    """The number of records, also if `batch` has no columns."""
    next_offset: int
    """One past the last whole batch, visible or not."""
    used: int
    """Bytes of whole batches; what follows is the start of another one."""
    corrupt: tuple[CorruptBatch, ...]


def decode(data: bytes | memoryview, options: DecodeOptions) -> Decoded:
    plain = np.frombuffer(data, np.uint8)
    plain.flags.writeable = False
    headers, used, broken = scan_headers(plain)
    job = _DecodeJob(memoryview(data), plain, options)
    next_offset = int(headers.last_offset[-1]) + 1 if len(headers) else options.start
    rows, batch = job.run(headers)
    if broken:
        job.report(used, next_offset, "not a valid batch length")
        used = len(data)
    return Decoded(batch, rows, next_offset, used, tuple(job.corrupt.values()))


def warm_up() -> None:
    """Compile now, or load the compiled code from the cache."""
    decode(b"", DecodeOptions(("offset",)))


class _DecodeJob:
    def __init__(self, data: memoryview, plain: Any, options: DecodeOptions) -> None:
        self._data = data
        self._plain = plain
        self._options = options
        self._low = options.start
        self._high = _NO_LIMIT if options.end is None else options.end
        self.corrupt: dict[int, CorruptBatch] = {}
        """By position; only the first reason is reported."""

    def report(self, position: int, base_offset: int, reason: str) -> None:
        at = position + self._options.base_position
        self.corrupt.setdefault(at, CorruptBatch(at, base_offset, reason))

    def run(self, headers: Headers) -> tuple[int, pa.RecordBatch]:
        known = self._select_known_formats(self._select_visible(headers))
        crc_ok = self._check_crcs(known)
        if "crc_ok" not in self._options.columns:
            known, crc_ok = known.select(crc_ok), crc_ok[crc_ok]
        if not self._options.columns and self._are_all_inside(known) and self._are_counts_possible(known):
            return int(known.count.sum()), _NO_COLUMNS
        return self._make_columns(known, crc_ok)

    # --- which batches -----------------------------------------------------------------------------------------------

    def _select_visible(self, headers: Headers) -> Headers:
        mask = (headers.last_offset >= self._low) & (headers.base_offset < self._high)
        if "control" not in self._options.columns:
            mask &= (headers.attributes & CONTROL) == 0
        if self._options.isolation == READ_COMMITTED and self._options.aborted:
            mask &= transactions.find_committed(headers, self._data, self._options.aborted)
        return headers.select(mask)

    def _select_known_formats(self, headers: Headers) -> Headers:
        known = headers.magic == MAGIC
        for i in np.flatnonzero(~known).tolist():
            self._report_batch(headers, i, f"format {headers.magic[i]} instead of {MAGIC}")
        return headers.select(known)

    def _check_crcs(self, headers: Headers) -> Any:
        good = np.ones(len(headers), np.bool_)
        if not self._options.check_crc:
            return good
        data = self._data
        places = zip(headers.position.tolist(), headers.size.tolist(), headers.crc.tolist(), strict=True)
        for i, (position, size, crc) in enumerate(places):
            if crc32c(data[position + _CRC_FROM : position + size]) != crc:
                good[i] = False
                self._report_batch(headers, i, "the checksum is wrong")
        return good

    def _are_all_inside(self, headers: Headers) -> bool:
        """Whether no batch has offsets outside the range: then headers are enough to count records."""
        return bool(((headers.base_offset >= self._low) & (headers.last_offset < self._high)).all())

    def _are_counts_possible(self, headers: Headers) -> bool:
        """Whether the record counts in the headers can be trusted without decoding the records.

        The CRC covers a count, and brokers compare it with the records of a produce request. Older brokers may not
        have, so it is checked here that no batch has more records than offsets, or than fit into its bytes. If one
        does, the records are decoded, as for columns.
        """
        plain = (headers.attributes & CODEC) == 0
        fits = ~plain | (headers.count.astype(np.int64) * MIN_RECORD_BYTES <= headers.size - HEADER_SIZE)
        offsets = headers.last_offset - headers.base_offset + 1
        return bool(((headers.count >= 0) & (headers.count <= offsets) & fits).all())

    def _report_batch(self, headers: Headers, i: int, reason: str) -> None:
        self.report(int(headers.position[i]), int(headers.base_offset[i]), reason)

    # --- columns -----------------------------------------------------------------------------------------------------

    def _make_columns(self, headers: Headers, crc_ok: Any) -> tuple[int, pa.RecordBatch]:
        names = self._options.columns
        layout, decompressed = self._make_layout(headers)
        rows_per_batch, status = np.zeros(len(headers), np.int64), np.zeros(len(headers), np.int8)
        rows, room = -1, HEADER_ROOM
        while rows < 0:
            buffers = Buffers(layout, names, room)
            rows, count = walk.walk_records(
                self._plain,
                decompressed,
                layout,
                self._low,
                self._high,
                buffers.want,
                *buffers.arrays,
                rows_per_batch,
                status,
            )
            room *= 8
        for i in np.flatnonzero(status).tolist():
            self._report_batch(headers, i, walk.REASONS[status[i]])
        header_columns = HeaderColumns(
            headers, rows_per_batch, buffers.offsets[:rows], crc_ok, self._options.base_position
        )
        arrays = [buffers.column(name, rows, count, header_columns) for name in names]
        return rows, pa.RecordBatch.from_arrays(arrays, list(names)) if arrays else _NO_COLUMNS

    def _make_layout(self, headers: Headers) -> tuple[Any, Any]:
        """The description of each batch for `walk_records`, and the decompressed records, joined."""
        layout = np.empty((len(headers), 6), np.int64)
        layout[:, 0] = 0
        layout[:, 1] = headers.position + HEADER_SIZE
        layout[:, 2] = headers.position + headers.size
        layout[:, 3] = headers.count
        layout[:, 4] = headers.base_offset
        layout[:, 5] = headers.base_timestamp
        parts: list[bytes] = []
        size = 0
        for i in np.flatnonzero(headers.attributes & CODEC).tolist():
            records = self._decompress(headers, i)
            if records is None:
                layout[i, :4] = 0  # no records in no bytes
                continue
            layout[i, :3] = (1, size, size + len(records))
            parts.append(records)
            size += len(records)
        if size + len(self._data) > MAX_BYTES:
            raise MalformedBatchError(f"{size + len(self._data)} bytes of records in one call: pass fewer batches")
        decompressed = np.frombuffer(b"".join(parts), np.uint8)
        decompressed.flags.writeable = False
        return layout, decompressed

    def _decompress(self, headers: Headers, i: int) -> bytes | None:
        start, end = int(headers.position[i]) + HEADER_SIZE, int(headers.position[i] + headers.size[i])
        try:
            return compression.decompress(int(headers.attributes[i]) & CODEC, bytes(self._data[start:end]))
        except MalformedBatchError as error:
            self._report_batch(headers, i, str(error))
            return None


_NO_COLUMNS = pa.RecordBatch.from_arrays([], [])
