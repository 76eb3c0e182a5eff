"""Reads a lake's rows in the order of their offsets, a table at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from insync.lake.ledger import File
from insync.lake.staging import open_file
from insync.lake.store import Store

NO_LIMIT = (1 << 63) - 1
COLUMNS = ["offset", "timestamp", "key", "value", "headers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which rows to read: from an offset and a time (in ms), up to but not including others."""

    from_offset: int = 0
    to_offset: int = NO_LIMIT
    from_time: int = -NO_LIMIT
    to_time: int = NO_LIMIT

    def may_match(self, file: File) -> bool:
        return (
            file.last >= self.from_offset
            and file.first < self.to_offset
            and file.newest >= self.from_time
            and file.oldest < self.to_time
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """The selected part of a range. Its files may overlap in offsets: each has the rows of one date."""

    end: int
    files: tuple[File, ...]
    rows: int
    """An upper bound."""


def read_rows(
    lake: Store, units: Sequence[Unit], selection: Selection, start: int, columns: Sequence[str] = COLUMNS
) -> Iterator[pa.Table]:
    """The selected rows from offset `start` on. `columns` must include offset and timestamp."""
    for unit in units:
        for table in _read_unit(lake, unit, start, columns):
            selected = _select(table, selection, start)
            if selected.num_rows:
                yield selected


def _read_unit(lake: Store, unit: Unit, start: int, columns: Sequence[str]) -> Iterator[pa.Table]:
    files = sorted((file for file in unit.files if file.last >= start), key=lambda file: file.first)
    if any(left.last > right.first for left, right in pairwise(files)):
        whole = pa.concat_tables([pa.concat_tables(_read_row_groups(lake, file, start, columns)) for file in files])
        yield whole.sort_by("offset")
        return
    for file in files:
        yield from _read_row_groups(lake, file, start, columns)


def _read_row_groups(lake: Store, file: File, start: int, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Without the row groups that end before `start`."""
    with open_file(lake, file.path) as parquet:
        column = parquet.schema_arrow.get_field_index("offset")
        for i in range(parquet.num_row_groups):
            statistics = parquet.metadata.row_group(i).column(column).statistics
            if statistics is None or not statistics.has_min_max or statistics.max >= start:
                yield parquet.read_row_group(i, columns=list(columns))


def _select(table: pa.Table, selection: Selection, start: int) -> pa.Table:
    offsets, times = table.column("offset"), table.column("timestamp").cast(pa.int64())
    first, last = pc.min_max(offsets).as_py().values()
    oldest, newest = (time // 1000 for time in pc.min_max(times).as_py().values())
    low = max(start, selection.from_offset)
    if low <= first and last < selection.to_offset and selection.from_time <= oldest and newest < selection.to_time:
        return table
    mask: Any = pc.and_(pc.greater_equal(offsets, low), pc.less(offsets, selection.to_offset))
    if selection.from_time > oldest:
        mask = pc.and_(mask, pc.greater_equal(times, selection.from_time * 1000))
    if selection.to_time <= newest:
        mask = pc.and_(mask, pc.less(times, selection.to_time * 1000))
    return table.filter(mask)
