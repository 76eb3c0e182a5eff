"""Reassignment on the controller (R)."""

from __future__ import annotations

from insync.metadata.partition import NO_LEADER
from insync.wire.errors import ErrorCode
from insync.wire.messages import list_partition_reassignments
from tests.controller.controller_harness import Cluster


def started(replicas: tuple[int, ...] = (1, 2, 3), brokers: int = 5, min_isr: int = 2, **configs: str) -> Cluster:
    cluster = Cluster().up(*range(1, brokers + 1))
    cluster.topic(replicas, min_isr=min_isr, **configs)
    return cluster


def epochs(cluster: Cluster) -> tuple[int, int]:
    return cluster.partition().leader_epoch, cluster.partition().partition_epoch


def test_example_1_moving_one_replica() -> None:
    """R1, R2"""
    cluster = started()
    cluster.alter((1, 2))
    leader_epoch, partition_epoch = epochs(cluster)
    assert cluster.reassign((1, 2, 4)) is ErrorCode.none
    grown = cluster.partition()
    assert grown.replicas == (1, 2, 4, 3)
    assert (grown.isr, grown.leader, grown.adding, grown.removing) == ((1, 2), 1, (4,), (3,))
    assert epochs(cluster) == (leader_epoch, partition_epoch + 1)
    assert cluster.alter((1, 2, 4)) is ErrorCode.none
    done = cluster.partition()
    assert (done.replicas, done.isr, done.leader) == ((1, 2, 4), (1, 2, 4), 1)
    assert (done.adding, done.removing) == ((), ())
    assert epochs(cluster) == (leader_epoch + 1, partition_epoch + 2)


def test_example_2_reducing_the_replication_factor() -> None:
    """R3, R4: the ISR consists of the replicas that are removed."""
    cluster = started((5, 4, 1, 2, 3))
    cluster.alter((5, 4))
    leader_epoch, partition_epoch = epochs(cluster)
    assert cluster.reassign((1, 2, 3)) is ErrorCode.none
    waiting = cluster.partition()
    assert (set(waiting.replicas), waiting.isr, waiting.leader) == ({1, 2, 3, 4, 5}, (5, 4), 5)
    assert (waiting.adding, set(waiting.removing)) == ((), {4, 5})
    assert epochs(cluster) == (leader_epoch, partition_epoch + 1)
    assert cluster.alter((5, 4, 1)) is ErrorCode.none
    assert cluster.partition().reassigning
    assert epochs(cluster) == (leader_epoch, partition_epoch + 2)
    assert cluster.alter((5, 4, 1, 2)) is ErrorCode.new_leader_elected
    done = cluster.partition()
    assert (done.replicas, set(done.isr), done.leader) == ((1, 2, 3), {1, 2}, 1)
    assert not done.reassigning
    assert epochs(cluster) == (leader_epoch + 1, partition_epoch + 3)


def test_a_reassignment_that_only_removes_completes_in_the_request() -> None:
    """R3"""
    cluster = started()
    leader_epoch, partition_epoch = epochs(cluster)
    assert cluster.reassign((2, 3)) is ErrorCode.none
    done = cluster.partition()
    assert (done.replicas, done.isr, done.leader, done.reassigning) == ((2, 3), (2, 3), 2, False)
    assert epochs(cluster) == (leader_epoch + 1, partition_epoch + 1)


def test_a_reassignment_that_only_adds_completes_when_all_added_are_in_the_isr() -> None:
    """R2: it raises the leader epoch although no replica leaves."""
    cluster = started((1, 2))
    cluster.reassign((1, 2, 3, 4))
    cluster.alter((1, 2, 3))
    assert cluster.partition().adding == (3, 4)
    leader_epoch, _ = epochs(cluster)
    cluster.alter((1, 2, 3, 4))
    assert not cluster.partition().reassigning
    assert epochs(cluster)[0] == leader_epoch + 1


def test_a_reassignment_to_disjoint_replicas() -> None:
    """R2: current and target need not intersect; the leader is elected from the target."""
    cluster = started((1, 2), brokers=4)
    cluster.reassign((3, 4))
    assert cluster.partition().replicas == (3, 4, 1, 2)
    assert cluster.partition().leader == 1
    cluster.alter((1, 2, 3))
    assert cluster.alter((1, 2, 3, 4)) is ErrorCode.new_leader_elected
    assert (cluster.partition().replicas, cluster.partition().leader) == ((3, 4), 3)


def test_completion_waits_for_min_isr_of_the_target() -> None:
    """R2, R4: every added replica is in the ISR, but too few members stay."""
    cluster = started((1, 2, 3), min_isr=2)
    cluster.alter((1, 2))
    cluster.reassign((3, 4, 5))
    cluster.fence(5)
    cluster.alter((1, 2, 4))
    assert cluster.partition().reassigning
    cluster.reassign((3, 4))
    assert cluster.partition().reassigning
    cluster.alter((1, 2, 4, 3))
    assert (cluster.partition().replicas, cluster.partition().reassigning) == ((3, 4), False)


