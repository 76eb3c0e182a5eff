"""Big changes in slices: every prefix of the log is valid, and another controller reaches the same end (ADR 21)."""

from __future__ import annotations

from typing import Any

import pytest

from insync.metadata.image import Image
from insync.metadata.partition import NO_LEADER
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import create_topics, unregister_broker
from tests.controller.controller_harness import Cluster

TOPICS = 7
NAMES = [f"t{number}" for number in range(TOPICS)]


def cluster_with_topics(**config: Any) -> Cluster:
    cluster = Cluster(max_slice_records=2, **config).up(1, 2, 3)
    for name in NAMES:
        cluster.topic((1, 2, 3), name=name)
    return cluster


def by_slice(cluster: Cluster) -> Cluster:
    cluster.by_slice = True
    return cluster


def finish(cluster: Cluster) -> Any:
    response = None
    while cluster.slices:
        response = cluster.next_slice() or response
    return response


def expire(cluster: Cluster, broker: int) -> None:
    """The session of one broker expires; the others send heartbeats."""
    for _ in range(4):
        cluster.now += 3_000
        for other in sorted(cluster.image.brokers):
            if other != broker and not cluster.image.brokers[other].fenced:
                cluster.beat(other)
    cluster.tick()


def prefixes(cluster: Cluster) -> list[Image]:
    """The image at every offset of the log."""
    images = []
    for end in range(1, len(cluster.log) + 1):
        image = Image()
        for offset, record in enumerate(cluster.log[:end]):
            image.apply(record, offset)
        images.append(image)
    return images


def fenced_and_in_isr(image: Image) -> list[str]:
    return [
        partition.name
        for partition in image.all_partitions()
        for member in (*partition.isr, partition.leader)
        if member != NO_LEADER and image.brokers[member].fenced
    ]


def test_no_slice_is_larger_than_the_limit_and_at_no_prefix_is_a_fenced_broker_in_an_isr() -> None:
    """B4"""
    cluster = by_slice(cluster_with_topics())
    first = len(cluster.decisions)
    expire(cluster, 1)
    assert len(cluster.slices) == 1
    finish(cluster)
    assert cluster.image.brokers[1].fenced
    assert max(len(decision.records) for decision in cluster.decisions[first:]) <= 3  # two partitions, and the fencing
    assert not any(fenced_and_in_isr(image) for image in prefixes(cluster))


def test_a_broker_that_is_being_fenced_neither_leads_nor_joins_an_isr() -> None:
    """B4, I5: no decision between the slices gives back what a slice has taken away."""
    cluster = by_slice(cluster_with_topics())
    expire(cluster, 1)
    gone = next(name for name in NAMES if 1 not in cluster.partition(name).isr)
    assert cluster.alter((2, 3, 1), name=gone) is ErrorCode.ineligible_replica
    assert not cluster.beat(1).is_fenced  # not yet
    cluster.by_slice = False
    assert 1 not in cluster.topic((1, 2, 3), name="new").isr
    finish(cluster)
    assert cluster.image.brokers[1].fenced
    assert all(1 not in partition.isr for partition in cluster.image.all_partitions())


@pytest.mark.parametrize("slices", [1, 2, 3])
def test_another_controller_fences_the_broker_nevertheless(slices: int) -> None:
    """B4: the rest follows from the expired session alone, which expires again."""
    cluster = by_slice(cluster_with_topics())
    expire(cluster, 1)
    for _ in range(slices - 1):
        cluster.next_slice()
    cluster.fail_over()
    assert not cluster.image.brokers[1].fenced
    expire(cluster, 1)
    finish(cluster)
    assert cluster.image.brokers[1].fenced
    assert all(1 not in partition.isr for partition in cluster.image.all_partitions())
    assert not any(fenced_and_in_isr(image) for image in prefixes(cluster))


