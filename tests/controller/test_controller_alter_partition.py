"""A leader proposes an ISR, and the controller checks it (I4-I6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from insync.metadata.partition import Partition
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_partition
from tests.controller.controller_harness import Cluster


@pytest.fixture
def cluster() -> Cluster:
    """Broker 3 is alive and out of sync; broker 4 is fenced, 5 is shutting down."""
    cluster = Cluster().up(1, 2, 3, 4, 5)
    cluster.topic((5, 2, 1), name="led-by-5")
    cluster.topic((1, 2, 3, 4, 5))
    cluster.alter((1, 2))
    cluster.fence(4)
    cluster.beat(5, stop=True)
    return cluster


def test_an_accepted_proposal_is_the_isr_at_the_next_partition_epoch(cluster: Cluster) -> None:
    """I4, M2: the response has the new epoch; the leader epoch stays."""
    before = cluster.partition()
    assert cluster.alter((1, 2, 3)) is ErrorCode.none
    after = cluster.partition()
    assert after.isr == (1, 2, 3)
    assert after.partition_epoch == before.partition_epoch + 1
    assert after.leader_epoch == before.leader_epoch
    response = cluster.decisions[-1].response
    assert response is not None
    answer = response.topics[0].partitions[0]
    assert (answer.isr, answer.partition_epoch, answer.leader_epoch, answer.leader_id) == (
        after.isr,
        after.partition_epoch,
        after.leader_epoch,
        1,
    )


def test_a_proposal_of_the_current_isr_voids_every_earlier_one(cluster: Cluster) -> None:
    """I3, I6, M2: a leader withdraws a proposal; a copy of it that arrives later has an older epoch."""
    before = cluster.partition()
    assert cluster.alter((1, 2)) is ErrorCode.none
    assert cluster.partition() == replace(before, partition_epoch=before.partition_epoch + 1)
    late = cluster.alter((1, 2, 3), partition_epoch=before.partition_epoch)
    assert late is ErrorCode.invalid_update_version
    assert cluster.partition().isr == (1, 2)


REFUSALS: dict[str, tuple[dict[str, Any], tuple[int, ...], ErrorCode]] = {
    "an earlier incarnation of the sender": ({"broker_epoch": 0}, (1, 2), ErrorCode.stale_broker_epoch),
    "an unknown topic": ({"topic_id": UUID(int=9)}, (1, 2), ErrorCode.unknown_topic_id),
    "an unknown partition": ({"index": 7}, (1, 2), ErrorCode.unknown_topic_or_partition),
    "a newer leader epoch": ({"leader_epoch": 99}, (1, 2), ErrorCode.not_controller),
    "a newer partition epoch": ({"partition_epoch": 99}, (1, 2), ErrorCode.not_controller),
    "an older leader epoch": ({"leader_epoch": -1}, (1, 2), ErrorCode.fenced_leader_epoch),
    "a sender that does not lead": ({"sender": 2}, (1, 2), ErrorCode.invalid_request),
    "an older partition epoch": ({"partition_epoch": 0}, (1, 2), ErrorCode.invalid_update_version),
    "an empty ISR": ({}, (), ErrorCode.invalid_request),
    "a member twice": ({}, (1, 2, 2), ErrorCode.invalid_request),
    "a member that is no replica": ({}, (1, 2, 9), ErrorCode.invalid_request),
    "an ISR without the leader": ({}, (2, 3), ErrorCode.invalid_request),
    "recovering with others in the ISR": ({"recovering": 1}, (1, 2), ErrorCode.invalid_request),
    "recovering without an unclean election": ({"recovering": 1}, (1,), ErrorCode.invalid_request),
    "a fenced member": ({}, (1, 2, 4), ErrorCode.ineligible_replica),
    "a stopping member": ({}, (1, 2, 5), ErrorCode.ineligible_replica),
    "a member's earlier incarnation": ({"epochs": {3: 0}}, (1, 2, 3), ErrorCode.ineligible_replica),
    "a new member of an unknown incarnation": ({"epochs": {3: -1}}, (1, 2, 3), ErrorCode.ineligible_replica),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_proposal_is_refused_for(cluster: Cluster, name: str) -> None:
    """I4: each check has its own error, and a refusal changes nothing."""
    changes, isr, error = REFUSALS[name]
    before = cluster.partition()
    assert cluster.alter(isr, **changes) is error
    assert cluster.partition() == before


ORDER: tuple[tuple[dict[str, Any], ErrorCode], ...] = (
    ({"topic_id": UUID(int=9)}, ErrorCode.unknown_topic_id),
    ({"leader_epoch": 99}, ErrorCode.not_controller),
    ({"leader_epoch": -1}, ErrorCode.fenced_leader_epoch),
    ({"sender": 2}, ErrorCode.invalid_request),
    ({"partition_epoch": 0}, ErrorCode.invalid_update_version),
)


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_first_failing_check_decides(cluster: Cluster, first: int) -> None:
    """I4: the order of the checks, from each one on."""
    changes: dict[str, Any] = {}
    for later, _ in reversed(ORDER[first:]):
        changes |= later
    assert cluster.alter((1, 4), **changes) is ORDER[first][1]


def test_a_current_member_may_be_proposed_without_its_epoch(cluster: Cluster) -> None:
    """I4: had it restarted, the partition epoch would be newer."""
    assert cluster.alter((1, 2, 3), epochs={2: -1}) is ErrorCode.none


def test_a_follower_that_restarted_since_its_fetch_is_not_added(cluster: Cluster) -> None:
    """I4, E5: the leader saw records that the restart may have lost."""
    seen = cluster.image.brokers[3].epoch
    epoch = cluster.partition().partition_epoch
    cluster.restart(3, clean=False)
    assert cluster.partition().partition_epoch == epoch
    assert cluster.alter((1, 2, 3), epochs={3: seen}) is ErrorCode.ineligible_replica
    assert cluster.alter((1, 2, 3)) is ErrorCode.none


def test_one_refused_partition_does_not_affect_the_others(cluster: Cluster) -> None:
    """I4"""
    cluster.topic((1, 2, 3), name="other")
    good, bad = cluster.partition("other"), cluster.partition()

    def proposal(partition: Partition, isr: tuple[int, ...]) -> alter_partition.RequestTopic:
        return alter_partition.RequestTopic(
            topic_id=partition.topic_id,
            partitions=(
                alter_partition.RequestPartition(
                    partition_index=0,
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                    new_isr_with_epochs=tuple(
                        alter_partition.BrokerState(broker_id=b, broker_epoch=cluster.image.brokers[b].epoch)
                        for b in isr
                    ),
                ),
            ),
        )

    response = cluster.handle(
        "alter_partition",
        alter_partition.AlterPartitionRequest(
            broker_id=1,
            broker_epoch=cluster.image.brokers[1].epoch,
            topics=(proposal(bad, (1, 4)), proposal(good, (1, 2)), proposal(good, (1, 3))),
        ),
    )
    errors = [topic.partitions[0].error_code for topic in response.topics]
    assert errors == [ErrorCode.ineligible_replica, ErrorCode.none, ErrorCode.invalid_request]
    assert cluster.partition() == bad
    assert cluster.partition("other").isr == (1, 2)


def test_of_two_changes_based_on_one_state_only_the_first_is_made(cluster: Cluster) -> None:
    """I6: a fencing in between makes the leader's state an old one."""
    epoch = cluster.partition().partition_epoch
    cluster.fence(2)
    assert cluster.alter((1, 2, 3), partition_epoch=epoch) is ErrorCode.invalid_update_version
    assert cluster.state()[1] == {1}


def test_the_leader_declares_its_recovery(cluster: Cluster) -> None:
    """E7: the recovery ends when the leader says so; then the ISR may grow."""
    cluster.fence(1, 2)
    cluster.register(1)
    cluster.register(2)
    cluster.elect(1)
    assert cluster.partition().recovering
    leader = cluster.partition().leader
    cluster.beat(1)
    assert cluster.alter((leader, 1), recovering=1) is ErrorCode.invalid_request
    assert cluster.alter((leader,), recovering=0) is ErrorCode.none
    assert not cluster.partition().recovering
    assert cluster.alter((leader, 1)) is ErrorCode.none


def test_refusals_are_noted(cluster: Cluster) -> None:
    """I4: an operator can see what is refused, and why."""
    cluster.alter((1, 4))
    assert cluster.notes("alter_partition_refused")[-1]["error"] == "ineligible_replica"
