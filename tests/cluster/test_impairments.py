"""What a cut or a delay between groups of nodes means for each node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from insync import ClusterError
from insync.cluster.faults import CLIENTS, Delay, Faults, from_line, to_line
from insync.cluster.impairments import Side, list_directions, make_delay, network_faults

NODES = frozenset((1, 2, 3))


def faults_of(node: int, *groups: Side, delay: Delay | None = None, one_way: bool = False) -> Faults:
    return Faults(**network_faults(node, list_directions(NODES, groups, delay, one_way=one_way)))


def test_one_group_is_cut_off_from_all_other_nodes() -> None:
    assert faults_of(1, {1}) == Faults(mute_to=frozenset((2, 3)), deaf_to=frozenset((2, 3)))
    assert faults_of(2, {1}) == Faults(mute_to=frozenset((1,)), deaf_to=frozenset((1,)))


def test_a_node_in_no_group_reaches_all() -> None:
    assert faults_of(3, {1}, {2}) == Faults()


def test_a_cut_in_one_direction() -> None:
    assert faults_of(1, {1}, {2}, one_way=True) == Faults(mute_to=frozenset((2,)))
    assert faults_of(2, {1}, {2}, one_way=True) == Faults(deaf_to=frozenset((1,)))


def test_clients_are_a_side_of_their_own() -> None:
    faults = faults_of(1, "clients", {1})
    assert faults == Faults(mute_to=frozenset((CLIENTS,)), deaf_to=frozenset((CLIENTS,)))
    assert faults.cut_from == frozenset()
    assert faults_of(2, "clients", {1}) == Faults()
    assert {faults_of(node, "clients").deaf_to for node in NODES} == {frozenset((CLIENTS,))}


def test_the_sender_delays_and_a_node_does_it_for_clients() -> None:
    slow = Delay(latency_ms=20)
    assert faults_of(1, {1}, {2}, delay=slow) == Faults(delay_to=((2, slow),))
    assert faults_of(1, {1}, "clients", delay=slow) == Faults(delay_to=((CLIENTS, slow),), delay_from_clients=slow)
    assert faults_of(1, delay=slow) == Faults(delay_to=((2, slow), (3, slow)))


def test_delays_add_up() -> None:
    impairments = [
        *list_directions(NODES, ({1}, {2}), Delay(10, 5_000, 0.5), one_way=False),
        *list_directions(NODES, ({1}, {2, 3}), Delay(5, 0, 0.5), one_way=False),
    ]
    faults = Faults(**network_faults(1, impairments))
    assert faults.delay_to == ((2, Delay(15, 5_000, 0.75)), (3, Delay(5, 0, 0.5)))


def test_faults_survive_their_line() -> None:
    faults = Faults(
        deaf_to=frozenset((2, CLIENTS)),
        mute_to=frozenset((3,)),
        delay_to=((2, Delay(1.5, 10, 0.25)),),
        delay_from_clients=Delay(2),
        disk_full=True,
        fsync_ms=7,
        bad_sectors=(("/a", 1, 2),),
        clock_ahead_ms=-5,
    )
    assert from_line(to_line(3, faults)) == (3, faults)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: faults_of(1), "needs nodes on both sides"),
        (lambda: faults_of(1, NODES), "needs nodes on both sides"),
        (lambda: faults_of(1, {1}, {1, 2}), "node 1 is on both sides"),
        (lambda: faults_of(1, "clients", "clients"), "clients are on both sides"),
        (lambda: faults_of(1, {4}), "there is no node 4: this cluster has the nodes 1, 2, 3"),
        (lambda: faults_of(1, "client"), "'client' is no side of a cut"),  # type: ignore[arg-type]
        (lambda: faults_of(1, 1), r"1 is not a set of node ids: write \{1\}"),  # type: ignore[arg-type]
        (lambda: faults_of(1, {1}, {2}, {3}, one_way=True), "one_way takes two groups"),
        (lambda: make_delay(-1, 0, 0), "none may be negative"),
        (lambda: make_delay(0, 0, 1), "loss is a share below 1"),
        (lambda: make_delay(0, 0, 0), "nothing is slow"),
    ],
)
def test_mistakes_are_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        call()
