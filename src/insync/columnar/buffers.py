"""The memory that `walk_records` fills, and the Arrow arrays made of it without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from insync.columnar.header_columns import HeaderColumns

HEADERS_TYPE = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
    "leader_epoch": pa.int32(),
    "base_offset": pa.int64(),
    "batch_position": pa.int64(),
    "batch_size": pa.int32(),
    "producer_id": pa.int64(),
    "producer_epoch": pa.int16(),
    "sequence": pa.int32(),
    "codec": pa.string(),
    "control": pa.bool_(),
    "transactional": pa.bool_(),
    "crc_ok": pa.bool_(),
}
"""Every column, with the type that Spark derives for it."""

_SMALLEST_RECORD = 6
HEADER_ROOM = 1 << 16
"""Initial bytes for the names of headers, and as many for their values."""
_LIKELY_HEADER = 8
_US_PER_MS = 1_000


class BinaryBuffers:
    """The buffers of an Arrow binary array: offsets, bytes, and bits for those that are not null."""

    def __init__(self, max_count: int, max_bytes: int, wanted: bool) -> None:
        self.at = np.empty(max_count + 1 if wanted else 1, np.int32)
        self.at[0] = 0
        self.bytes = np.empty(max_bytes if wanted else 0, np.uint8)
        self.bits = np.zeros(max_count // 8 + 1 if wanted else 0, np.uint8)

    def to_array(self, kind: pa.DataType, count: int, *, nulls: bool = True) -> pa.Array:
        buffers = [
            pa.py_buffer(self.bits) if nulls else None,
            pa.py_buffer(self.at),
            pa.py_buffer(self.bytes[: self.at[count]]),
        ]
        return pa.Array.from_buffers(kind, count, buffers)


class Buffers:
    """`layout` describes the batches for `walk_records`; their bytes bound all sizes but those of the headers."""

    def __init__(self, layout: Any, columns: tuple[str, ...], header_room: int) -> None:
        sizes = layout[:, 2] - layout[:, 1]
        total = int(sizes.sum())
        rows = int(np.minimum(np.maximum(layout[:, 3], 0), sizes // _SMALLEST_RECORD + 1).sum())
        self.want = np.array([name in columns for name in ("key", "value", "timestamp", "headers")], np.bool_)
        want_key, want_value, want_time, want_headers = (bool(flag) for flag in self.want)
        headers = header_room // _LIKELY_HEADER
        self.offsets = np.empty(rows, np.int64)
        self._timestamps = np.empty(rows if want_time else 0, np.int64)
        self._keys = BinaryBuffers(rows, total, want_key)
        self._values = BinaryBuffers(rows, total, want_value)
        self._lists = BinaryBuffers(rows, 0, want_headers)
        self._names = BinaryBuffers(headers, header_room, want_headers)
        self._contents = BinaryBuffers(headers, header_room, want_headers)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """In the order of `walk_records`' parameters."""
        keys, values, lists, names, contents = self._keys, self._values, self._lists, self._names, self._contents
        return (
            *(self.offsets, self._timestamps),
            *(keys.at, keys.bytes, keys.bits),
            *(values.at, values.bytes, values.bits),
            *(lists.at, lists.bits),
            *(names.at, names.bytes),
            *(contents.at, contents.bytes, contents.bits),
        )

    def column(self, name: str, rows: int, headers: int, header_columns: HeaderColumns) -> pa.Array:
        if name == "key":
            return self._keys.to_array(pa.binary(), rows)
        if name == "value":
            return self._values.to_array(pa.binary(), rows)
        if name == "headers":
            return self._header_lists(rows, headers)
        if name == "offset":
            return pa.array(self.offsets[:rows])
        if name == "timestamp":
            return pa.array(header_columns.times(self._timestamps[:rows]) * _US_PER_MS).view(TYPES[name])
        column = header_columns.make(name)
        if isinstance(column, pa.Array):
            return column
        return pa.array(column.astype(TYPES[name].to_pandas_dtype()), TYPES[name])

    def _header_lists(self, rows: int, count: int) -> pa.Array:
        names = _to_valid_utf8(self._names.to_array(pa.string(), count, nulls=False))
        pairs = pa.StructArray.from_arrays([names, self._contents.to_array(pa.binary(), count)], ["key", "value"])
        buffers = [pa.py_buffer(self._lists.bits), pa.py_buffer(self._lists.at)]
        return pa.Array.from_buffers(HEADERS_TYPE, rows, buffers, children=[pairs])


def _to_valid_utf8(names: pa.Array) -> pa.Array:
    """Keys must be UTF-8; in others, invalid bytes become replacement characters, as in the Java client."""
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        raw = names.cast(pa.binary(), safe=False) if names.type == pa.string() else names
        return pa.array([name.decode(errors="replace") for name in raw.to_pylist()], pa.string())
    return names


def rows_without_columns(count: int) -> pa.RecordBatch:
    """For a query that only counts: `count` rows of nothing."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None], children=[]))
