"""Who reads what: nothing twice, nothing left out, whatever the limits are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from insync.spark.planning import OffsetRange, backlog, from_json, limited, split, to_json

keys = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 5))
sizes = st.dictionaries(keys, st.integers(0, 10_000), min_size=1)
STARTS = 100


@given(sizes, st.integers(1, 20_000))
def test_a_limited_batch_moves_on_and_never_beyond_the_latest(found: dict[tuple[str, int], int], most: int) -> None:
    start = dict.fromkeys(found, STARTS)
    latest = {key: STARTS + size for key, size in found.items()}
    end = limited(start, latest, most)
    assert all(start[key] <= end[key] <= latest[key] for key in latest)
    assert sum(backlog(start, end).values()) <= max(most, 0) + len(found)
    if sum(found.values()):
        assert end != start


def test_a_small_partition_is_not_starved_by_a_large_one() -> None:
    start = {("t", 0): 0, ("t", 1): 0}
    assert limited(start, {("t", 0): 1_000_000, ("t", 1): 3}, 10) == {("t", 0): 9, ("t", 1): 1}


def test_what_is_below_the_limit_is_taken_whole() -> None:
    assert limited({("t", 0): 5}, {("t", 0): 9}, 4) == {("t", 0): 9}


@given(
    st.lists(st.integers(0, 1_000), min_size=1, max_size=6),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 300),
)
def test_tasks_cover_every_offset_once(found: list[int], least: int | None, most: int | None) -> None:
    ranges = [OffsetRange("t", i, 10, 10 + size) for i, size in enumerate(found)]
    tasks = split(ranges, min_partitions=least, max_records=most)
    covered = [(each.partition, offset) for each in tasks for offset in range(each.start, each.end)]
    assert covered == [(each.partition, offset) for each in ranges for offset in range(each.start, each.end)]
    assert all(each.size > 0 for each in tasks)
    assert most is None or all(each.size <= most for each in tasks)


def test_large_ranges_are_cut_when_more_tasks_are_wanted() -> None:
    tasks = split([OffsetRange("t", 0, 0, 90), OffsetRange("t", 1, 0, 10)], min_partitions=10)
    assert [each.partition for each in tasks].count(0) == 9


def test_offsets_are_written_in_one_order() -> None:
    offsets = {("b", 10): 1, ("a", 2): 3, ("b", 9): 2}
    assert to_json(offsets) == '{"a":{"2":3},"b":{"9":2,"10":1}}'
    assert from_json(to_json(offsets)) == offsets
