"""`decode`: raw record batches, as a broker sends or a segment holds them, to an Arrow record batch.

Compiled code walks the records; Python touches each *batch* once: its CRC, its codec, whether it is visible. Only the
columns that are asked for are made. What is damaged becomes an entry of `corrupt` and no row; the caller decides what
that means. Who asks for the column `crc_ok` also gets the records of batches whose checksum is wrong, as far as they
can be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from insync.columnar import transactions, walk
from insync.columnar.buffers import HEADER_ROOM, TYPES, Buffers
from insync.columnar.facts import Facts
from insync.columnar.headers import CODEC, CONTROL, MAGIC, Headers, scan
from insync.wire import compression
from insync.wire.batch import HEADER_SIZE
from insync.wire.errors import MalformedBatch

READ_UNCOMMITTED, READ_COMMITTED = "read_uncommitted", "read_committed"
MOST_BYTES = 1 << 30
"""Of one call, unpacked: an Arrow binary column counts its bytes in 31 bits."""
MIN_RECORD_BYTES = 7
"""Length, attributes, timestamp, offset, key, value and headers: a byte each at least."""

_FOREVER = (1 << 63) - 1
_CRC_FROM = 21


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to make of the records at offsets from `start` up to, not including, `end`."""

    columns: tuple[str, ...]
    start: int = 0
    end: int | None = None
    isolation: str = READ_UNCOMMITTED
    aborted: tuple[tuple[int, int], ...] = ()
    """(producer id, first offset) of aborted transactions, as a fetch answer lists them."""
    check_crc: bool = True
    base_position: int = 0
    """Of the data's first byte in its file."""

    def __post_init__(self) -> None:
        for column in self.columns:
            if column not in TYPES:
                raise ValueError(f"there is no column {column!r}; there are {', '.join(TYPES)}")


@dataclass(frozen=True, slots=True)
class Corrupt:
    position: int
    base_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    batch: pa.RecordBatch
    rows: int
    """As many as `batch` has, and the number that counts when no column is wanted."""
    next_offset: int
    """One past the last whole batch, visible or not."""
    used: int
    """Bytes of whole batches; what follows is the beginning of another one."""
    corrupt: tuple[Corrupt, ...]


def decode(data: bytes | memoryview, wanted: Wanted) -> Decoded:
    plain = np.frombuffer(data, np.uint8)
    plain.flags.writeable = False
    headers, used, broken = scan(plain)
    job = _Job(memoryview(data), plain, wanted)
    next_offset = int(headers.last_offset[-1]) + 1 if len(headers) else wanted.start
    rows, batch = job.run(headers)
    if broken:
        job.damaged(used, next_offset, "a length that no batch has")
        used = len(data)
    return Decoded(batch, rows, next_offset, used, tuple(job.corrupt.values()))


def warm() -> None:
    """Compile now, or load what was compiled before."""
    decode(b"", Wanted(("offset",)))


