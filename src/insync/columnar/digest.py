"""A 64-bit digest of each record's key, value and headers, to compare millions of records without keeping them.

It is not cryptographic. No headers and an empty list of headers have the same digest, as in a record batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from insync.columnar.columns import BinaryColumn, Columns, HeadersColumn

_PRIME = np.uint64(0x100000001B3)
_BASIS = np.uint64(0xCBF29CE484222325)
_MIX = np.uint64(0xFF51AFD7ED558CCD)


def compute_digests(columns: Columns, rows: Any) -> Any:
    """One for each of `rows`, in their order."""
    digests = np.empty(len(rows), np.uint64)
    _fill(rows, columns.keys, columns.values, columns.headers, digests)
    return digests


@njit(cache=True)  # type: ignore[untyped-decorator]
def _add_bytes(state: Any, column: BinaryColumn, i: int) -> Any:
    """Continue the digest with a byte string and its length; a null differs from an empty string."""
    if not column.known[i]:
        return (state ^ np.uint64(1)) * _MIX
    begin, end = np.int64(column.at[i]), np.int64(column.at[i + 1])
    state = (state ^ np.uint64(end - begin + 2)) * _MIX
    state ^= state >> np.uint64(29)
    for p in range(begin, end):
        state = (state ^ np.uint64(column.bytes[p])) * _PRIME
    return state


@njit(cache=True)  # type: ignore[untyped-decorator]
def _fill(rows: Any, keys: BinaryColumn, values: BinaryColumn, headers: HeadersColumn, digests: Any) -> None:
    for n in range(len(rows)):
        row = rows[n]
        state = _add_bytes(_BASIS, keys, row)
        state = _add_bytes(state, values, row)
        for h in range(np.int64(headers.at[row]), np.int64(headers.at[row + 1])):
            state = _add_bytes(state, headers.names, h)
            state = _add_bytes(state, headers.contents, h)
        digests[n] = state ^ (state >> np.uint64(32))
