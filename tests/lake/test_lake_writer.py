"""Files of a range: one per date, and another when one is large."""

from __future__ import annotations

from insync.lake.location import open_store
from insync.lake.writer import RangeWriter
from tests.lake.lake_rows import make_rows


def test_a_large_file_is_followed_by_another(place: str) -> None:
    writer = RangeWriter(
        place, topic="t", partition=0, start=0, end=10_000, attempt="ab-1", codec="none", roll_bytes=50_000
    )
    for start in range(0, 10_000, 500):
        writer.add(make_rows(start, [start + i for i in range(500)]))
    files = writer.close()
    assert len(files) > 3
    assert all(40_000 < file.bytes < 130_000 for file in files[:-1])
    read = [
        offset
        for file in files
        for offset in open_store(place).open_parquet(file.path).read(columns=["offset"]).column(0).to_pylist()
    ]
    assert read == list(range(10_000))
    assert [file.first for file in files] == [0, *(file.last + 1 for file in files[:-1])]


def test_an_abandoned_range_leaves_nothing(place: str) -> None:
    """Of its three days, one is whole, one has rows in its file, and one has none."""
    writer = RangeWriter(place, topic="t", partition=0, start=0, end=30, attempt="ab-1", codec="none", roll_bytes=100)
    for start, day in ((0, 1), (10, 2), (20, 3)):
        writer.add(make_rows(start, [day * 86_400_000 + i for i in range(10)]))
    writer.abandon()
    assert open_store(place).list_files("topic=t") == []