def test_min_isr_counts_no_more_replicas_than_the_target_has() -> None:
    """R2, H1: a target of one replica completes with one."""
    cluster = started((1, 2))
    cluster.reassign((3,))
    assert cluster.alter((1, 2, 3)) is ErrorCode.new_leader_elected
    assert cluster.state() == (3, {3}, set(), set())


def test_completion_drops_removed_replicas_from_the_elr() -> None:
    """R2: the ELR is within the replicas."""
    cluster = started((1, 2, 3), min_isr=3)
    cluster.fence(3)
    assert cluster.state() == (1, {1, 2}, {3}, set())
    cluster.reassign((1, 2))
    assert (cluster.partition().replicas, cluster.state()) == ((1, 2), (1, {1, 2}, set(), set()))


def test_reassignment_never_adds_to_the_isr() -> None:
    """R4: only the leader does."""
    cluster = started((1, 2))
    cluster.reassign((1, 2, 3))
    assert cluster.state()[1] == {1, 2}
    cluster.fence(3)
    cluster.beat(3)
    assert cluster.state()[1] == {1, 2}


def test_cancelling_goes_back_to_the_original_replicas() -> None:
    """R5"""
    cluster = started()
    assert cluster.reassign(None) is ErrorCode.no_reassignment_in_progress
    cluster.reassign((3, 4, 5))
    cluster.alter((1, 2, 3, 4))
    assert cluster.reassign(None) is ErrorCode.none
    back = cluster.partition()
    assert (set(back.replicas), set(back.isr), back.leader, back.reassigning) == ({1, 2, 3}, {1, 2, 3}, 1, False)


def test_cancelling_is_refused_when_too_few_of_the_original_are_in_sync() -> None:
    """R5: the ISR would fall below MinISR."""
    cluster = started()
    cluster.reassign((3, 4, 5))
    cluster.alter((1, 2, 4))
    cluster.fence(2)
    assert cluster.reassign(None) is ErrorCode.invalid_replica_assignment
    assert cluster.partition().reassigning
    cluster.alter((1, 4, 3))
    assert cluster.reassign(None) is ErrorCode.none
    assert cluster.state() == (1, {1, 3}, set(), set())


def test_cancelling_is_allowed_where_unclean_election_is_enabled() -> None:
    """R5, E7: even if no original replica is in sync."""
    cluster = started((1, 2), unclean_leader_election_enable="true")
    cluster.reassign((3, 4))
    cluster.alter((1, 2, 3))
    cluster.fence(1, 2)
    assert cluster.state()[:3] == (3, {3}, {2})
    cluster.beat(1)
    assert cluster.reassign(None) is ErrorCode.none
    assert (set(cluster.partition().replicas), cluster.state()) == ({1, 2}, (1, {1}, set(), set()))
    assert cluster.partition().recovering


def test_a_new_target_replaces_the_current_one() -> None:
    """R5: replicas of the old target only are being removed until completion, with whatever they have copied."""
    cluster = started()
    cluster.reassign((1, 2, 4))
    before = epochs(cluster)
    assert cluster.reassign((1, 2, 5)) is ErrorCode.none
    replaced = cluster.partition()
    assert replaced.replicas[:3] == (1, 2, 5)
    assert (set(replaced.replicas), replaced.adding, set(replaced.removing)) == ({1, 2, 3, 4, 5}, (5,), {3, 4})
    assert epochs(cluster) == (before[0], before[1] + 1)
    assert len(cluster.notes("reassignment_replaced")) == 1
    cluster.alter((1, 2, 3, 5))
    done = cluster.partition()
    assert (done.replicas, done.isr, done.reassigning) == ((1, 2, 5), (1, 2, 5), False)


def test_completion_waits_for_a_replica_that_both_targets_add() -> None:
    """R2, R5."""
    cluster = started()
    cluster.reassign((1, 2, 4))
    assert cluster.reassign((1, 4, 5)) is ErrorCode.none
    assert set(cluster.partition().adding) == {4, 5}
    cluster.alter((1, 2, 3, 5))
    assert cluster.partition().reassigning
    cluster.alter((1, 2, 3, 5, 4))
    assert cluster.partition().replicas == (1, 4, 5)


def test_the_original_replicas_may_be_the_new_target() -> None:
    """R3, R5: nothing is left to add, so it completes in the request."""
    cluster = started()
    cluster.reassign((1, 2, 4))
    leader_epoch, _ = epochs(cluster)
    assert cluster.reassign((1, 2, 3), any_factor=False) is ErrorCode.none
    assert (cluster.partition().replicas, cluster.partition().reassigning) == ((1, 2, 3), False)
    assert epochs(cluster)[0] == leader_epoch + 1


