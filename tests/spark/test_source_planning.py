"""Tasks cover every offset exactly once, whatever the limits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from insync.spark.planning import (
    COMBINED_OFFSETS,
    COMBINED_TASKS,
    OffsetRange,
    backlog,
    combine_ranges,
    limit_batch,
    split_ranges,
)

keys = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 5))
partition_sizes = st.dictionaries(keys, st.integers(0, 10_000), min_size=1)
STARTS = 100


@given(partition_sizes, st.integers(1, 20_000))
def test_a_limited_batch_advances_and_stays_below_the_latest_offsets(
    sizes: dict[tuple[str, int], int], max_offsets: int
) -> None:
    start = dict.fromkeys(sizes, STARTS)
    latest = {key: STARTS + size for key, size in sizes.items()}
    end = limit_batch(start, latest, max_offsets)
    assert all(start[key] <= end[key] <= latest[key] for key in latest)
    assert sum(backlog(start, end).values()) <= max_offsets + len(sizes)
    if sum(sizes.values()):
        assert end != start


def test_a_small_partition_is_not_starved_by_a_large_one() -> None:
    start = {("t", 0): 0, ("t", 1): 0}
    assert limit_batch(start, {("t", 0): 1_000_000, ("t", 1): 3}, 10) == {("t", 0): 9, ("t", 1): 1}


def test_a_backlog_below_the_limit_is_read_whole() -> None:
    assert limit_batch({("t", 0): 5}, {("t", 0): 9}, 4) == {("t", 0): 9}


@given(
    st.lists(st.integers(0, 1_000), min_size=1, max_size=6),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 300),
)
def test_tasks_cover_every_offset_once(sizes: list[int], min_partitions: int | None, max_records: int | None) -> None:
    ranges = [OffsetRange("t", i, 10, 10 + size) for i, size in enumerate(sizes)]
    tasks = split_ranges(ranges, min_partitions=min_partitions, max_records=max_records)
    assert list_offsets(tasks) == list_offsets(ranges)
    assert all(task.size > 0 for task in tasks)
    assert max_records is None or all(task.size <= max_records for task in tasks)


def list_offsets(ranges: list[OffsetRange]) -> list[tuple[int, int]]:
    return [(offsets.partition, offset) for offsets in ranges for offset in range(offsets.start, offsets.end)]


def test_large_ranges_are_split_for_min_partitions() -> None:
    tasks = split_ranges([OffsetRange("t", 0, 0, 90), OffsetRange("t", 1, 0, 10)], min_partitions=10)
    assert [task.partition for task in tasks].count(0) == 9


@given(
    st.lists(st.integers(1, COMBINED_OFFSETS), max_size=300),
    st.none() | st.integers(1, 400),
    st.none() | st.integers(1, 300),
)
def test_combined_tasks_have_every_range_once_and_in_order(
    sizes: list[int], min_partitions: int | None, max_records: int | None
) -> None:
    ranges = split_ranges(
        [OffsetRange("t", i, 10, 10 + size) for i, size in enumerate(sizes)],
        min_partitions=min_partitions,
        max_records=max_records,
    )
    tasks = combine_ranges(ranges, min_partitions=min_partitions, max_records=max_records)
    assert [offsets for task in tasks for offsets in task] == ranges
    assert len(tasks) >= min(len(ranges), max(COMBINED_TASKS, min_partitions or 0))
    for task in tasks:
        assert len({offsets.key for offsets in task}) == len(task)
        assert len(task) == 1 or sum(offsets.size for offsets in task) <= min(COMBINED_OFFSETS, max_records or 1 << 60)


def test_thousands_of_small_ranges_become_few_tasks() -> None:
    ranges = [OffsetRange("t", i, 0, 10) for i in range(5_000)]
    assert COMBINED_TASKS <= len(combine_ranges(ranges)) <= COMBINED_TASKS + 1
    assert len(combine_ranges(ranges, min_partitions=5_000)) == 5_000


def test_few_or_large_ranges_keep_a_task_each() -> None:
    assert len(combine_ranges([OffsetRange("t", i, 0, 1) for i in range(COMBINED_TASKS)])) == COMBINED_TASKS
    assert len(combine_ranges([OffsetRange("t", i, 0, COMBINED_OFFSETS) for i in range(500)])) == 500
