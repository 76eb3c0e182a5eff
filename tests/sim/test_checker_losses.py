"""The checker distinguishes permitted losses from others: unclean elections, power losses, removed replicas."""

from __future__ import annotations

from typing import Any

import pytest

from insync.properties.history import Acked, Sent
from insync.sansio import Request
from insync.wire import codec
from insync.wire import metadata_records as records
from insync.wire.messages import elect_leaders, envelope
from insync.wire.types import ms
from tests.sim.checker_harness import KEY, CheckedLog, World, recovered, three_replicas


def without_candidates(strategy: str = "balanced") -> World:
    """No candidate is left: 1 and 2 are in the last-known ELR, 3 was out of sync before record 5."""
    world = three_replicas()
    world.commit(
        records.ConfigRecord(resource_type=2, resource_name="t", name="unclean.recovery.strategy", value=strategy)
    )
    world.change(isr=(1, 2))
    world.replica(1).lead(1, (1, 2))
    world.replicate(1, 2, 1)
    world.commit_data(6)
    for broker in (1, 2):
        world.crash(broker, lost={})
    world.change(leader=-1, isr=(), last_known_elr=(1, 2))
    return world


def come_back(world: World, broker: int, records_kept: int) -> None:
    log = CheckedLog()
    log.append(1, records_kept)
    recovered(world, broker, 60 + broker, log)


def elect(world: World, leader: int) -> None:
    world.change(leader=leader, isr=(leader,), last_known_elr=(), leader_recovery_state=1)
    world.replica(leader).lead(world.ghost.partition.leader_epoch, (leader,))
    world.changed(leader)


def committed_by_a_late_fetch() -> World:
    """Broker 3 is out of sync. Broker 2 dies with offset 5 in its log and a fetch in flight that commits it."""
    world = three_replicas()
    world.change(isr=(1, 2))
    world.replica(1).lead(1, (1, 2))
    world.replicate(1, 2, 1)
    world.crash(2)
    world.commit_data(6)
    return world


def reopen(world: World, broker: int, length: int) -> None:
    world.start(broker)
    log = CheckedLog()
    log.append(1, length)
    world.host(broker, log)


@pytest.mark.parametrize(
    ("length", "violations"),
    [
        pytest.param(6, [], id="broker 2 has it"),
        pytest.param(5, ["S9"], id="broker 2 lost it without a power loss, and was the last to have it"),
    ],
)
def test_what_a_dead_replica_held_when_its_last_fetch_left_is_not_lost(length: int, violations: list[str]) -> None:
    """S9: the leader loses it."""
    world = committed_by_a_late_fetch()
    world.crash(1, {"data/t-0/0.log": (6, 3)})
    world.change(leader=-1, isr=(), last_known_elr=(1, 2))
    reopen(world, 1, 3)
    assert world.violations == []
    reopen(world, 2, length)
    assert world.violations == violations


def recover(lengths: dict[int, int], leader: int) -> World:
    """Replicas come back with logs of these lengths, and one is elected."""
    world = without_candidates()
    for broker, length in lengths.items():
        come_back(world, broker, length)
    elect(world, leader)
    return world


def test_balanced_recovery_that_chooses_the_longer_log_is_correct() -> None:
    """S9, E6: one of MinISR replicas lost data."""
    world = recover({1: 3, 2: 6}, leader=2)
    assert world.violations == []
    assert world.ghost.committed.end == 6
    assert world.checker.probes.seen["balanced_recovery_chose"] == 1
    assert world.checker.probes.seen["unclean_election_lost_nothing"] == 1


def test_balanced_recovery_that_ignores_a_complete_log_is_found() -> None:
    """S9, E6: the other one had everything."""
    world = recover({1: 3, 2: 6}, leader=1)
    assert world.violations == ["S9"]


def test_balanced_recovery_may_lose_what_min_isr_replicas_lost() -> None:
    """S9: the cluster continues with what is left, and offsets are reused."""
    world = recover({1: 3, 2: 4}, leader=2)
    assert world.violations == []
    assert world.ghost.committed.end == 4
    assert world.checker.probes.seen["unclean_election_lost_records"] == 1
    world.replicate(1, 2, epoch=3)
    world.commit_data(5, leader=2)
    assert world.violations == []
    assert world.ghost.committed.at(4).leader_epoch == 3


def test_proactive_recovery_may_lose_records() -> None:
    """S9, E6: the topic's configs permit it."""
    world = without_candidates("proactive")
    elect(world, 3)
    assert world.violations == []
    assert world.ghost.committed.end == 5


def test_manual_recovery_may_not_lose_records_by_itself() -> None:
    """S9, E6: neither the topic nor an operator permits it."""
    world = without_candidates("manual")
    assert world.checker.probes.seen["manual_recovery_waits"] == 1
    elect(world, 3)
    assert world.violations == ["S9"]


@pytest.mark.parametrize("forwarded", [False, True], ids=["direct", "forwarded"])
def test_an_operator_may_lose_records(forwarded: bool) -> None:
    """S9, E6: exactly the elections that were appended when the operator asked."""
    world = without_candidates("manual")
    request: Any = elect_leaders.ElectLeadersRequest(election_type=1, topic_partitions=None, timeout=ms(0))
    if forwarded:
        data = codec.encode_request(request, 0, "forwarded")
        request = envelope.EnvelopeRequest(request_data=data, request_principal=None, client_host_address=b"")
    quorum = world._nodes[3].quorum
    quorum.leo += 1
    world.step(3, Request(1, request))
    elect(world, 3)
    assert world.violations == []
    assert world.checker.probes.seen["unclean_election_by_operator"] == 1


def test_the_log_of_a_removed_replica_no_longer_counts() -> None:
    """S9, T7: broker 3 left the replica set and deleted its log."""
    world = three_replicas()
    world.change(replicas=(1, 2), isr=(1, 2), leader=1)
    world.changed(3)
    del world._nodes[3].replicas.replicas[KEY]
    world.commit(records.NoOpRecord())
    assert 3 not in world.ghost.tracked
    assert world.violations == []


def test_a_removal_and_return_seen_as_one_is_a_probe() -> None:
    """Q7: broker 2 applies both changes at once."""
    world = three_replicas()
    slow = world._nodes.pop(2)
    world.change(replicas=(1, 2), isr=(1, 2), leader=1)
    world.change(replicas=(1, 2, 3))
    assert world.checker.probes.seen["merged_remove_and_add"] == 0
    world._nodes[2] = slow
    world.commit(records.NoOpRecord())
    assert world.checker.probes.seen["merged_remove_and_add"] == 1


def test_a_deleted_topic_is_not_checked() -> None:
    """S9: its acknowledged records are gone, and that is correct."""
    world = three_replicas()
    world.history.append(Sent(1, 1, KEY, -1, 1, crc=1004))
    world.commit(records.RemoveTopicRecord(topic_id=KEY[0]))
    world.history.append(Acked(1, 2, 9))
    world.step(1)
    assert world.violations == []
