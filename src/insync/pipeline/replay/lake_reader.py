"""Rows of a lake in the order of their offsets, a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from insync.pipeline.ledger import File
from insync.pipeline.replay.plan import Selection, Unit

COLUMNS = ["offset", "timestamp", "key", "value", "headers"]
_TIMES = pa.timestamp("us", tz="UTC")


def pieces(lake: Path, units: Sequence[Unit], selection: Selection, source: int) -> Iterator[pa.Table]:
    """Selected rows at offsets from `source` on."""
    for unit in units:
        for table in _unit(lake, unit, source):
            chosen = _chosen(table, selection, source)
            if chosen.num_rows:
                yield chosen


def _unit(lake: Path, unit: Unit, source: int) -> Iterator[pa.Table]:
    files = sorted((file for file in unit.files if file.last >= source), key=lambda file: file.first)
    if any(left.last > right.first for left, right in pairwise(files)):
        whole = pa.concat_tables([pa.concat_tables(_groups(lake, file, source)) for file in files])
        yield whole.sort_by("offset")
        return
    for file in files:
        yield from _groups(lake, file, source)


def _groups(lake: Path, file: File, source: int) -> Iterator[pa.Table]:
    """One row group after the other, without those that end before `source`."""
    with pq.ParquetFile(lake / file.path) as opened:
        column = opened.schema_arrow.get_field_index("offset")
        for i in range(opened.num_row_groups):
            statistics = opened.metadata.row_group(i).column(column).statistics
            if statistics is None or not statistics.has_min_max or statistics.max >= source:
                yield opened.read_row_group(i, columns=COLUMNS)


def _chosen(table: pa.Table, selection: Selection, source: int) -> pa.Table:
    offsets, times = table.column("offset"), table.column("timestamp").cast(pa.int64())
    first, last = pc.min_max(offsets).as_py().values()
    oldest, newest = (each // 1000 for each in pc.min_max(times).as_py().values())
    low = max(source, selection.from_offset)
    if low <= first and last < selection.to_offset and selection.from_time <= oldest and newest < selection.to_time:
        return table
    mask: Any = pc.and_(pc.greater_equal(offsets, low), pc.less(offsets, selection.to_offset))
    if selection.from_time > oldest:
        mask = pc.and_(mask, pc.greater_equal(times, selection.from_time * 1000))
    if selection.to_time <= newest:
        mask = pc.and_(mask, pc.less(times, selection.to_time * 1000))
    return table.filter(mask)