def test_a_broker_that_returns_leads_every_leaderless_partition_despite_a_controller_change() -> None:
    """E1: the candidates follow from the image."""
    cluster = cluster_with_topics()
    cluster.fence(1, 2, 3)
    assert len(cluster.image.leaderless()) == TOPICS
    cluster.beat(3)
    assert len(cluster.image.leaderless()) == TOPICS - 2
    cluster.fail_over()
    for _ in range(TOPICS):
        cluster.beat(3)
        cluster.tick()
    assert [cluster.partition(name).leader for name in NAMES] == [3] * TOPICS
    assert all(cluster.partition(name).leader_epoch == cluster.partition(NAMES[0]).leader_epoch for name in NAMES)


def test_a_broker_registers_after_its_replicas_have_left_every_elr() -> None:
    """B6, E5: at no prefix is a broker that lost records registered and in an ELR."""
    cluster = cluster_with_topics()
    cluster.fence(3, 2, 1)
    old = cluster.image.brokers[2].epoch
    assert all(2 in cluster.partition(name).elr for name in NAMES)
    cluster.register(2)
    for image in prefixes(cluster):
        if 2 in image.brokers and image.brokers[2].epoch > old:
            assert [p.name for p in image.all_partitions() if 2 in p.elr] in ([], [NAMES[-1] + "-0"])
    assert cluster.log[cluster.image.brokers[2].epoch].broker_epoch > old
    assert all(2 not in cluster.partition(name).elr for name in NAMES)


def test_a_controlled_shutdown_moves_leaderships_in_slices_before_the_broker_may_stop() -> None:
    """B7"""
    cluster = by_slice(cluster_with_topics())
    answer = cluster.beat(1, stop=True)
    assert not answer.should_shut_down
    assert cluster.image.brokers[1].in_controlled_shutdown
    assert cluster.image.leads_any(1)
    assert not cluster.beat(1, stop=True).should_shut_down
    finish(cluster)
    assert not cluster.image.leads_any(1)
    assert not cluster.beat(1, stop=True).should_shut_down  # the others have not read so far
    cluster.beat(2)
    cluster.beat(3)
    answer = cluster.beat(1, stop=True)
    assert (answer.should_shut_down, answer.is_fenced) == (True, True)


def test_another_controller_continues_a_controlled_shutdown() -> None:
    """B7: that the broker is shutting down and leads partitions is in the image."""
    cluster = by_slice(cluster_with_topics())
    cluster.beat(1, stop=True)
    cluster.fail_over()
    assert not cluster.beat(1, stop=True).should_shut_down
    finish(cluster)
    cluster.beat(2)
    cluster.beat(3)
    assert cluster.beat(1, stop=True).should_shut_down


def test_a_broker_is_unregistered_after_it_has_left_every_isr() -> None:
    """I5"""
    cluster = cluster_with_topics()
    request = unregister_broker.UnregisterBrokerRequest(broker_id=1)
    assert cluster.handle("unregister_broker", request).error_code is ErrorCode.none
    for image in prefixes(cluster):
        if 3 in image.brokers and 1 not in image.brokers:
            assert all(1 not in partition.isr for partition in image.all_partitions())
    assert 1 not in cluster.image.brokers


def test_elrs_are_emptied_before_a_lower_min_isr_is_known() -> None:
    """E8: a leader that goes by the lower value commits without the members of the ELR."""
    cluster = Cluster(max_slice_records=2).up(1, 2, 3)
    cluster.configure("min.insync.replicas", "2", kind=4, name="")
    for name in NAMES:
        cluster.topic((1, 2, 3), name=name, min_isr=2)
        cluster.configure("min.insync.replicas", None, name=name, operation=1)
    cluster.fence(3, 2)
    assert all(cluster.partition(name).elr for name in NAMES)
    cluster.configure("min.insync.replicas", "1", kind=4, name="")
    for image in prefixes(cluster):
        if image.topics and image.min_isr("") == 1:
            left = [partition.name for partition in image.all_partitions() if partition.elr]
            assert len(left) < 2  # those in the batch of the config itself
    assert not any(cluster.partition(name).elr for name in NAMES)


