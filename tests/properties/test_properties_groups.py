"""What members of groups and queries of offsets see fails on a bad state and holds on a good one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from insync.properties.group_offsets import GroupHistory
from insync.properties.history import Fingerprint
from insync.properties.offset_queries import check_epoch_end, check_offset_by_time

PLACE = ("g", "t", 0)


def test_a_fetched_offset_is_the_last_acknowledged_one_or_one_in_doubt() -> None:
    """S18, G2"""
    history = GroupHistory()
    first = history.commit_sent(PLACE, 1, 1, now=10)
    history.commit_acked(PLACE, first, now=20)
    doubtful = history.commit_sent(PLACE, 2, 1, now=30)
    last = history.commit_sent(PLACE, 3, 1, now=40)
    history.commit_acked(PLACE, last, now=50)
    history.offset_fetched(PLACE, 1, started=45)
    history.offset_fetched(PLACE, 3, started=60)
    history.offset_fetched(PLACE, 2, started=60)
    assert history.problems == []
    assert doubtful.acked is None
    history.offset_fetched(PLACE, 1, started=60)
    assert history.problems == [("g", "('g', 't', 0): offset 1 came back after 3 was acknowledged")]


def test_a_committed_offset_does_not_vanish() -> None:
    """S18, G1: as if a coordinator had loaded a part of the log."""
    history = GroupHistory()
    history.offset_fetched(PLACE, -1, started=5)
    commit = history.commit_sent(PLACE, 1, 1, now=10)
    history.offset_fetched(PLACE, -1, started=15)
    history.commit_acked(PLACE, commit, now=20)
    history.offset_fetched(PLACE, -1, started=18)
    assert history.problems == []
    history.offset_fetched(PLACE, -1, started=30)
    history.offset_fetched(PLACE, 7, started=30)
    assert [problem.partition(": ")[2] for _, problem in history.problems] == [
        "no offset is committed, but 1 was acknowledged",
        "offset 7 was never committed",
    ]


def test_a_commit_of_an_earlier_generation_is_refused_once_the_next_was_delivered() -> None:
    """S18, G3: one that was under way may still succeed."""
    history = GroupHistory()
    under_way = history.commit_sent(PLACE, 1, 1, now=10)
    history.assigned("g", 2, "a", [("t", 0)], now=15)
    history.commit_acked(PLACE, under_way, now=20)
    assert history.problems == []
    stale = history.commit_sent(PLACE, 2, 1, now=30)
    history.commit_acked(PLACE, stale, now=40)
    assert "offset 2 of generation 1 was committed after generation 2" in history.problems[0][1]


def test_a_partition_has_one_owner_in_a_generation() -> None:
    """S18, G3"""
    history = GroupHistory()
    history.assigned("g", 1, "a", [("t", 0)], now=1)
    history.assigned("g", 1, "b", [("t", 1)], now=2)
    history.assigned("g", 2, "b", [("t", 0)], now=3)
    history.assigned("g", 1, "a", [("t", 0)], now=4)
    assert history.problems == []
    history.assigned("g", 1, "b", [("t", 0)], now=5)
    assert "('t', 0) belongs to a and to b" in history.problems[0][1]


COMMITTED = [Fingerprint(0, 1, 1, 0), Fingerprint(2, 4, 1, 0), Fingerprint(5, 5, 3, 0)]


@pytest.mark.parametrize(
    ("asked", "epoch", "end", "problem"),
    [
        (1, 1, 5, None),
        (2, 1, 5, None),
        (3, 3, 6, None),
        (3, 3, 9, None),
        (0, 0, 0, None),
        (1, 1, 6, "is before that"),
        (1, 1, 2, "comes after that"),
        (2, 1, 2, "comes after that"),
        (1, 3, 6, "newer epoch 3"),
    ],
)
def test_the_end_of_an_epoch_agrees_with_what_is_committed(
    asked: int, epoch: int, end: int, problem: str | None
) -> None:
    """S19, D1"""
    wrong = check_epoch_end(1, asked, epoch, end, COMMITTED)
    assert wrong is None if problem is None else problem in str(wrong)


@pytest.mark.parametrize(
    ("timestamp", "offset", "is_right"),
    [(50, 0, True), (100, 0, True), (101, 2, True), (150, 4, True), (201, -1, True), (101, 0, False), (101, 5, False)],
)
def test_the_offset_of_a_time_is_that_of_the_first_record_since_then(
    timestamp: int, offset: int, is_right: bool
) -> None:
    """S19"""
    batches = [
        SimpleNamespace(base_offset=0, last_offset=1, max_timestamp=100),
        SimpleNamespace(base_offset=2, last_offset=4, max_timestamp=200),
        SimpleNamespace(base_offset=5, last_offset=5, max_timestamp=150),
    ]
    assert (check_offset_by_time(1, timestamp, offset, batches) is None) is is_right
    assert check_offset_by_time(1, 201, 3, batches) is not None
