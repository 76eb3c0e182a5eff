"""The checker notices what stays unavailable for too long, in a hand-made cluster whose controller is node 3."""

from __future__ import annotations

import pytest

from insync.sim.checks.availability_checks import DETECTION_SLACK_MS, ELECTION_BOUND_MS
from insync.wire import metadata_records as records
from tests.sim.checker_harness import World, three_replicas

SESSION_MS = 500


@pytest.fixture
def world() -> World:
    world = three_replicas()
    world.quorum(3).is_leader = True
    world.nodes()[2].controller_role.active = True
    let_pass(world, 100)
    return world


def let_pass(world: World, time_ms: int) -> None:
    """Time passes, with a step of node 2 every 20 ms."""
    for _ in range(0, time_ms, 20):
        world.engine.now += 20_000
        world.quorum(3).is_waiting_for_disk = True  # so that S12 does not count the silence of its followers
        world.step(2)


def test_a_partition_with_a_candidate_gets_a_leader_in_time(world: World) -> None:
    """L8, E1"""
    world.change(leader=-1, isr=(2,), eligible_leader_replicas=(3,))
    let_pass(world, ELECTION_BOUND_MS)
    assert world.violations == []
    let_pass(world, 200)
    assert "L8" in world.violations


def test_a_fenced_replica_is_no_candidate(world: World) -> None:
    """L8, E2"""
    fenced = records.BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=1, fenced=records.FENCED)
    world.change(leader=-1, isr=(), eligible_leader_replicas=(2,))
    world.commit(fenced)
    let_pass(world, ELECTION_BOUND_MS * 2)
    assert "L8" not in world.violations


def test_time_without_a_working_controller_does_not_count(world: World) -> None:
    """L8"""
    world.change(leader=-1, isr=(2,), eligible_leader_replicas=(3,))
    for _ in range(4):
        let_pass(world, ELECTION_BOUND_MS - 100)
        world.hosts[3].paused = True
        let_pass(world, 100)
        world.hosts[3].paused = False
    assert world.violations == []


def test_a_dead_broker_is_fenced_in_time(world: World) -> None:
    """L8, B4"""
    world.crash(1)
    let_pass(world, SESSION_MS * 2 + DETECTION_SLACK_MS)
    assert world.violations == []
    let_pass(world, 200)
    assert "L8" in world.violations


def test_a_leader_is_replaced_only_if_its_broker_leaves(world: World) -> None:
    """S17, E1: broker 1 stays active, and in the ISR."""
    world.change(leader=2)
    assert world.violations == []
    let_pass(world, ELECTION_BOUND_MS + 200)
    assert "S17" in world.violations


def test_a_leader_on_a_broker_that_is_then_fenced_may_be_replaced(world: World) -> None:
    """S17, B4: fencing comes in slices."""
    world.change(leader=2)
    world.change(isr=(2, 3))
    world.commit(records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, fenced=records.FENCED))
    let_pass(world, ELECTION_BOUND_MS + 200)
    assert world.violations == []
