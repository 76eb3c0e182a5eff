"""AssignReplicasToDirs: a replica that its broker cannot use gives way to another one (D6)."""

from __future__ import annotations

from uuid import UUID

from insync.wire.errors import ErrorCode
from insync.wire.messages import assign_replicas_to_dirs as api
from insync.wire.metadata_records import LOST_DIRECTORY
from tests.controller.controller_harness import Cluster


def assign(
    cluster: Cluster, broker: int, *, directory: UUID = LOST_DIRECTORY, index: int = 0, epoch: int = 0
) -> ErrorCode:
    """The error of the partition, or of the whole request."""
    topic_id = cluster.partition().topic_id
    topic = api.RequestTopic(topic_id=topic_id, partitions=(api.RequestPartition(partition_index=index),))
    answer = cluster.handle(
        "assign_replicas_to_dirs",
        api.AssignReplicasToDirsRequest(
            broker_id=broker,
            broker_epoch=epoch or cluster.image.brokers[broker].epoch,
            directories=(api.RequestDirectory(id_=directory, topics=(topic,)),),
        ),
    )
    if answer.error_code is not ErrorCode.none:
        return ErrorCode(answer.error_code)
    return ErrorCode(answer.directories[0].topics[0].partitions[0].error_code)


def test_a_leader_that_cannot_use_its_replica_leaves_the_isr_and_another_member_leads() -> None:
    """D6, E2: it may join again when it has caught up."""
    cluster = Cluster().up(1, 2, 3)
    cluster.topic((1, 2, 3), min_isr=2)
    epoch = cluster.partition().leader_epoch
    assert assign(cluster, 1) is ErrorCode.none
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2, 3))
    assert cluster.partition().leader_epoch == epoch + 1
    assert assign(cluster, 1) is ErrorCode.none
    assert cluster.partition().leader_epoch == epoch + 1


def test_below_min_isr_a_damaged_replica_stays_in_the_elr() -> None:
    """D6, E3: it holds every committed record."""
    cluster = Cluster().up(1, 2)
    cluster.topic((1, 2), min_isr=2)
    assert assign(cluster, 1) is ErrorCode.none
    assert (cluster.partition().leader, cluster.partition().isr, cluster.partition().elr) == (2, (2,), (1,))


def test_a_damaged_leader_gives_way_to_a_member_of_the_isr_only() -> None:
    """D6: even where unclean elections are allowed; one damaged batch is no reason to lose others."""
    cluster = Cluster().up(1, 2, 3)
    cluster.topic((1, 2, 3), min_isr=1, unclean_leader_election_enable="true")
    cluster.alter((1,))
    before = cluster.partition()
    assert assign(cluster, 1) is ErrorCode.eligible_leaders_not_available
    assert cluster.partition() == before


def test_requests_of_another_incarnation_or_for_other_replicas_change_nothing() -> None:
    """B8, D6"""
    cluster = Cluster().up(1, 2, 3)
    cluster.topic((1, 2), min_isr=1)
    before = cluster.partition()
    assert assign(cluster, 1, epoch=12_345) is ErrorCode.stale_broker_epoch
    assert assign(cluster, 3) is ErrorCode.not_leader_or_follower
    assert assign(cluster, 1, index=7) is ErrorCode.unknown_topic_or_partition
    assert assign(cluster, 1, directory=UUID(int=78)) is ErrorCode.none
    assert cluster.partition() == before
