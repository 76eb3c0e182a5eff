"""One segment as Arrow batches of the columns in `columns.COLUMNS`, a few megabytes of the file at a time.

Damage raises an error that names the file and the position. With `corrupt` set to ROWS it becomes a row instead:
`crc_ok` is false, `error` says what is wrong, offset and position are those of the batch, and the record's columns are
null. The records of a damaged batch are not shown. A batch that is cut off at the end of the log's last segment is not
damage as long as everything below the high watermark is there: the broker was writing it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from insync.columnar.buffers import TYPES, rows_without_columns
from insync.columnar.decode import DecodeOptions, decode
from insync.logdir import indexes
from insync.logdir.chunks import Chunk, TrailingBytes, has_batch_at, parse_headers, read_chunks
from insync.logdir.columns import COLUMNS
from insync.logdir.files import Segment
from insync.logdir.indexes import EMPTY, Index, IndexFileError
from insync.logdir.options import ROWS
from insync.storage.file_names import INDEX
from insync.storage.index import OFFSET_ENTRY
from insync.wire.errors import MalformedBatchError

_SEGMENT_TYPES: dict[str, pa.DataType] = {
    "broker": pa.int32(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "segment": pa.string(),
    "crc_ok": pa.bool_(),
    "error": pa.string(),
}
"""Columns that the decoder does not fill."""


class DamagedLogError(Exception):
    """Names the file and the position."""


def read_segment(segment: Segment, columns: tuple[str, ...] = tuple(COLUMNS)) -> Iterator[pa.RecordBatch]:
    return _SegmentReader(segment, columns).read()


class _SegmentReader:
    def __init__(self, segment: Segment, columns: tuple[str, ...]) -> None:
        self._segment = segment
        self._columns = columns
        shown = {"control"} if segment.include_control else set()
        hidden = {*_SEGMENT_TYPES, "control"} - shown
        self._decoded = tuple(dict.fromkeys([*(c for c in columns if c not in hidden), *sorted(shown)]))
        self._constants = {
            "broker": segment.broker,
            "topic": segment.topic,
            "partition": segment.partition,
            "segment": segment.name,
            "crc_ok": True,
            "error": None,
            "control": False,
        }
        self._constant_arrays: dict[str, pa.Array] = {}
        self._next_offset = segment.base
        self._damage_rows: list[dict[str, Any]] = []

    def read(self) -> Iterator[pa.RecordBatch]:
        segment = self._segment
        offsets = self._read_index(indexes.read_offset_index)
        self._read_index(indexes.read_time_index)
        start, limit = self._start_position(offsets), None
        if segment.end <= (int(offsets.keys[-1]) if len(offsets) else -1):
            limit = offsets.value_after(segment.end, -1)
        try:
            for chunk in read_chunks(segment.path, start, None if limit == -1 else limit):
                if isinstance(chunk, TrailingBytes):
                    self._check_trailing_bytes(chunk)
                else:
                    yield from self._read_chunk(chunk, offsets)
                if self._next_offset >= segment.end:
                    break
        except OSError as error:
            self._report(segment.path, 0, self._next_offset, f"cannot be read: {error.strerror}")
            self._next_offset = max(self._next_offset, segment.required_end)
        if self._next_offset < segment.required_end:
            reason = f"the log ends at offset {self._next_offset}, below {segment.required_end}"
            self._report(segment.path, None, self._next_offset, reason)
        yield from self._take_damage_rows()

    def _read_index(self, read: Callable[[str, int], Index]) -> Index:
        segment = self._segment
        try:
            return read(segment.stem, segment.base)
        except IndexFileError as error:
            self._report(error.path, error.position, None, error.reason)
        except OSError as error:
            self._report(str(error.filename), 0, None, f"cannot be read: {error.strerror}")
        return EMPTY

    def _start_position(self, offsets: Index) -> int:
        """Where the index says that reading may start, if a batch that fits starts there."""
        segment = self._segment
        entry = int(np.searchsorted(offsets.keys, segment.start, side="right")) - 1
        position = int(offsets.values[entry]) if entry >= 0 else 0
        if position and not has_batch_at(segment.path, position, segment.base, segment.start):
            self._report_index_entry(entry, offsets.keys[entry], position)
            return 0
        return position

    # --- a chunk of the file -----------------------------------------------------------------------------------------

    def _check_trailing_bytes(self, trailing: TrailingBytes) -> None:
        segment = self._segment
        if segment.required_end < 0 or self._next_offset < segment.required_end:
            self._report(segment.path, trailing.position, self._next_offset, trailing.reason)
            self._next_offset = max(self._next_offset, segment.required_end)  # reported once

    def _read_chunk(self, chunk: Chunk, offsets: Index) -> Iterator[pa.RecordBatch]:
        self._check_order(chunk)
        self._check_index(chunk, offsets)
        yield from self._decode(chunk.data, chunk.position)
        self._next_offset = max(self._next_offset, int(chunk.headers.last_offset[-1]) + 1)
        yield from self._take_damage_rows()

    def _check_order(self, chunk: Chunk) -> None:
        """The checksum does not cover a batch's offset."""
        base, last = chunk.headers.base_offset, chunk.headers.last_offset
        before = np.concatenate(([self._next_offset - 1], last[:-1]))
        for i in np.flatnonzero((base <= before) & (last >= self._segment.start) & (base < self._segment.end)):
            reason = f"a batch with offset {base[i]} after offset {before[i]}"
            self._report(self._segment.path, chunk.position + int(chunk.headers.position[i]), int(base[i]), reason)

    def _check_index(self, chunk: Chunk, offsets: Index) -> None:
        """An entry has the position of a batch, and an offset that is not before that batch."""
        first, after = np.searchsorted(offsets.values, [chunk.position, chunk.end])
        keys, values = offsets.keys[first:after], offsets.values[first:after] - chunk.position
        at = np.searchsorted(chunk.headers.position, values, side="right") - 1
        wrong = (chunk.headers.position[at] != values) | (chunk.headers.base_offset[at] > keys)
        for i in np.flatnonzero(wrong):
            self._report_index_entry(int(first + i), keys[i], values[i] + chunk.position)

    def _decode(self, data: memoryview, position: int) -> Iterator[pa.RecordBatch]:
        segment = self._segment
        try:
            decoded = decode(data, DecodeOptions(self._decoded, segment.start, segment.end, base_position=position))
        except MalformedBatchError as error:  # too large once decompressed
            yield from self._decode_halves(data, position, str(error))
            return
        for corrupt in decoded.corrupt:
            self._report(segment.path, corrupt.position, corrupt.base_offset, corrupt.reason)
        if decoded.rows:
            yield self._add_constants(decoded.batch, decoded.rows)

    def _decode_halves(self, data: memoryview, position: int, reason: str) -> Iterator[pa.RecordBatch]:
        starts = parse_headers(data).position.tolist()
        if len(starts) < 2:
            self._report(self._segment.path, position, self._next_offset, reason)
            return
        middle = starts[len(starts) // 2]
        yield from self._decode(data[:middle], position)
        yield from self._decode(data[middle:], position + middle)

    # --- rows --------------------------------------------------------------------------------------------------------

    def _add_constants(self, batch: pa.RecordBatch, rows: int) -> pa.RecordBatch:
        arrays = [batch.column(name) if name in self._decoded else self._constant(name, rows) for name in self._columns]
        return pa.RecordBatch.from_arrays(arrays, list(self._columns)) if arrays else rows_without_columns(rows)

    def _constant(self, name: str, rows: int) -> pa.Array:
        """A column with one value in the whole segment, made once."""
        array = self._constant_arrays.get(name)
        if array is None or len(array) < rows:
            scalar = pa.scalar(self._constants[name], _type_of(name))
            array = self._constant_arrays[name] = pa.repeat(scalar, rows)
        return array.slice(0, rows)

    def _report_index_entry(self, entry: int, offset: int, position: int) -> None:
        reason = f"the entry puts offset {offset} at position {position}, where no such batch starts"
        self._report(self._segment.stem + INDEX, entry * OFFSET_ENTRY.size, None, reason)

    def _report(self, path: str, position: int | None, offset: int | None, reason: str) -> None:
        """Damage: raise it, or make a row of it."""
        where = "" if position is None else f" at position {position}"
        segment = self._segment
        text = f"{path}{where}: {reason}"
        if segment.corrupt != ROWS:
            raise DamagedLogError(f"{text} (broker {segment.broker}, {segment.topic}-{segment.partition})")
        in_log = path == segment.path
        row = self._constants | {
            "control": None,
            "offset": offset if in_log else None,
            "base_offset": offset if in_log else None,
            "batch_position": position if in_log else None,
            "crc_ok": False,
            "error": text,
        }
        self._damage_rows.append({name: row.get(name) for name in self._columns})

    def _take_damage_rows(self) -> Iterator[pa.RecordBatch]:
        rows, self._damage_rows = self._damage_rows, []
        if not rows:
            return
        arrays = [pa.array([row[name] for row in rows], _type_of(name)) for name in self._columns]
        yield pa.RecordBatch.from_arrays(arrays, list(self._columns)) if arrays else rows_without_columns(len(rows))


def _type_of(column: str) -> pa.DataType:
    return _SEGMENT_TYPES.get(column) or TYPES[column]
