"""How many records of a compacted partition a later record with the same key supersedes.

Keys are compared by 64-bit digests, and each distinct key takes 16 bytes of memory, whatever its length.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from insync.columnar.columns import to_columns
from insync.columnar.digest import compute_digests
from insync.logdir.files import Segment
from insync.logdir.options import ROWS
from insync.logdir.rows import read_segment

MERGED_ROWS = 1 << 20
"""At least as many are sorted at once."""
_COLUMNS = ("key", "value", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyShare:
    records: int = 0
    keys: int = 0
    """Distinct ones."""
    tombstones: int = 0
    """Keys whose last record has no value."""
    size: int = 0
    """Bytes of keys and values, uncompressed."""
    superseded_size: int = 0

    @property
    def superseded(self) -> int:
        return self.records - self.keys

    @property
    def superseded_share(self) -> float:
        """Of the bytes."""
        return self.superseded_size / self.size if self.size else 0.0


def measure_keys(segments: tuple[Segment, ...]) -> KeyShare:
    """Of the segments of one replica, in their order. Damaged batches are left out."""
    return count_superseded(
        batch
        for segment in segments
        for batch in read_segment(replace(segment, required_end=-1, corrupt=ROWS), _COLUMNS)
    )


def count_superseded(batches: Iterable[pa.RecordBatch]) -> KeyShare:
    """Batches have the columns key, value and error; records without a key are never superseded."""
    last = _LastRecords()
    records = keyless = total = keyless_size = 0
    for batch in batches:
        good = batch.filter(pc.is_null(batch.column("error")))
        key, value = good.column("key"), good.column("value")
        sizes = _lengths(key) + _lengths(value)
        has_key = _flags(key.is_valid())
        records += good.num_rows
        total += int(sizes.sum())
        keyless += int((~has_key).sum())
        keyless_size += int(sizes[~has_key].sum())
        rows = np.flatnonzero(has_key)
        digests = compute_digests(to_columns(pa.nulls(good.num_rows, pa.binary()), key), rows)
        last.add(digests, np.where(_flags(value.is_null()), ~sizes, sizes)[rows])
    last.merge()
    kept = int(np.where(last.sizes < 0, ~last.sizes, last.sizes).sum()) + keyless_size
    return KeyShare(
        records=records,
        keys=len(last.keys) + keyless,
        tombstones=int((last.sizes < 0).sum()),
        size=total,
        superseded_size=total - kept,
    )


class _LastRecords:
    """The size of the last record of each key; the complement of the size if it is a tombstone."""

    def __init__(self) -> None:
        self.keys: Any = np.empty(0, np.uint64)
        self.sizes: Any = np.empty(0, np.int64)
        self._pending: list[tuple[Any, Any]] = []
        self._pending_rows = 0

    def add(self, keys: Any, sizes: Any) -> None:
        self._pending.append((keys, sizes))
        self._pending_rows += len(keys)
        if self._pending_rows > max(MERGED_ROWS, len(self.keys)):
            self.merge()

    def merge(self) -> None:
        keys = np.concatenate([self.keys, *(keys for keys, _ in self._pending)])
        sizes = np.concatenate([self.sizes, *(sizes for _, sizes in self._pending)])
        self.keys, last = np.unique(keys[::-1], return_index=True)  # the first one in reverse order
        self.sizes = sizes[::-1][last]
        self._pending, self._pending_rows = [], 0


def _lengths(column: pa.Array) -> Any:
    return np.asarray(pc.fill_null(pc.binary_length(column), 0)).astype(np.int64)


def _flags(column: pa.Array) -> Any:
    return column.to_numpy(zero_copy_only=False)
