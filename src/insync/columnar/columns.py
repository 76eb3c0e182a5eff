"""Arrow columns of records to be written, as the plain arrays that compiled code takes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_US_PER_MS = 1_000
_NO_BYTES: Any = np.zeros(1, np.uint8)


class BinaryColumn(NamedTuple):
    """Byte strings: where each starts, all bytes, and which are not null."""

    at: Any
    bytes: Any
    known: Any


class HeadersColumn(NamedTuple):
    """Headers: where each record's headers start, and their names and contents."""

    at: Any
    names: BinaryColumn
    contents: BinaryColumn


class Columns(NamedTuple):
    rows: int
    keys: BinaryColumn
    values: BinaryColumn
    headers: HeadersColumn
    times: Any
    """ms; empty if all records get the time at which they are written."""


def to_columns(
    values: pa.Array, keys: pa.Array | None = None, headers: pa.Array | None = None, times: pa.Array | None = None
) -> Columns:
    rows = len(values)
    return Columns(
        rows,
        to_binary_column(keys if keys is not None else pa.nulls(rows, pa.binary())),
        to_binary_column(values),
        _to_headers_column(headers, rows),
        np.zeros(0, np.int64) if times is None else _milliseconds(times),
    )


def to_binary_column(array: pa.Array) -> BinaryColumn:
    """From a binary or string array; large types are narrowed."""
    if pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type):
        array = array.cast(pa.binary())
    _, at, data = array.buffers()
    first, count = array.offset, len(array)
    starts = np.zeros(1, np.int32) if at is None else np.frombuffer(at, np.int32)[first : first + count + 1]
    if len(starts) <= count:  # only nulls, without a buffer for them
        starts = np.zeros(count + 1, np.int32)
    return BinaryColumn(_frozen(starts), _bytes(data), _known(array))


def _to_headers_column(array: pa.Array | None, rows: int) -> HeadersColumn:
    if array is None or array.null_count == len(array):
        nothing = to_binary_column(pa.array([], pa.binary()))
        return HeadersColumn(_frozen(np.zeros(rows + 1, np.int32)), nothing, nothing)
    if array.null_count:
        array = pc.fill_null(array, pa.scalar([], array.type))
    names, contents = array.values.flatten()
    starts = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + rows + 1]
    used = names.slice(int(starts[0]), int(starts[-1] - starts[0]))
    if used.null_count:
        raise ValueError("column 'headers' has a header without a key")
    return HeadersColumn(_frozen(starts), to_binary_column(names), to_binary_column(contents))


def _milliseconds(times: pa.Array) -> Any:
    if times.null_count:
        raise ValueError("column 'timestamp' has a null: every record needs a timestamp")
    return times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy() // _US_PER_MS


def _known(array: pa.Array) -> Any:
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    return np.ascontiguousarray(array.is_valid().to_numpy(zero_copy_only=False))


def _bytes(data: pa.Buffer | None) -> Any:
    if data is None or data.size == 0:
        return _frozen(_NO_BYTES)
    return _frozen(np.frombuffer(data, np.uint8))


def _frozen(array: Any) -> Any:
    """Read-only, so that compiled code sees one type of array wherever the memory came from."""
    array = array.view()
    array.flags.writeable = False
    return array
