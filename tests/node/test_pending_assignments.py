"""Many assignments at once are applied some at a time, with other work in between (Q7, B3, B7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from insync.metadata.partition import Partition
from insync.node.broker_role import ASSIGNMENTS_PER_STEP, PendingAssignments
from insync.sansio import Timer
from tests.node.node_harness import Net, create_request, delete_request, three_brokers

TOPIC_ID = UUID(int=5)
MANY = 3 * ASSIGNMENTS_PER_STEP


def partition(index: int, **fields: Any) -> Partition:
    made = Partition(
        topic_id=TOPIC_ID,
        topic="t",
        index=index,
        replicas=(1, 2),
        isr=(1, 2),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
    )
    return replace(made, **fields)


def test_a_step_takes_the_oldest_up_to_its_limit() -> None:
    waiting = PendingAssignments()
    waiting.add([partition(index) for index in range(MANY)], [])
    first, gone, _ = waiting.take()
    assert ([partition.index for partition in first], gone) == (list(range(ASSIGNMENTS_PER_STEP)), [])
    assert waiting


def test_the_latest_state_of_a_partition_replaces_earlier_ones() -> None:
    """Q7"""
    waiting = PendingAssignments()
    waiting.add([partition(0), partition(1)], [])
    waiting.add([partition(0, leader=2, leader_epoch=1)], [])
    waiting.add([], [(TOPIC_ID, 1)])
    taken, gone, _ = waiting.take()
    assert ([partition.leader for partition in taken], gone) == ([2], [(TOPIC_ID, 1)])
    assert not waiting


def test_what_a_snapshot_no_longer_has_is_set_aside_unless_its_deletion_is_known() -> None:
    """B9"""
    waiting = PendingAssignments()
    waiting.add([partition(0)], [], [(TOPIC_ID, 1), (TOPIC_ID, 2), (TOPIC_ID, 0)])
    waiting.add([], [(TOPIC_ID, 2)])
    taken, gone, forgotten = waiting.take()
    assert ([partition.index for partition in taken], gone, forgotten) == ([0], [(TOPIC_ID, 2)], [(TOPIC_ID, 1)])


def replica_count(net: Net, node_id: int) -> int:
    return len(net.broker(node_id).replicas.replicas)


def reported_offset(net: Net, node_id: int) -> int:
    """Of the metadata, in the heartbeats of the broker."""
    return net.broker(node_id).lifecycle.metadata_offset


def test_metadata_counts_as_applied_when_every_assignment_is() -> None:
    """B7: until then heartbeats report the offset from before."""
    net = three_brokers().up()
    before = reported_offset(net, 2)
    net.ask(1, create_request("t", (1, 2), MANY))
    assert (replica_count(net, 2), reported_offset(net, 2)) == (ASSIGNMENTS_PER_STEP, before)
    while replica_count(net, 2) < MANY:
        assert reported_offset(net, 2) == before
        assert net.nodes[2].next_deadline() == net.now, "the rest is due at once"
        net.carry_out(net.nodes[2], net.step(2, Timer()))
    assert reported_offset(net, 2) == net.nodes[2].metadata_loader.applied - 1


def test_a_restarted_broker_stays_fenced_until_its_assignments_are_applied() -> None:
    """B3, T7: and a log is no stray while its assignment still waits."""
    net = three_brokers().up()
    net.ask(1, create_request("t", (2, 1), MANY))
    net.advance(2_000)
    net.restart(2)
    lifecycle = net.broker(2).lifecycle
    while not lifecycle.saw_registration:
        net.advance(1)
    assert 0 < replica_count(net, 2) < MANY
    assert not lifecycle.caught_up
    net.advance(5_000)
    assert (replica_count(net, 2), lifecycle.caught_up, lifecycle.fenced) == (MANY, True, False)
    assert "replica_deleted" not in net.kinds(2)


def test_a_topic_deleted_before_its_assignments_are_applied_leaves_nothing() -> None:
    """T7"""
    net = three_brokers().up()
    net.ask(1, create_request("t", (1, 2), MANY))
    net.ask(1, delete_request("t"))
    net.advance(2_000)
    assert [replica_count(net, node_id) for node_id in (1, 2, 3)] == [0, 0, 0]
    assert [name for name in net.disks[2].listdir("data") if name.startswith("t-")] == []


def test_many_logs_are_deleted_with_one_wait_for_the_disk() -> None:
    """T7"""
    net = three_brokers().up()
    net.create("t", (1, 2), ASSIGNMENTS_PER_STEP)
    before = net.disks[2].syncs
    net.delete("t")
    assert replica_count(net, 2) == 0
    assert net.disks[2].syncs - before < ASSIGNMENTS_PER_STEP
