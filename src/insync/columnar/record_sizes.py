"""The size of records as Kafka's Java producer estimates it, which is what its `max.request.size` limits."""

from __future__ import annotations

from typing import Any

import numpy as np

from insync.columnar.columns import BinaryColumn, Columns
from insync.wire.batch import HEADER_SIZE

_MAX_RECORD_OVERHEAD = 21
_VARINT_LIMITS = tuple(1 << bits for bits in (6, 13, 20, 27))
"""A zigzag varint of such a length takes one byte more."""


def estimate_record_sizes(columns: Columns) -> Any:
    """An upper bound for each row: a batch of this record alone, uncompressed."""
    headers = columns.headers
    header_sizes = np.concatenate(([0], np.cumsum(_sizes(headers.names) + _sizes(headers.contents))))
    at = headers.at[: columns.rows + 1]
    counts = at[1:] - at[:-1]
    return (
        HEADER_SIZE
        + _MAX_RECORD_OVERHEAD
        + _sizes(columns.keys)
        + _sizes(columns.values)
        + _varint_sizes(counts)
        + (header_sizes[at[1:]] - header_sizes[at[:-1]])
    )


def _sizes(column: BinaryColumn) -> Any:
    lengths = np.diff(column.at).astype(np.int64)
    return lengths + _varint_sizes(lengths)


def _varint_sizes(lengths: Any) -> Any:
    return 1 + sum((lengths >= limit).astype(np.int64) for limit in _VARINT_LIMITS)