# --- topics ----------------------------------------------------------------------------------------------------------


def creation(partitions: int = 7) -> create_topics.CreateTopicsRequest:
    topic = create_topics.CreatableTopic(
        name="big", num_partitions=partitions, replication_factor=3, assignments=(), configs=()
    )
    return create_topics.CreateTopicsRequest(topics=(topic,))


def test_a_large_topic_appears_with_its_last_slice() -> None:
    """Q2: clients see all of a new topic or nothing."""
    cluster = by_slice(Cluster(max_slice_records=2).up(1, 2, 3))
    assert cluster.handle("create_topics", creation()) is None
    while cluster.slices:
        assert cluster.image.complete_topic("big") is None
        response = cluster.next_slice()
    assert response.topics[0].error_code is ErrorCode.none
    topic_id = cluster.image.complete_topic("big")
    assert topic_id is not None
    assert list(cluster.image.partitions[topic_id]) == list(range(7))
    for image in prefixes(cluster):
        known = image.complete_topic("big")
        assert known is None or len(image.partitions[known]) == 7


def test_a_new_controller_removes_topics_whose_creation_was_not_finished() -> None:
    """Q2: the request was never answered; when it is repeated, it finds no topic with fewer partitions."""
    cluster = by_slice(Cluster(max_slice_records=2).up(1, 2, 3))
    cluster.handle("create_topics", creation())
    cluster.next_slice()
    cluster.fail_over()
    assert "big" not in cluster.image.topic_ids
    cluster.by_slice = False
    assert cluster.handle("create_topics", creation()).topics[0].error_code is ErrorCode.none
    assert len(cluster.image.partitions[cluster.image.topic_ids["big"]]) == 7


def test_a_topic_that_is_deleted_while_it_is_created_stays_deleted() -> None:
    cluster = by_slice(Cluster(max_slice_records=2).up(1, 2, 3))
    cluster.handle("create_topics", creation())
    cluster.append(records.RemoveTopicRecord(topic_id=cluster.image.topic_ids["big"]))
    response = finish(cluster)
    assert response.topics[0].error_code is ErrorCode.unknown_topic_id
    assert "big" not in cluster.image.topic_ids


def test_a_creation_fails_when_its_brokers_are_gone() -> None:
    cluster = by_slice(Cluster(max_slice_records=2).up(1, 2, 3))
    cluster.handle("create_topics", creation())
    rest = cluster.slices.pop()
    cluster.by_slice = False
    cluster.fence(1, 2, 3)
    response = cluster.submit(rest, cluster.now)
    assert response.topics[0].error_code is ErrorCode.invalid_replica_assignment
    assert "big" not in cluster.image.topic_ids


def test_a_topic_whose_brokers_are_fenced_before_its_first_slice_leaves_nothing_behind() -> None:
    """Q2: its name is free for the next request."""
    cluster = by_slice(Cluster(max_slice_records=2).up(1, 2, 3))
    topics = tuple(
        create_topics.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=(create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=(broker,)),),
            configs=(),
        )
        for name, broker in (("a", 1), ("b", 3))
    )
    cluster.handle("create_topics", create_topics.CreateTopicsRequest(topics=topics))
    rest = cluster.slices.pop()
    cluster.by_slice = False
    cluster.fence(3)
    response = cluster.submit(rest, cluster.now)
    assert [topic.error_code for topic in response.topics] == [ErrorCode.none, ErrorCode.invalid_replica_assignment]
    assert list(cluster.image.topic_ids) == ["a"]


def test_topics_of_one_request_do_not_all_have_the_same_leader() -> None:
    cluster = Cluster().up(1, 2, 3)
    topics = tuple(
        create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=3, assignments=(), configs=())
        for name in NAMES[:3]
    )
    cluster.handle("create_topics", create_topics.CreateTopicsRequest(topics=topics))
    assert sorted(cluster.partition(name).leader for name in NAMES[:3]) == [1, 2, 3]
