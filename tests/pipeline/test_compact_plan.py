"""Which ranges a compaction merges and which it removes; and that a merge keeps every row."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from insync.lake import directory
from insync.lake.ledger import RANGES, REPLACE, File, Ledger, Range
from insync.lake.staging import STAGED, list_data_files, open_file, publish
from insync.lake.verify import find_file_problem
from insync.lake.writer import RangeWriter
from insync.pipeline.archive.verify import verify_lake
from insync.pipeline.compact.plan import merge_ranges, plan_expiry, plan_merges
from insync.pipeline.compact.task import CompactTask, merge_files
from tests.lake.lake_rows import make_rows
from tests.lake.lake_stores import read_file, write_file

DAY_MS = 86_400_000


def make_range(start: int, *, size: int = 0, newest: int = 0, key: tuple[str, int] = ("t", 0), **fields: str) -> Range:
    """Ten offsets, with a file of `size` bytes if it is not 0."""
    file = File(path=f"{key}{start}", rows=10, bytes=size, crc=1, first=start, last=start + 9, oldest=0, newest=newest)
    files = (file,) if size else ()
    topic, partition = key
    return Range(
        topic=topic,
        topic_id="A",
        partition=partition,
        generation=0,
        start=start,
        end=start + 10,
        rows=10 * len(files),
        files=files,
        **fields,  # type: ignore[arg-type]
    )


@pytest.fixture
def ledger(place: str) -> Ledger:
    directory.make_lake(place)
    return Ledger.load(place)


def merges(ledger: Ledger, target: int = 100, min_ranges: int = 2) -> list[tuple[int, int]]:
    planned = plan_merges(ledger, target_bytes=target, min_ranges=min_ranges)
    return [(ranges[0].start, ranges[-1].end) for ranges in planned]


def test_neighbours_are_merged_up_to_the_target(ledger: Ledger) -> None:
    ledger.commit(RANGES, "me", ranges=[make_range(start, size=30) for start in range(0, 80, 10)])
    assert merges(ledger) == [(0, 30), (30, 60), (60, 80)]


def test_large_lost_and_expired_ranges_end_a_run(ledger: Ledger) -> None:
    sizes = [30, 30, 50, 30, 0, 30, 30, 30]
    ranges = [make_range(10 * n, size=size) for n, size in enumerate(sizes)]
    ranges[4] = make_range(40, lost="retention")
    ledger.commit(RANGES, "me", ranges=ranges)
    ledger.commit(REPLACE, "me", ranges=[replace(make_range(60), expired="old")])
    assert merges(ledger) == [(0, 20)]


def test_the_last_ranges_wait_for_more(ledger: Ledger) -> None:
    ledger.commit(RANGES, "me", ranges=[make_range(start, size=10) for start in range(0, 30, 10)])
    assert merges(ledger, min_ranges=4) == []
    ledger.commit(RANGES, "me", ranges=[make_range(30)])  # without rows
    assert merges(ledger, min_ranges=4) == [(0, 40)]


def test_a_merged_range_remembers_how_far_the_log_reached() -> None:
    parts = [
        replace(make_range(0, size=1), epoch=3, seen=9, why="recreated"),
        replace(make_range(10, size=1), epoch=4, seen=18),
        make_range(20),
    ]
    merged = merge_ranges(parts)
    assert (merged.start, merged.end, merged.epoch, merged.seen, merged.why) == (0, 30, 4, 18, "recreated")


# --- expiry ----------------------------------------------------------------------------------------------------------


def expiry(
    ledger: Ledger, older_than_ms: int | None = None, max_bytes: int | None = None
) -> list[tuple[int, int, int]]:
    planned = plan_expiry(ledger, older_than_ms=older_than_ms, max_bytes=max_bytes)
    ledger.commit(REPLACE, "me", ranges=planned)  # the ledger accepts it
    return [(expired.partition, expired.start, expired.end) for expired in planned]


def test_only_the_beginning_of_a_partition_expires(ledger: Ledger) -> None:
    """The second range has a new record, so what follows stays too, although it is older."""
    times = [5, 20, 6, 30]
    ledger.commit(RANGES, "me", ranges=[make_range(10 * n, size=9, newest=time) for n, time in enumerate(times)])
    assert expiry(ledger, older_than_ms=10) == [(0, 0, 10)]
    assert expiry(ledger, older_than_ms=10) == []
    assert expiry(ledger, older_than_ms=25) == [(0, 0, 30)]  # together with what expired before
    assert Ledger.load(ledger.lake).ranges()[0].expired == "its records are older than 1970-01-01T00:00:00.025Z"


def test_the_oldest_ranges_of_a_topic_expire_until_it_is_small_enough(ledger: Ledger) -> None:
    for n, time in enumerate([1, 3, 5]):
        ledger.commit(RANGES, "me", ranges=[make_range(10 * n, size=10, newest=time)])
        ledger.commit(RANGES, "me", ranges=[make_range(10 * n, size=10, newest=time + 1, key=("t", 1))])
        ledger.commit(RANGES, "me", ranges=[make_range(10 * n, size=20, newest=0, key=("u", 0))])
    assert expiry(ledger, max_bytes=60) == []
    assert expiry(ledger, max_bytes=35) == [(0, 0, 20), (1, 0, 10), (0, 0, 20)]


def test_lost_ranges_stay_between_expired_ones(ledger: Ledger) -> None:
    ledger.commit(
        RANGES, "me", ranges=[make_range(0, size=9, newest=1), make_range(10, lost="retention"), make_range(20, size=9)]
    )
    assert expiry(ledger, older_than_ms=10) == [(0, 0, 10), (0, 20, 30)]


# --- merging ---------------------------------------------------------------------------------------------------------


def archive(ledger: Ledger, starts: range) -> None:
    """A range of 100 rows at each start, whose dates alternate."""
    for start in starts:
        writer = RangeWriter(
            ledger.lake, topic="t", partition=0, start=start, end=start + 100, attempt="ab-1", codec="lz4"
        )
        writer.add(make_rows(start, [(20_000 + i % 2) * DAY_MS + start + i for i in range(100)]))
        files = tuple(writer.close())
        archived = replace(make_range(start), end=start + 100, rows=100, files=files)
        ledger.commit(RANGES, "me", ranges=[archived])


def rows_of(ledger: Ledger) -> pa.Table:
    tables = [open_file(ledger.lake, path).read() for path in ledger.files()]
    return pa.concat_tables(tables).sort_by("offset")


def task_for(ledger: Ledger) -> CompactTask:
    return CompactTask(
        lake=str(ledger.lake), ranges=tuple(ledger.ranges()), round=1, codec="zstd", target_bytes=1 << 30
    )


def test_merged_files_have_the_same_rows_one_file_per_date(ledger: Ledger) -> None:
    archive(ledger, range(0, 1_000, 100))
    before, ranges = rows_of(ledger), ledger.ranges()
    result = merge_files(task_for(ledger))
    assert (result.error, [file.rows for file in result.files]) == ("", [500, 500])
    merged = replace(merge_ranges(ranges), rows=1_000, files=result.files)
    ledger.commit(REPLACE, "me", ranges=[merged])
    for file in result.files:
        assert find_file_problem(ledger.lake, merged, file) == ""
    assert rows_of(ledger).equals(before)
    publish(ledger, 0.0)
    assert rows_of(ledger).equals(before)
    assert verify_lake(ledger.lake).problems == []
    assert len(list_data_files(ledger.lake)) == 2


def test_a_damaged_file_is_not_merged(ledger: Ledger) -> None:
    archive(ledger, range(0, 200, 100))
    place, path = str(ledger.lake), next(iter(ledger.files()))
    data = bytearray(read_file(place, path))
    data[len(data) // 3] ^= 1
    write_file(place, path, bytes(data))
    assert "was changed" in merge_files(task_for(ledger)).error
    assert ledger.lake.list_files(STAGED) == []
