"""Plans of reassignments: complete, balanced, and with as few copies as possible."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insync.client.model import TopicPartition
from insync.ops.reassignment import plan

Assignment = dict[TopicPartition, tuple[int, ...]]


def apply_plan(current: Assignment, brokers: list[int], factor: int | None = None) -> Assignment:
    moved = {(m.topic, m.partition): m.after for m in plan.plan_moves(current, brokers, factor)}
    return {key: moved.get(key, replicas) for key, replicas in current.items()}


def count_copies(current: Assignment, after: Assignment) -> int:
    return sum(len([b for b in after[key] if b not in current[key]]) for key in current)


def replicas_by_broker(after: Assignment, brokers: list[int]) -> dict[int, int]:
    count = Counter(b for replicas in after.values() for b in replicas)
    return {broker: count[broker] for broker in brokers}


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Assignment, list[int]]:
    brokers = range(1, draw(st.integers(2, 6)) + 1)
    targets = draw(st.lists(st.sampled_from(range(1, 9)), min_size=1, unique=True))
    width = draw(st.integers(1, min(len(brokers), len(targets))))
    count = draw(st.integers(1, 12))
    rows = [tuple(draw(st.permutations(list(brokers)))[:width]) for _ in range(count)]
    return {("t", index): row for index, row in enumerate(rows)}, targets


@given(clusters())
@settings(max_examples=150, deadline=None)
def test_a_plan_is_complete_and_balanced_and_stable(cluster: tuple[Assignment, list[int]]) -> None:
    """R1: each partition keeps its number of replicas, on different brokers of the target."""
    current, brokers = cluster
    after = apply_plan(current, brokers)
    for key, replicas in after.items():
        assert len(replicas) == len(set(replicas)) == len(current[key])
        assert set(replicas) <= set(brokers)
    held = replicas_by_broker(after, brokers)
    assert max(held.values()) - min(held.values()) <= 1
    assert apply_plan(after, brokers) == after


@given(clusters())
@settings(max_examples=60, deadline=None)
def test_no_balanced_placement_needs_fewer_copies(cluster: tuple[Assignment, list[int]]) -> None:
    """Compared with all placements of small clusters."""
    current, brokers = cluster
    current = {key: current[key] for key in list(current)[:3]}
    brokers = brokers[:4]
    width = len(next(iter(current.values())))
    if width > len(brokers):
        return
    best = min(
        count_copies(current, after)
        for rows in product(combinations(brokers, width), repeat=len(current))
        if (after := dict(zip(current, rows, strict=True))) and _is_balanced(replicas_by_broker(after, brokers))
    )
    assert count_copies(current, apply_plan(current, brokers)) == best


def _is_balanced(held: dict[int, int]) -> bool:
    return max(held.values()) - min(held.values()) <= 1


def test_a_new_broker_takes_its_share_and_no_more() -> None:
    current: Assignment = {("t", i): ((1, 2), (2, 3), (3, 1))[i % 3] for i in range(12)}
    after = apply_plan(current, [1, 2, 3, 4])
    assert replicas_by_broker(after, [1, 2, 3, 4]) == {1: 6, 2: 6, 3: 6, 4: 6}
    assert count_copies(current, after) == 6


def test_removing_a_broker_moves_only_its_replicas() -> None:
    current: Assignment = {("t", 0): (1, 2), ("t", 1): (2, 3), ("t", 2): (3, 1)}
    after = apply_plan(current, [1, 2])
    assert all(set(replicas) == {1, 2} for replicas in after.values())
    assert count_copies(current, after) == 2


def test_a_remaining_preferred_leader_stays_first() -> None:
    """An added replica takes the place of the removed one, so that leaders do not change."""
    assert apply_plan({("t", 0): (1, 9, 3)}, [1, 2, 3]) == {("t", 0): (1, 2, 3)}


def test_a_removed_preferred_leader_is_replaced_by_a_replica_with_the_data() -> None:
    assert apply_plan({("t", 0): (9, 1)}, [1, 2]) == {("t", 0): (1, 2)}


def test_removed_preferred_leaders_are_spread() -> None:
    current: Assignment = {("t", i): (9, 1, 2) for i in range(4)}
    firsts = Counter(replicas[0] for replicas in apply_plan(current, [1, 2, 3]).values())
    assert firsts == {1: 2, 2: 2}


def test_more_and_fewer_replicas() -> None:
    assert apply_plan({("t", 0): (1,)}, [1, 2, 3], 3) == {("t", 0): (1, 2, 3)}
    assert apply_plan({("t", 0): (3, 1, 2)}, [1, 2, 3], 1) == {("t", 0): (3,)}


def test_too_few_brokers_are_refused() -> None:
    with pytest.raises(ValueError, match="3 replicas need 3 brokers, the target names 2"):
        plan.plan_moves({("t", 0): (1, 2, 3)}, [1, 2])


def test_an_empty_assignment_needs_no_moves() -> None:
    assert plan.plan_moves({}, [1, 2]) == []
