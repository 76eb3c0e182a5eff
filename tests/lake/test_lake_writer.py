"""Files of a range: one per date, and another when one is large."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from insync.lake.writer import RangeWriter
from tests.lake.lake_rows import make_rows


def test_a_large_file_is_followed_by_another(tmp_path: Path) -> None:
    writer = RangeWriter(
        tmp_path, topic="t", partition=0, start=0, end=10_000, attempt="ab-1", codec="none", roll_bytes=50_000
    )
    for start in range(0, 10_000, 500):
        writer.add(make_rows(start, [start + i for i in range(500)]))
    files = writer.close()
    assert len(files) > 3
    assert all(40_000 < file.bytes < 130_000 for file in files[:-1])
    read = [
        offset
        for file in files
        for offset in pq.read_table(tmp_path / file.path, columns=["offset"], partitioning=None).column(0).to_pylist()
    ]
    assert read == list(range(10_000))
    assert [file.first for file in files] == [0, *(file.last + 1 for file in files[:-1])]
