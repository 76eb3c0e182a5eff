"""Writes a range of offsets to Parquet files, on an executor: one file per date, rows in the order of their offsets.

A file that has reached `roll_bytes` is followed by another of the same date.

Files get their names once they are whole and synced. Growing numbers are delta-encoded, columns that are nearly
constant use a dictionary, keys and values are plain bytes: twice as fast to write as pyarrow's defaults, and smaller.
Row groups of a quarter of a million rows or 32 MB can be read back one by one or in parallel. Only offsets and times
have statistics and page indexes: readers select by them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from insync.columnar.buffers import TYPES
from insync.lake.directory import NO_DATE
from insync.lake.ledger import File
from insync.lake.location import Location, open_store
from insync.lake.store import Output

DECODED = (
    *("offset", "timestamp", "timestampType", "key", "value", "headers"),
    *("leader_epoch", "producer_id", "producer_epoch", "sequence", "transactional"),
)
SCHEMA = pa.schema([("partition", pa.int32()), *((name, TYPES[name]) for name in DECODED)])
CODECS = {"lz4": None, "zstd": 1, "snappy": None, "none": None}
"""Codec and compression level. lz4 is the cheapest, zstd makes the smallest files."""

NO_LIMIT = 1 << 62
GROUP_ROWS = 1 << 18
GROUP_BYTES = 32 << 20
MAX_BUFFERED = 96 << 20
MAX_OPEN = 64
"""Open files, one per date: records whose dates jump must not exhaust the file descriptors."""
_DAY_US = 86_400_000_000
_YEAR_10000 = 2_932_897
"""Days since 1970."""
_WITH_STATISTICS = ["offset", "timestamp"]
_DICTIONARY = ["partition", "timestampType", "leader_epoch", "producer_id", "producer_epoch"]
_DELTA_ENCODED = dict.fromkeys(("offset", "timestamp", "sequence"), "DELTA_BINARY_PACKED")


@dataclass(slots=True)
class _OpenFile:
    """The file of one date while it is being written."""

    path: str
    output: Output
    writer: Any
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_bytes: int = 0
    rows: int = 0
    first: int = -1
    last: int = -1
    oldest: int = 1 << 62
    newest: int = -(1 << 62)

    def close(self) -> None:
        self.writer.close()
        self.output.close()


class RangeWriter:
    """`add` batches, then `close`, which publishes the files; after a failure `abandon` instead."""

    def __init__(
        self,
        lake: Location,
        *,
        topic: str,
        partition: int,
        start: int,
        end: int,
        attempt: str,
        codec: str,
        roll_bytes: int = NO_LIMIT,
        prefix: str = "part",
    ) -> None:
        self._lake = open_store(lake)
        self._topic = f"topic={topic}"
        self._partition = partition
        self._stem = f"{prefix}-{partition:05d}-{start:020d}-{end:020d}-{attempt}"
        self._codec = codec
        self._roll_bytes = roll_bytes
        self._group_bytes = min(GROUP_BYTES, roll_bytes)
        self._open: dict[str, _OpenFile] = {}
        self._buffered = 0
        self._count = 0
        self._done: list[_OpenFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        for date, part in _split_by_date(batch):
            self._add(date, part)
        if self._buffered > MAX_BUFFERED:
            for file in self._open.values():
                self._write(file)

    def close(self) -> list[File]:
        for date in list(self._open):
            self._finish(date)
        files = [_publish(file) for file in self._done]
        if files:
            self._lake.sync((*dict.fromkeys(file.path.rpartition("/")[0] for file in files), self._topic, ""))
        return sorted(files, key=lambda file: file.first)

    def abandon(self) -> None:
        for file in self._open.values():
            file.waiting.clear()
            file.close()
            self._done.append(file)
        for file in self._done:
            file.output.discard()

    # --- one file ----------------------------------------------------------------------------------------------------

    def _open_file(self, date: str) -> _OpenFile:
        file = self._open.pop(date, None)
        if file is None:
            if len(self._open) >= MAX_OPEN:
                self._finish(next(iter(self._open)))
            file = self._create_file(date)
        self._open[date] = file  # most recently used last
        return file

    def _create_file(self, date: str) -> _OpenFile:
        path = f"{self._topic}/date={date}/{self._stem}-{self._count}.parquet"
        self._count += 1
        output = self._lake.open_output(path)
        writer = pq.ParquetWriter(
            output.stream,
            SCHEMA,
            compression=self._codec,
            compression_level=CODECS[self._codec],
            use_dictionary=_DICTIONARY,
            column_encoding=_DELTA_ENCODED,
            write_statistics=_WITH_STATISTICS,
            write_page_index=True,
            sorting_columns=[pq.SortingColumn(SCHEMA.get_field_index("offset"))],
        )
        return _OpenFile(path, output, writer)

    def _add(self, date: str, batch: pa.RecordBatch) -> None:
        file = self._open_file(date)
        offsets = batch.column("offset")
        times = pc.min_max(batch.column("timestamp").view(pa.int64())).as_py()
        file.first = offsets[0].as_py() if file.first < 0 else file.first
        file.last = offsets[-1].as_py()
        file.oldest = min(file.oldest, times["min"] // 1000)
        file.newest = max(file.newest, times["max"] // 1000)
        file.rows += batch.num_rows
        file.waiting.append(batch)
        file.waiting_bytes += batch.nbytes
        self._buffered += batch.nbytes
        if sum(part.num_rows for part in file.waiting) >= GROUP_ROWS or file.waiting_bytes >= self._group_bytes:
            self._write(file)
            if file.output.stream.tell() >= self._roll_bytes:
                self._finish(date)

    def _write(self, file: _OpenFile) -> None:
        if not file.waiting:
            return
        rows = sum(part.num_rows for part in file.waiting)
        partition = pa.repeat(pa.scalar(self._partition, pa.int32()), rows)
        table = pa.Table.from_batches(file.waiting).add_column(0, "partition", partition)
        file.writer.write_table(table.select(SCHEMA.names), row_group_size=rows)
        self._buffered -= file.waiting_bytes
        file.waiting, file.waiting_bytes = [], 0

    def _finish(self, date: str) -> None:
        file = self._open.pop(date)
        self._write(file)
        file.close()
        self._done.append(file)


def _publish(file: _OpenFile) -> File:
    size, crc = file.output.publish()
    return File(
        path=file.path,
        rows=file.rows,
        bytes=size,
        crc=crc,
        first=file.first,
        last=file.last,
        oldest=file.oldest,
        newest=file.newest,
    )


def _split_by_date(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    days = batch.column("timestamp").view(pa.int64()).to_numpy() // _DAY_US
    if not len(days):
        return
    lowest, highest = int(days.min()), int(days.max())
    if lowest == highest:
        yield _format_date(lowest), batch
        return
    days = np.where((days < 0) | (days >= _YEAR_10000), -1, days)
    for day in np.unique(days).tolist():
        yield _format_date(day), batch.filter(pa.array(days == day))


def _format_date(day: int) -> str:
    if not 0 <= day < _YEAR_10000:
        return NO_DATE
    return datetime.fromtimestamp(day * 86_400, UTC).date().isoformat()