def test_a_cancel_after_a_new_target_keeps_replicas_of_the_first_target() -> None:
    """R5: as in Kafka, the metadata does not say which of the removing replicas were there first."""
    cluster = started()
    cluster.reassign((1, 2, 4))
    cluster.reassign((1, 2, 5))
    assert cluster.reassign(None) is ErrorCode.none
    assert (set(cluster.partition().replicas), cluster.partition().reassigning) == ({1, 2, 3, 4}, False)


def test_a_cancel_that_drops_no_replica_raises_no_leader_epoch() -> None:
    """M2, R5: example 2, cancelled half-way."""
    cluster = started((5, 4, 1, 2, 3))
    cluster.alter((5, 4))
    cluster.reassign((1, 2, 3))
    leader_epoch, partition_epoch = epochs(cluster)
    assert cluster.reassign(None) is ErrorCode.none
    assert not cluster.partition().reassigning
    assert epochs(cluster) == (leader_epoch, partition_epoch + 1)


def test_a_replaced_target_keeps_replicas_that_min_isr_needs() -> None:
    """R4, R5: the ISR does not fall below MinISR because of a new target."""
    cluster = started((1, 2, 3))
    cluster.reassign((1, 4, 5))
    cluster.alter((1, 4))
    cluster.reassign((1, 2, 5))
    kept = cluster.partition()
    assert set(kept.isr) == {1, 4}
    assert 4 in kept.removing
    cluster.alter((1, 4, 2))
    cluster.alter((1, 4, 2, 5))
    assert (cluster.partition().replicas, cluster.partition().reassigning) == ((1, 2, 5), False)


def test_another_order_of_the_same_replicas_changes_the_preferred_leader() -> None:
    """R1, M2: at once; since no replica left or joined, the leader epoch stays."""
    cluster = started()
    leader_epoch, partition_epoch = epochs(cluster)
    assert cluster.reassign((3, 1, 2)) is ErrorCode.none
    assert epochs(cluster) == (leader_epoch, partition_epoch + 1)
    assert (cluster.partition().replicas, cluster.partition().leader) == ((3, 1, 2), 1)
    assert not cluster.partition().reassigning
    size = len(cluster.log)
    assert cluster.reassign((3, 1, 2)) is ErrorCode.none
    assert len(cluster.log) == size


def test_bad_targets_are_refused() -> None:
    """R1"""
    cluster = started()
    assert cluster.reassign(()) is ErrorCode.invalid_replica_assignment
    assert cluster.reassign((1, 1)) is ErrorCode.invalid_replica_assignment
    assert cluster.reassign((1, 9)) is ErrorCode.invalid_replica_assignment
    assert cluster.reassign((1, 2), any_factor=False) is ErrorCode.invalid_replication_factor
    assert cluster.reassign((1, 2), name="nope") is ErrorCode.unknown_topic_or_partition
    assert not cluster.partition().reassigning


def test_a_leader_lost_during_a_reassignment_is_replaced_from_the_isr() -> None:
    """E1, R2: added replicas that are in the ISR are candidates."""
    cluster = started((1, 2))
    cluster.reassign((3, 4))
    cluster.alter((1, 2, 3))
    cluster.fence(1)
    assert cluster.state()[:2] == (3, {2, 3})
    cluster.fence(2, 3)
    assert cluster.partition().leader == NO_LEADER
    assert cluster.partition().reassigning


def test_a_lower_min_isr_may_complete_a_reassignment() -> None:
    """R3, E8: it completes as soon as R2 holds, whatever the reason."""
    cluster = started((1, 2, 3), min_isr=3)
    cluster.alter((1, 2))
    cluster.reassign((2, 3, 4))
    cluster.alter((1, 2, 4))
    assert cluster.partition().reassigning
    cluster.configure("min.insync.replicas", "2")
    assert cluster.partition().replicas == (2, 3, 4)


def test_reassignments_are_listed() -> None:
    """R6"""
    cluster = started()
    cluster.topic((1, 2), name="still")
    cluster.reassign((1, 4, 5))
    cluster.alter((1, 2, 3, 4))
    for topics in (
        None,
        (list_partition_reassignments.ListPartitionReassignmentsTopics(name="t", partition_indexes=(0, 1)),),
    ):
        request = list_partition_reassignments.ListPartitionReassignmentsRequest(topics=topics)
        (topic,) = cluster.handle("list_partition_reassignments", request).topics
        assert topic.name == "t"
        assert topic.partitions[0].adding_replicas == (4, 5)
        assert topic.partitions[0].removing_replicas == (2, 3)
    other = (list_partition_reassignments.ListPartitionReassignmentsTopics(name="still", partition_indexes=(0,)),)
    request = list_partition_reassignments.ListPartitionReassignmentsRequest(topics=other)
    assert cluster.handle("list_partition_reassignments", request).topics == ()