class _Job:
    def __init__(self, data: memoryview, plain: Any, wanted: Wanted) -> None:
        self._data = data
        self._plain = plain
        self._wanted = wanted
        self._low = wanted.start
        self._high = _FOREVER if wanted.end is None else wanted.end
        self.corrupt: dict[int, Corrupt] = {}
        """By position: the first reason is the one that is told."""

    def damaged(self, position: int, base_offset: int, reason: str) -> None:
        at = position + self._wanted.base_position
        self.corrupt.setdefault(at, Corrupt(at, base_offset, reason))

    def run(self, headers: Headers) -> tuple[int, pa.RecordBatch]:
        legible = self._legible(self._visible(headers))
        crc_ok = self._checked(legible)
        if "crc_ok" not in self._wanted.columns:
            legible, crc_ok = legible.select(crc_ok), crc_ok[crc_ok]
        if not self._wanted.columns and self._all_inside(legible) and self._are_counts_possible(legible):
            return int(legible.count.sum()), _NOTHING
        return self._columns(legible, crc_ok)

    # --- which batches -----------------------------------------------------------------------------------------------

    def _visible(self, headers: Headers) -> Headers:
        mask = (headers.last_offset >= self._low) & (headers.base_offset < self._high)
        if "control" not in self._wanted.columns:
            mask &= (headers.attributes & CONTROL) == 0
        if self._wanted.isolation == READ_COMMITTED and self._wanted.aborted:
            mask &= transactions.committed(headers, self._data, self._wanted.aborted)
        return headers.select(mask)

    def _legible(self, headers: Headers) -> Headers:
        known = headers.magic == MAGIC
        for i in np.flatnonzero(~known).tolist():
            self._damaged(headers, i, f"format {headers.magic[i]} instead of {MAGIC}")
        return headers.select(known)

    def _checked(self, headers: Headers) -> Any:
        good = np.ones(len(headers), np.bool_)
        if not self._wanted.check_crc:
            return good
        data = self._data
        places = zip(headers.position.tolist(), headers.size.tolist(), headers.crc.tolist(), strict=True)
        for i, (position, size, crc) in enumerate(places):
            if crc32c(data[position + _CRC_FROM : position + size]) != crc:
                good[i] = False
                self._damaged(headers, i, "the checksum is wrong")
        return good

    def _all_inside(self, headers: Headers) -> bool:
        """Whether the headers alone tell how many records there are."""
        return bool(((headers.base_offset >= self._low) & (headers.last_offset < self._high)).all())

    def _are_counts_possible(self, headers: Headers) -> bool:
        """Whether the record counts in the headers may be believed without walking over the records.

        A count is under the CRC, and brokers compare it with the records when these are produced. What an older broker
        let in is bounded here: no batch has more records than offsets, or than fit into its bytes. If one claims to,
        the walk tells what is in it, as it does when columns are asked for.
        """
        plain = (headers.attributes & CODEC) == 0
        fits = ~plain | (headers.count.astype(np.int64) * MIN_RECORD_BYTES <= headers.size - HEADER_SIZE)
        offsets = headers.last_offset - headers.base_offset + 1
        return bool(((headers.count >= 0) & (headers.count <= offsets) & fits).all())

    def _damaged(self, headers: Headers, i: int, reason: str) -> None:
        self.damaged(int(headers.position[i]), int(headers.base_offset[i]), reason)

    # --- from batches to columns -------------------------------------------------------------------------------------

    def _columns(self, headers: Headers, crc_ok: Any) -> tuple[int, pa.RecordBatch]:
        names = self._wanted.columns
        layout, unpacked = self._unpack(headers)
        rows_of, status = np.zeros(len(headers), np.int64), np.zeros(len(headers), np.int8)
        rows, room = -1, HEADER_ROOM
        while rows < 0:
            buffers = Buffers(layout, names, room)
            rows, count = walk.walk(
                self._plain, unpacked, layout, self._low, self._high, buffers.want, *buffers.arrays, rows_of, status
            )
            room *= 8
        for i in np.flatnonzero(status).tolist():
            self._damaged(headers, i, walk.REASONS[status[i]])
        facts = Facts(headers, rows_of, buffers.offsets[:rows], crc_ok, self._wanted.base_position)
        arrays = [buffers.column(name, rows, count, facts) for name in names]
        return rows, pa.RecordBatch.from_arrays(arrays, list(names)) if arrays else _NOTHING

    def _unpack(self, headers: Headers) -> tuple[Any, Any]:
        """What `walk` is told of each batch, and the joined contents of those that are compressed."""
        layout = np.empty((len(headers), 6), np.int64)
        layout[:, 0] = 0
        layout[:, 1] = headers.position + HEADER_SIZE
        layout[:, 2] = headers.position + headers.size
        layout[:, 3] = headers.count
        layout[:, 4] = headers.base_offset
        layout[:, 5] = headers.base_timestamp
        pieces: list[bytes] = []
        filled = 0
        for i in np.flatnonzero(headers.attributes & CODEC).tolist():
            piece = self._decompressed(headers, i)
            if piece is None:
                layout[i, :4] = 0  # no records, and no bytes that they would have to fill
                continue
            layout[i, :3] = (1, filled, filled + len(piece))
            pieces.append(piece)
            filled += len(piece)
        if filled + len(self._data) > MOST_BYTES:
            raise MalformedBatch(f"{filled + len(self._data)} bytes at once: hand over fewer batches")
        unpacked = np.frombuffer(b"".join(pieces), np.uint8)
        unpacked.flags.writeable = False
        return layout, unpacked

    def _decompressed(self, headers: Headers, i: int) -> bytes | None:
        start, end = int(headers.position[i]) + HEADER_SIZE, int(headers.position[i] + headers.size[i])
        try:
            return compression.decompress(int(headers.attributes[i]) & CODEC, bytes(self._data[start:end]))
        except MalformedBatch as error:
            self._damaged(headers, i, str(error))
            return None


_NOTHING = pa.RecordBatch.from_arrays([], [])
