"""Proposals that even out bytes and leaders: valid, never worse than before, and with bounded copies."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insync.ops.reassignment.balance import (
    BalanceLimits,
    BrokerSpace,
    PartitionSize,
    copy_bound,
    count_leaders,
    find_faults,
    propose_moves,
    sum_loads,
)
from insync.ops.reassignment.copy_time import MIN_THROTTLE, estimate_copies, round_up
from insync.ops.reassignment.plan import Move, to_document

Case = tuple[list[PartitionSize], list[BrokerSpace], BalanceLimits]


def make_partition(index: int, replicas: tuple[int, ...], size: int) -> PartitionSize:
    return PartitionSize(topic="t", partition=index, replicas=replicas, size=size)


def apply_moves(partitions: list[PartitionSize], moves: list[Move]) -> list[PartitionSize]:
    after = {(move.topic, move.partition): move.after for move in moves}
    return [replace(partition, replicas=after.get(partition.key, partition.replicas)) for partition in partitions]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    count = draw(st.integers(1, 6))
    names = draw(st.sampled_from([(None,), ("a", "b"), ("a", "b", "c"), ("a", None)]))
    partitions = []
    for index in range(draw(st.integers(0, 14))):
        factor = draw(st.integers(1, min(3, count)))
        replicas = tuple(draw(st.permutations(range(1, count + 1)))[:factor])
        size = draw(st.one_of(st.integers(0, 20), st.integers(0, 10**9)))
        partitions.append(replace(make_partition(index, replicas, size), can_move=draw(st.integers(0, 9)) > 0))
    loads = sum_loads(partitions, [BrokerSpace(id=broker) for broker in range(1, count + 1)])
    brokers = [
        BrokerSpace(
            id=broker,
            rack=draw(st.sampled_from(names)),
            used=loads[broker] + draw(st.integers(0, 10)),
            disk=draw(st.none() | st.integers(0, 2 * 10**9)),
            can_take=draw(st.integers(0, 9)) > 0,
        )
        for broker in range(1, count + 1)
    ]
    limits = BalanceLimits(
        tolerance=draw(st.sampled_from([0.0, 0.05, 0.1, 0.5])), max_copied=draw(st.none() | st.integers(0, 10**9))
    )
    return partitions, brokers, limits


@given(cases())
@settings(max_examples=400, deadline=None)
def test_a_proposal_is_valid_and_makes_nothing_worse(case: Case) -> None:
    """R1; `find_faults` checks replicas, racks, space, copies and both skews."""
    partitions, brokers, limits = case
    moves = propose_moves(partitions, brokers, limits)
    assert find_faults(partitions, brokers, moves, limits) == []
    before, after = (sum_loads(chosen, brokers) for chosen in (partitions, apply_moves(partitions, moves)))
    copied = sum(len(move.copies) * partitions[move.partition].size for move in moves)
    assert copied <= copy_bound(before) - copy_bound(after)
    assert propose_moves(partitions, brokers, limits) == moves


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 10**9))
@settings(max_examples=60, deadline=None)
def test_equal_brokers_get_no_proposal(count: int, rounds: int, size: int) -> None:
    partitions = [
        make_partition(index, (index % count + 1, (index + 1) % count + 1)[: min(2, count)], size)
        for index in range(rounds * count)
    ]
    brokers = [BrokerSpace(id=broker) for broker in range(1, count + 1)]
    assert propose_moves(partitions, brokers, BalanceLimits(tolerance=0.0)) == []


def test_a_new_broker_gets_its_share_without_a_copy_too_many() -> None:
    partitions = [make_partition(i, ((1, 2), (2, 3), (3, 1))[i % 3], 100) for i in range(12)]
    brokers = [BrokerSpace(id=broker) for broker in (1, 2, 3, 4)]
    moves = propose_moves(partitions, brokers)
    moved = apply_moves(partitions, moves)
    assert set(sum_loads(moved, brokers).values()) == {600}
    assert sum(len(move.copies) for move in moves) == 6
    leaders = count_leaders({partition.key: partition.replicas for partition in moved}, dict.fromkeys((1, 2, 3, 4)))
    assert leaders == {1: 3, 2: 3, 3: 3, 4: 3}


def test_one_large_partition_moves_rather_than_many_small_ones() -> None:
    partitions = [make_partition(0, (1,), 500), *(make_partition(i, (1,), 10) for i in range(1, 51))]
    brokers = [BrokerSpace(id=1), BrokerSpace(id=2)]
    [move] = propose_moves(partitions, brokers)
    assert (move.partition, move.copies) == (0, (2,))


def test_leaders_are_evened_out_without_copies() -> None:
    partitions = [make_partition(i, (1, 2, 3), 100) for i in range(9)]
    brokers = [BrokerSpace(id=broker) for broker in (1, 2, 3)]
    moves = propose_moves(partitions, brokers)
    assert len(moves) == 6
    assert not any(move.copies for move in moves)
    after = {partition.key: partition.replicas for partition in apply_moves(partitions, moves)}
    assert count_leaders(after, dict.fromkeys((1, 2, 3))) == {1: 3, 2: 3, 3: 3}


def test_replicas_stay_on_as_many_racks_and_where_there_is_space() -> None:
    racks = {1: "a", 2: "b", 3: "a", 4: "b"}
    partitions = [make_partition(i, (1, 2), 100) for i in range(8)]
    brokers = [BrokerSpace(id=broker, rack=rack) for broker, rack in racks.items()]
    moved = apply_moves(partitions, propose_moves(partitions, brokers))
    assert all(len({racks[broker] for broker in partition.replicas}) == 2 for partition in moved)
    assert sum_loads(moved, brokers) == {1: 400, 2: 400, 3: 400, 4: 400}
    tight = [replace(broker, disk=250) if broker.id == 3 else broker for broker in brokers]
    moved = apply_moves(partitions, propose_moves(partitions, tight))
    assert sum_loads(moved, tight)[3] == 200


def test_brokers_that_only_racks_keep_apart_do_not_prevent_the_others() -> None:
    """Broker 1 is alone in its rack and has to hold everything; the other rack is evened out all the same."""
    partitions = [make_partition(i, (1, 2), 100) for i in range(8)]
    brokers = [BrokerSpace(id=1, rack="a"), BrokerSpace(id=2, rack="b"), BrokerSpace(id=3, rack="b")]
    moved = apply_moves(partitions, propose_moves(partitions, brokers))
    assert sum_loads(moved, brokers) == {1: 800, 2: 400, 3: 400}


def test_fenced_brokers_and_running_reassignments_are_left_alone() -> None:
    partitions = [make_partition(i, (1,), 100) for i in range(4)]
    brokers = [BrokerSpace(id=1), BrokerSpace(id=2, can_take=False)]
    assert propose_moves(partitions, brokers) == []
    fixed = [replace(partition, can_move=False) for partition in partitions]
    assert propose_moves(fixed, [BrokerSpace(id=1), BrokerSpace(id=2)]) == []


@pytest.mark.parametrize(
    ("move", "fault"),
    [
        (Move("t", 0, (1, 2), (1,)), "t-0 would have the replicas (1,) instead of 2"),
        (Move("t", 0, (1, 2), (3, 3)), "t-0 would have the replicas (3, 3) instead of 2"),
        (Move("t", 0, (1, 2), (1, 9)), "t-0 would be copied to broker 9, which can take no replicas"),
        (Move("t", 0, (1, 2), (1, 3)), "t-0 would be on fewer racks"),
        (Move("t", 0, (2, 1), (1, 2)), "t-0 does not have the replicas (2, 1)"),
        (Move("t", 1, (1, 2), (2, 1)), "t-1 is being reassigned"),
        (Move("t", 0, (1, 2), (4, 2)), "broker 4 has space for 50 bytes and would get 100"),
        (Move("t", 2, (3, 2), (1, 2)), "the bytes of brokers would be further apart"),
        (Move("t", 2, (3, 2), (2, 3)), "the numbers of preferred leaders would be further apart"),
    ],
)
def test_faults_of_a_proposal_are_named(move: Move, fault: str) -> None:
    partitions = [
        make_partition(0, (1, 2), 100),
        replace(make_partition(1, (1, 2), 100), can_move=False),
        make_partition(2, (3, 2), 40),
        make_partition(3, (2, 3), 0),
        make_partition(4, (4, 2), 0),
        make_partition(5, (1,), 60),
    ]
    brokers = [
        BrokerSpace(id=1, rack="a"),
        BrokerSpace(id=2, rack="b"),
        BrokerSpace(id=3, rack="a"),
        BrokerSpace(id=4, rack="c", disk=50),
    ]
    faults = find_faults(partitions, brokers, [move], BalanceLimits(tolerance=0.0))
    assert any(text.startswith(fault) for text in faults), faults


def test_copies_above_the_limit_are_a_fault() -> None:
    partitions = [make_partition(i, (1,), 100) for i in range(4)]
    brokers = [BrokerSpace(id=1), BrokerSpace(id=2)]
    moves = propose_moves(partitions, brokers)
    assert len(moves) == 2
    assert find_faults(partitions, brokers, moves, BalanceLimits(max_copied=199)) == [
        "200 bytes would be copied, more than 199"
    ]
    assert len(propose_moves(partitions, brokers, BalanceLimits(max_copied=199))) == 1


def test_the_throttle_outpaces_writes_and_ends_in_time() -> None:
    moves = [Move("t", 0, (1,), (2,)), Move("t", 1, (1, 2), (2, 1))]
    sizes = {("t", 0): 36_000_000_000, ("t", 1): 10}
    estimate = estimate_copies(moves, sizes, {("t", 0): 1}, {("t", 0): 1_000_000.0}, within_s=3_600)
    assert (estimate.copies, estimate.copied, estimate.throttle) == (1, 36_000_000_000, 11_000_000)
    assert estimate.seconds == 3_600
    busy = estimate_copies(moves, sizes, {}, {("t", 0): 50_000_000.0}, within_s=36_000)
    assert busy.throttle == 100_000_000
    assert estimate_copies(moves, {("t", 0): 5}, {}, {}, within_s=60).throttle == MIN_THROTTLE
    assert estimate_copies(moves[1:], sizes, {}, {}, within_s=60).throttle == 0
    assert [round_up(value) for value in (3.2, 1_001.0, 99_001.0)] == [4, 1_100, 100_000]


def test_a_plan_has_the_format_of_kafkas_tool() -> None:
    document = to_document([Move("t", 3, (1, 2), (2, 3))])
    assert document == {"version": 1, "partitions": [{"topic": "t", "partition": 3, "replicas": [2, 3]}]}
