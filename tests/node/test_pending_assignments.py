"""Many roles at once: they are taken up some at a time, and the node does everything else in between (Q7, B3, B7)."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from insync.metadata.partition import Partition
from insync.node.broker_role import ASSIGNMENTS_PER_STEP, PendingAssignments
from insync.sansio import Timer
from tests.node.node_harness import Net, create_request, delete_request, three_brokers

TOPIC_ID = UUID(int=5)
MANY = 3 * ASSIGNMENTS_PER_STEP


def partition(index: int, **fields: object) -> Partition:
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
    return replace(made, **fields)  # type: ignore[arg-type]


def test_a_step_takes_the_oldest_and_no_more_than_so_many() -> None:
    waiting = PendingAssignments()
    waiting.add([partition(index) for index in range(MANY)], [])
    first, gone, _ = waiting.take()
    assert ([each.index for each in first], gone) == (list(range(ASSIGNMENTS_PER_STEP)), [])
    assert waiting


def test_of_a_partition_that_changes_again_only_where_it_stands_then_counts() -> None:
    """Q7"""
    waiting = PendingAssignments()
    waiting.add([partition(0), partition(1)], [])
    waiting.add([partition(0, leader=2, leader_epoch=1)], [])
    waiting.add([], [(TOPIC_ID, 1)])
    taken, gone, _ = waiting.take()
    assert ([each.leader for each in taken], gone) == ([2], [(TOPIC_ID, 1)])
    assert not waiting


def test_what_a_snapshot_no_longer_has_is_set_aside_unless_its_deletion_is_known() -> None:
    """B9"""
    waiting = PendingAssignments()
    waiting.add([partition(0)], [], [(TOPIC_ID, 1), (TOPIC_ID, 2), (TOPIC_ID, 0)])
    waiting.add([], [(TOPIC_ID, 2)])
    taken, gone, forgotten = waiting.take()
    assert ([each.index for each in taken], gone, forgotten) == ([0], [(TOPIC_ID, 2)], [(TOPIC_ID, 1)])


def roles(net: Net, node_id: int) -> int:
    replicas = net.nodes[node_id].replicas
    assert replicas is not None
    return len(replicas.replicas)


def offset_told(net: Net, node_id: int) -> int:
    lifecycle = net.nodes[node_id].lifecycle
    assert lifecycle is not None
    return lifecycle.metadata_offset


def test_metadata_counts_as_applied_when_every_role_is_taken_up() -> None:
    """B7: metadata counts as applied only when all of its assignments are."""
    net = three_brokers().up()
    before = offset_told(net, 2)
    net.ask(1, create_request("t", (1, 2), MANY))
    assert (roles(net, 2), offset_told(net, 2)) == (ASSIGNMENTS_PER_STEP, before)
    while roles(net, 2) < MANY:
        assert offset_told(net, 2) == before
        assert net.nodes[2].next_deadline() == net.now, "the rest has its turn at once"
        net.carry(net.nodes[2], net.step(2, Timer()))
    assert offset_told(net, 2) == net.nodes[2].metadata_loader.applied - 1


def test_a_broker_that_comes_back_stays_fenced_until_it_has_taken_up_its_roles() -> None:
    """B3, T7: and a log is no stray while its role still waits."""
    net = three_brokers().up()
    net.ask(1, create_request("t", (2, 1), MANY))
    net.advance(2_000)
    net.restart(2)
    lifecycle = net.nodes[2].lifecycle
    assert lifecycle is not None
    while not lifecycle.saw_registration:
        net.advance(1)
    assert 0 < roles(net, 2) < MANY
    assert not lifecycle.caught_up
    net.advance(5_000)
    assert (roles(net, 2), lifecycle.caught_up, lifecycle.fenced) == (MANY, True, False)
    assert "replica_deleted" not in net.kinds(2)


def test_a_topic_that_goes_before_its_roles_are_taken_up_leaves_nothing() -> None:
    """T7"""
    net = three_brokers().up()
    net.ask(1, create_request("t", (1, 2), MANY))
    net.ask(1, delete_request("t"))
    net.advance(2_000)
    assert [roles(net, node_id) for node_id in (1, 2, 3)] == [0, 0, 0]
    assert [name for name in net.disks[2].listdir("data") if name.startswith("t-")] == []


def test_many_logs_are_deleted_with_one_wait_for_the_disk() -> None:
    """T7"""
    net = three_brokers().up()
    net.create("t", (1, 2), ASSIGNMENTS_PER_STEP)
    before = net.disks[2].syncs
    net.delete("t")
    assert roles(net, 2) == 0
    assert net.disks[2].syncs - before < ASSIGNMENTS_PER_STEP
