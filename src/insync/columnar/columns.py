"""Arrow columns of records to be written, as the plain arrays that compiled code takes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_US_PER_MS = 1_000
_NO_BYTES: Any = np.zeros(1, np.uint8)


class Pieces(NamedTuple):
    """Byte strings: where each begins, all bytes, and which are not null."""

    at: Any
    bytes: Any
    known: Any


class Lists(NamedTuple):
    """Headers: where each record's begin, and their names and contents."""

    at: Any
    names: Pieces
    contents: Pieces


class Columns(NamedTuple):
    rows: int
    keys: Pieces
    values: Pieces
    headers: Lists
    times: Any
    """ms; empty if all records get the time at which they are written."""


def columns(
    values: pa.Array, keys: pa.Array | None = None, headers: pa.Array | None = None, times: pa.Array | None = None
) -> Columns:
    rows = len(values)
    return Columns(
        rows,
        pieces(keys if keys is not None else pa.nulls(rows, pa.binary())),
        pieces(values),
        _lists(headers, rows),
        np.zeros(0, np.int64) if times is None else _milliseconds(times),
    )


def pieces(array: pa.Array) -> Pieces:
    """Of binary or string; the large kinds are narrowed."""
    if pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type):
        array = array.cast(pa.binary())
    _, at, data = array.buffers()
    first, count = array.offset, len(array)
    starts = np.zeros(1, np.int32) if at is None else np.frombuffer(at, np.int32)[first : first + count + 1]
    if len(starts) <= count:  # nothing but nulls, and no memory for them
        starts = np.zeros(count + 1, np.int32)
    return Pieces(_frozen(starts), _bytes(data), _known(array))


def _lists(array: pa.Array | None, rows: int) -> Lists:
    if array is None or array.null_count == len(array):
        nothing = pieces(pa.array([], pa.binary()))
        return Lists(_frozen(np.zeros(rows + 1, np.int32)), nothing, nothing)
    if array.null_count:
        array = pc.fill_null(array, pa.scalar([], array.type))
    names, contents = array.values.flatten()
    starts = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + rows + 1]
    used = names.slice(int(starts[0]), int(starts[-1] - starts[0]))
    if used.null_count:
        raise ValueError("column 'headers': a header without a key")
    return Lists(_frozen(starts), pieces(names), pieces(contents))


def _milliseconds(times: pa.Array) -> Any:
    if times.null_count:
        raise ValueError("column 'timestamp': a record without a time")
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
    """One type of array for compiled code, wherever the memory came from."""
    array = array.view()
    array.flags.writeable = False
    return array
