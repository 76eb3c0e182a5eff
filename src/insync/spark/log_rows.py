"""One segment as Arrow batches of the columns of `format("insync-log")`, some megabytes of the file at a time.

What is damaged is an error that names the file and the position, or with corrupt=rows a row of its own: `crc_ok` is
false, `error` says what was found, offset and position are those of the batch, and the record's columns are null. The
records of a damaged batch are not shown. A batch that is cut off at the end of the newest segment is no damage as long
as everything below the high watermark is there: the broker was about to write it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from insync.columnar.buffers import TYPES
from insync.columnar.decode import Wanted, decode
from insync.spark import log_indexes
from insync.spark.log_chunks import Chunk, Rest, begins_batch, chunks, headers_of
from insync.spark.log_columns import COLUMNS
from insync.spark.log_files import Segment
from insync.spark.log_indexes import EMPTY, BadIndex, Index
from insync.spark.log_options import ROWS
from insync.spark.rows import no_columns
from insync.wire.errors import MalformedBatch

_OWN: dict[str, pa.DataType] = {
    "broker": pa.int32(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "segment": pa.string(),
    "crc_ok": pa.bool_(),
    "error": pa.string(),
}


class DamagedLog(Exception):  # noqa: N818  says what was found
    """Names the file and the position."""


def read(segment: Segment, columns: tuple[str, ...] = tuple(COLUMNS)) -> Iterator[pa.RecordBatch]:
    return _Reading(segment, columns).batches()


def types_of(columns: tuple[str, ...]) -> list[pa.DataType]:
    return [_OWN.get(name) or TYPES[name] for name in columns]


class _Reading:
    def __init__(self, segment: Segment, columns: tuple[str, ...]) -> None:
        self._segment = segment
        self._columns = columns
        shown = {"control"} if segment.include_control else set()
        hidden = {*_OWN, "control"} - shown
        self._decoded = tuple(dict.fromkeys([*(c for c in columns if c not in hidden), *sorted(shown)]))
        self._same = {
            "broker": segment.broker,
            "topic": segment.topic,
            "partition": segment.partition,
            "segment": segment.name,
            "crc_ok": True,
            "error": None,
            "control": False,
        }
        self._constants: dict[str, pa.Array] = {}
        self._next = segment.base
        self._damages: list[dict[str, Any]] = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        segment = self._segment
        offsets = self._index(log_indexes.offsets)
        self._index(log_indexes.times)
        start, limit = self._first_position(offsets), None
        if segment.end <= (int(offsets.keys[-1]) if len(offsets) else -1):
            limit = offsets.after(segment.end, -1)
        try:
            for piece in chunks(segment.path, start, None if limit == -1 else limit):
                yield from self._piece(piece, offsets)
                if self._next >= segment.end:
                    break
        except OSError as error:
            self._damage(segment.path, 0, self._next, f"cannot be read: {error.strerror}")
            self._next = max(self._next, segment.reach)
        if self._next < segment.reach:
            self._damage(segment.path, None, self._next, f"the log ends at offset {self._next}, below {segment.reach}")
        yield from self._damage_rows()

    def _index(self, load: Any) -> Index:
        segment = self._segment
        try:
            found: Index = load(segment.stem, segment.base)
        except BadIndex as bad:
            self._damage(bad.path, bad.position, None, bad.reason)
            return EMPTY
        except OSError as error:
            self._damage(str(error.filename), 0, None, f"cannot be read: {error.strerror}")
            return EMPTY
        return found

    def _first_position(self, offsets: Index) -> int:
        """Where the index says that reading may start, if a batch that fits begins there."""
        segment = self._segment
        entry = int(np.searchsorted(offsets.keys, segment.start, side="right")) - 1
        position = int(offsets.values[entry]) if entry >= 0 else 0
        if position and not begins_batch(segment.path, position, segment.base, segment.start):
            reason = f"offset {offsets.keys[entry]} is said to be at {position}, where no such batch begins"
            self._damage(segment.stem + log_indexes.OFFSETS, entry * log_indexes.OFFSET_ENTRY_SIZE, None, reason)
            return 0
        return position

    # --- a piece of the file -----------------------------------------------------------------------------------------

    def _piece(self, piece: Chunk | Rest, offsets: Index) -> Iterator[pa.RecordBatch]:
        segment = self._segment
        if isinstance(piece, Rest):
            if segment.reach < 0 or self._next < segment.reach:
                self._damage(segment.path, piece.position, self._next, piece.reason)
                self._next = max(self._next, segment.reach)  # told once
            return
        self._check_order(piece)
        self._check_index(piece, offsets)
        yield from self._rows(piece.data, piece.position)
        self._next = max(self._next, int(piece.headers.last_offset[-1]) + 1)
        yield from self._damage_rows()

    def _check_order(self, chunk: Chunk) -> None:
        """The checksum does not cover a batch's offset."""
        base, last = chunk.headers.base_offset, chunk.headers.last_offset
        before = np.concatenate(([self._next - 1], last[:-1]))
        for i in np.flatnonzero((base <= before) & (last >= self._segment.start) & (base < self._segment.end)):
            reason = f"a batch with the offset {base[i]} behind offset {before[i]}"
            self._damage(self._segment.path, chunk.position + int(chunk.headers.position[i]), int(base[i]), reason)

    def _check_index(self, chunk: Chunk, offsets: Index) -> None:
        """An entry names a batch's beginning, and an offset that is not before it."""
        first, after = np.searchsorted(offsets.values, [chunk.position, chunk.end])
        keys, values = offsets.keys[first:after], offsets.values[first:after] - chunk.position
        at = np.searchsorted(chunk.headers.position, values, side="right") - 1
        wrong = (chunk.headers.position[at] != values) | (chunk.headers.base_offset[at] > keys)
        for i in np.flatnonzero(wrong):
            reason = f"offset {keys[i]} is said to be at {values[i] + chunk.position}, where no such batch begins"
            self._damage(
                self._segment.stem + log_indexes.OFFSETS, int(first + i) * log_indexes.OFFSET_ENTRY_SIZE, None, reason
            )

    def _rows(self, data: memoryview, position: int) -> Iterator[pa.RecordBatch]:
        segment = self._segment
        try:
            decoded = decode(data, Wanted(self._decoded, segment.start, segment.end, base_position=position))
        except MalformedBatch as error:  # too much, once unpacked
            yield from self._halves(data, position, str(error))
            return
        for each in decoded.corrupt:
            self._damage(segment.path, each.position, each.base_offset, each.reason)
        if decoded.rows:
            yield self._with_own(decoded.batch, decoded.rows)

    def _halves(self, data: memoryview, position: int, reason: str) -> Iterator[pa.RecordBatch]:
        starts = headers_of(data).position.tolist()
        if len(starts) < 2:
            self._damage(self._segment.path, position, self._next, reason)
            return
        middle = starts[len(starts) // 2]
        yield from self._rows(data[:middle], position)
        yield from self._rows(data[middle:], position + middle)

    # --- rows --------------------------------------------------------------------------------------------------------

    def _with_own(self, batch: pa.RecordBatch, rows: int) -> pa.RecordBatch:
        arrays = [batch.column(name) if name in self._decoded else self._repeated(name, rows) for name in self._columns]
        return pa.RecordBatch.from_arrays(arrays, list(self._columns)) if arrays else no_columns(rows)

    def _repeated(self, name: str, rows: int) -> pa.Array:
        """The same for all rows of the segment: made once."""
        made = self._constants.get(name)
        if made is None or len(made) < rows:
            scalar = pa.scalar(self._same[name], _OWN.get(name) or TYPES[name])
            made = self._constants[name] = pa.repeat(scalar, rows)
        return made.slice(0, rows)

    def _damage(self, path: str, position: int | None, offset: int | None, reason: str) -> None:
        where = "" if position is None else f" at position {position}"
        segment = self._segment
        text = f"{path}{where}: {reason}"
        if segment.corrupt != ROWS:
            raise DamagedLog(f"{text} (broker {segment.broker}, {segment.topic}-{segment.partition})")
        in_log = path == segment.path
        row = self._same | {
            "control": None,
            "offset": offset if in_log else None,
            "base_offset": offset if in_log else None,
            "batch_position": position if in_log else None,
            "crc_ok": False,
            "error": text,
        }
        self._damages.append({name: row.get(name) for name in self._columns})

    def _damage_rows(self) -> Iterator[pa.RecordBatch]:
        damages, self._damages = self._damages, []
        if damages:
            arrays = [
                pa.array([row[name] for row in damages], kind)
                for name, kind in zip(self._columns, types_of(self._columns), strict=True)
            ]
            made = pa.RecordBatch.from_arrays(arrays, list(self._columns)) if arrays else no_columns(len(damages))
            yield made


__all__ = ["COLUMNS", "DamagedLog", "read", "types_of"]
