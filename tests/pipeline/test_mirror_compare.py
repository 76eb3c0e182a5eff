"""Every difference of two logs is named once, and by its kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insync.pipeline.mirror import compare
from insync.pipeline.mirror.compare import Interval, LogComparison, LogDifferences, Pair, Run
from insync.pipeline.mirror.row_digests import RowDigests
from insync.pipeline.mirror.verify import describe_group_difference

PLAIN = list(range(100, 300))


def parts(values: Sequence[int], offsets: Sequence[int] | None = None, size: int = 7) -> Iterator[RowDigests]:
    """A log whose records are numbers, in responses of `size` records."""
    places = range(len(values)) if offsets is None else offsets
    for at in range(0, len(values), size):
        digests = np.array(values[at : at + size], np.uint64)
        yield RowDigests(np.array(places[at : at + size], np.int64), digests, np.full(len(digests), -1))


def differences(source: Sequence[int], target: Sequence[int], offsets: Sequence[int] = ()) -> LogDifferences:
    def find_in_source(digests: Any) -> Any:
        return np.isin(digests, np.array(source, np.uint64))

    return LogComparison(parts(source), parts(target), offsets, len(target)).run(find_in_source)


def kinds(result: LogDifferences) -> dict[str, int]:
    counts = {name: len(getattr(result, name)) for name in ("missing", "added", "doubled", "moved", "changed")}
    return {name: count for name, count in counts.items() if count}


def test_equal_logs_have_no_differences() -> None:
    result = differences(PLAIN, PLAIN)
    assert (kinds(result), result.equal) == ({}, len(PLAIN))
    assert kinds(differences([], [])) == {}


@pytest.mark.parametrize("at", [0, 1, 100, 198, 199])
def test_one_difference_anywhere_is_named_once(at: int) -> None:
    value = PLAIN[at]
    assert differences(PLAIN, PLAIN[:at] + PLAIN[at + 1 :]).missing == [Run(at, at, 1, at)]
    assert kinds(differences(PLAIN, PLAIN[:at] + PLAIN[at + 1 :])) == {"missing": 1}
    assert kinds(differences(PLAIN, [*PLAIN[:at], value, *PLAIN[at:]])) == {"doubled": 1}
    assert kinds(differences(PLAIN, [*PLAIN[:at], 7, *PLAIN[at:]])) == {"added": 1}
    changed = differences(PLAIN, [*PLAIN[:at], 7, *PLAIN[at + 1 :]])
    assert (kinds(changed), changed.changed) == ({"changed": 1}, [Pair(at, at, at, at, 1)])


@pytest.mark.parametrize("distance", [1, 2, 60, 150])
def test_a_record_that_moved_is_named_once(distance: int) -> None:
    moved = [*PLAIN[:10], *PLAIN[11 : 11 + distance], PLAIN[10], *PLAIN[11 + distance :]]
    assert kinds(differences(PLAIN, moved)) == {"moved": 1}
    assert kinds(differences(moved, PLAIN)) == {"moved": 1}


def test_a_run_is_one_difference() -> None:
    assert differences(PLAIN, PLAIN[:50] + PLAIN[60:]).missing == [Run(50, 59, 10, 50)]
    again = differences(PLAIN, PLAIN[:60] + PLAIN[50:60] + PLAIN[60:])
    assert (kinds(again), again.doubled[0].records) == ({"doubled": 1}, 10)
    assert differences(PLAIN, PLAIN[:150]).missing == [Run(150, 199, 50, 150)]
    assert differences(PLAIN, []).missing == [Run(0, 199, 200, 0)]
    assert kinds(differences([], PLAIN)) == {"added": 1}


def test_records_written_twice_much_later_are_doubled() -> None:
    result = differences(PLAIN, PLAIN + PLAIN[20:40])
    assert (kinds(result), result.doubled) == ({"doubled": 1}, [Run(200, 219, 20, 200)])


def test_logs_of_equal_records_differ_by_their_number() -> None:
    assert kinds(differences([5] * 100, [5] * 98)) == {"missing": 1}
    assert kinds(differences([5] * 100, [5] * 103)) == {"doubled": 1}


def test_two_records_that_changed_places_are_out_of_order_not_changed() -> None:
    swapped = list(PLAIN)
    swapped[10], swapped[150] = swapped[150], swapped[10]
    assert kinds(differences(PLAIN, swapped)) == {"moved": 2}


@given(st.data())
def test_planted_differences_are_all_named(data: st.DataObject) -> None:
    """One of every kind, at least five records apart, in any order."""
    planted = ["missing", "doubled", "added", "changed", "moved"]
    places = data.draw(st.lists(st.integers(0, 19), min_size=5, max_size=5, unique=True))
    target = list(PLAIN)
    for kind, place in sorted(zip(planted, places, strict=True), key=lambda pair: -pair[1]):
        at = place * 10 + 3
        if kind == "missing":
            del target[at]
        elif kind == "doubled":
            target.insert(at, target[at])
        elif kind == "added":
            target.insert(at, 7)
        elif kind == "changed":
            target[at] = 8
        else:
            target[at], target[at + 1] = target[at + 1], target[at]
    result = differences(PLAIN, target)
    assert kinds(result) == dict.fromkeys(planted, 1)
    assert kinds(LogComparison(parts(PLAIN), parts(target), (), 0).run(lambda d: np.isin(d, PLAIN))) == kinds(result)


@given(st.lists(st.integers(0, 5), max_size=60), st.lists(st.integers(0, 5), max_size=60))
def test_equal_missing_changed_and_moved_records_make_up_the_source(source: list[int], target: list[int]) -> None:
    """Whatever the logs are: each record of either log is counted once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "FIRST_WINDOW", 4)
        result = differences(source, target)
    shared = result.equal + len(result.changed) + sum(pair.records for pair in result.moved)
    assert shared + sum(run.records for run in result.missing) == len(source)
    assert shared + sum(run.records for run in (*result.added, *result.doubled)) == len(target)
    assert (kinds(result) == {}) == (source == target)


def test_offsets_are_translated_by_the_records_that_are_equal() -> None:
    """The target has other offsets, and gaps: any offset in a gap means the same."""
    source, target = list(range(50, 60)), [100, 101, 102, 105, 106, 107, 108, 109, 110, 111]
    comparison = LogComparison(parts(PLAIN[:10], source), parts(PLAIN[:10], target), (0, 52, 53, 60, 75), 115)
    assert comparison.run(lambda digests: digests == 0).intervals == {
        0: Interval(0, 100), 52: Interval(102, 102), 53: Interval(103, 105), 60: Interval(112, 115),
        75: Interval(112, 115),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("offset", "target", "text"),
    [
        (53, 103, ""),
        (53, 105, ""),
        (
            53,
            100,
            "offset 53 of the source is 105 in the target, where 100 is committed: 3 offsets would be read again",
        ),
        (53, 106, "offset 53 of the source is 105 in the target, where 106 is committed: 1 offset would be skipped"),
        (53, None, "offset 53 of the source is 105 in the target, where none is committed"),
        (None, 9, "offset 9 is committed in the target, and none in the source"),
    ],
)
def test_a_groups_offset_is_equal_if_the_same_record_comes_next(
    offset: int | None, target: int | None, text: str
) -> None:
    interval = None if offset is None else Interval(103, 105)
    assert describe_group_difference(offset, target, interval) == text
