"""Creating and deleting topics, adding partitions, placing replicas."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from insync.controller import placement
from insync.wire.errors import ErrorCode
from insync.wire.messages import create_partitions, create_topics, delete_topics
from insync.wire.types import ms
from tests.controller.controller_harness import Cluster


def entry(
    name: str, partitions: int = 1, factor: int = 1, configs: dict[str, Any] | None = None, assignments: Any = ()
) -> create_topics.CreatableTopic:
    return create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=tuple(
            create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in assignments
        ),
        configs=tuple(create_topics.CreatableTopicConfig(name=k, value=v) for k, v in (configs or {}).items()),
    )


def create(cluster: Cluster, *entries: create_topics.CreatableTopic, dry: bool = False) -> list[Any]:
    request = create_topics.CreateTopicsRequest(topics=entries, validate_only=dry)
    return list(cluster.handle("create_topics", request).topics)


def grow(cluster: Cluster, name: str, count: int, assignments: Any = None, dry: bool = False) -> ErrorCode:
    made = None
    if assignments is not None:
        made = tuple(create_partitions.CreatePartitionsAssignment(broker_ids=replicas) for replicas in assignments)
    topic = create_partitions.CreatePartitionsTopic(name=name, count=count, assignments=made)
    request = create_partitions.CreatePartitionsRequest(topics=(topic,), timeout=ms(1), validate_only=dry)
    error: ErrorCode = cluster.handle("create_partitions", request).results[0].error_code
    return error


def delete(cluster: Cluster, **which: Any) -> ErrorCode:
    state = delete_topics.DeleteTopicState(**({"name": None, "topic_id": None} | which))
    request = delete_topics.DeleteTopicsRequest(topics=(state,), timeout=ms(1))
    error: ErrorCode = cluster.handle("delete_topics", request).responses[0].error_code
    return error


def test_a_new_topic_is_led_by_the_first_active_replica_with_all_active_ones_in_the_isr() -> None:
    """M1: a partition starts at epoch zero, with fenced replicas out of the ISR."""
    cluster = Cluster().up(1, 2, 3)
    cluster.fence(1)
    (result,) = create(cluster, entry("t", -1, -1, assignments=[(0, (1, 2, 3))]))
    assert result.error_code is ErrorCode.none
    partition = cluster.partition()
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2, 3), (2, 3), 2)
    assert (partition.leader_epoch, partition.partition_epoch, partition.elr) == (0, 0, ())
    assert result.topic_id == partition.topic_id


def test_topics_of_one_request_succeed_or_fail_separately() -> None:
    """Q3: those that succeed share one batch."""
    cluster = Cluster().up(1, 2)
    create(cluster, entry("there"))
    results = create(cluster, entry("a", 3, 2), entry("there"), entry("b", 2, 1), entry("b"))
    assert [(result.name, result.error_code) for result in results] == [
        ("a", ErrorCode.none),
        ("there", ErrorCode.topic_already_exists),
        ("b", ErrorCode.invalid_request),
    ]
    assert len(cluster.image.partitions[cluster.image.topic_ids["a"]]) == 3
    assert (results[0].num_partitions, results[0].replication_factor) == (3, 2)


BAD_TOPICS = [
    (entry(""), ErrorCode.invalid_topic_exception),
    (entry("."), ErrorCode.invalid_topic_exception),
    (entry("a/b"), ErrorCode.invalid_topic_exception),
    (entry("x" * 250), ErrorCode.invalid_topic_exception),
    (entry("my_topic"), ErrorCode.invalid_topic_exception),
    (entry("__cluster_metadata"), ErrorCode.invalid_request),
    (entry("t", 0), ErrorCode.invalid_partitions),
    (entry("t", -2), ErrorCode.invalid_partitions),
    (entry("t", 1, 0), ErrorCode.invalid_replication_factor),
    (entry("t", 1, 4), ErrorCode.invalid_replication_factor),
    (entry("t", configs={"retention.ms": "soon"}), ErrorCode.invalid_config),
    (entry("t", configs={"retention.ms": None}), ErrorCode.invalid_config),
    (entry("t", configs={"no.such.key": "1"}), ErrorCode.invalid_config),
    (entry("t", 1, -1, assignments=[(0, (1,))]), ErrorCode.invalid_request),
    (entry("t", -1, -1, assignments=[(1, (1,))]), ErrorCode.invalid_replica_assignment),
    (entry("t", -1, -1, assignments=[(0, (1,)), (0, (2,))]), ErrorCode.invalid_replica_assignment),
    (entry("t", -1, -1, assignments=[(0, (1,)), (1, (1, 2))]), ErrorCode.invalid_replica_assignment),
    (entry("t", -1, -1, assignments=[(0, (1, 1))]), ErrorCode.invalid_replica_assignment),
    (entry("t", -1, -1, assignments=[(0, (9,))]), ErrorCode.invalid_replica_assignment),
    (entry("t", -1, -1, assignments=[(0, (3,))]), ErrorCode.invalid_replica_assignment),
]


@pytest.mark.parametrize(("topic", "error"), BAD_TOPICS)
def test_bad_topics_are_refused(topic: create_topics.CreatableTopic, error: ErrorCode) -> None:
    """M1: broker 3 is fenced, so it cannot be the only replica."""
    cluster = Cluster().up(1, 2, 3)
    cluster.fence(3)
    create(cluster, entry("my.topic"))
    size = len(cluster.log)
    (result,) = create(cluster, topic)
    assert result.error_code is error
    assert result.error_message
    assert len(cluster.log) == size


def test_a_request_for_too_many_partitions_is_refused_before_any_is_placed() -> None:
    cluster = Cluster().up(1)
    small, large = create(cluster, entry("s", partitions=9_000), entry("l", partitions=1_001))
    assert (small.error_code, large.error_code) == (ErrorCode.none, ErrorCode.policy_violation)
    assert create(cluster, entry("huge", partitions=2**31 - 1))[0].error_code is ErrorCode.policy_violation
    assert grow(cluster, "s", 2**31 - 1) is ErrorCode.policy_violation


def test_validate_only_writes_nothing() -> None:
    """Q2: the response is the same as for a real request."""
    cluster = Cluster().up(1)
    size = len(cluster.log)
    assert create(cluster, entry("t", 2), dry=True)[0].error_code is ErrorCode.none
    assert len(cluster.log) == size
    create(cluster, entry("t", 2))
    assert grow(cluster, "t", 3, dry=True) is ErrorCode.none
    assert len(cluster.image.partitions[cluster.image.topic_ids["t"]]) == 2


def test_defaults_apply_where_a_request_has_minus_one() -> None:
    """M1"""
    cluster = Cluster(default_partitions=3, default_replication_factor=2).up(1, 2)
    (result,) = create(cluster, entry("t", -1, -1))
    assert (result.num_partitions, result.replication_factor) == (3, 2)


def test_the_response_lists_the_configs_with_their_sources() -> None:
    """M1: 1 the topic's own, 5 the built-in default."""
    cluster = Cluster().up(1)
    (result,) = create(cluster, entry("t", configs={"min.insync.replicas": "2"}))
    listed = {config.name: (config.value, config.config_source) for config in result.configs}
    assert listed["min.insync.replicas"] == ("2", 1)
    assert listed["retention.ms"] == ("604800000", 5)
    assert cluster.image.min_isr("t") == 2


def test_replicas_are_striped_evenly_over_the_unfenced_brokers() -> None:
    """M1: leaders and replicas alike."""
    cluster = Cluster().up(1, 2, 3, 4)
    create(cluster, entry("t", 12, 3))
    partitions = cluster.image.all_partitions()
    assert Counter(partition.leader for partition in partitions) == {1: 3, 2: 3, 3: 3, 4: 3}
    assert set(Counter(replica for partition in partitions for replica in partition.replicas).values()) == {9}
    assert all(len(set(partition.replicas)) == 3 for partition in partitions)
    assert len({partition.replicas for partition in partitions}) > 4


def test_fenced_brokers_are_used_only_when_the_others_do_not_suffice() -> None:
    """M1: never to lead."""
    cluster = Cluster().up(1, 2, 3)
    cluster.fence(2)
    assert placement.place_replicas(cluster.image, 2, 2, 0) == [(1, 3), (3, 1)]
    assert placement.place_replicas(cluster.image, 1, 3, 0) == [(1, 3, 2)]
    cluster.fence(1, 3)
    assert placement.place_replicas(cluster.image, 1, 1, 0) is None


def test_partitions_are_added_with_the_replication_factor_of_the_topic() -> None:
    """M1"""
    cluster = Cluster().up(1, 2, 3)
    create(cluster, entry("t", 1, 2))
    assert grow(cluster, "t", 3) is ErrorCode.none
    partitions = cluster.image.partitions[cluster.image.topic_ids["t"]]
    assert sorted(partitions) == [0, 1, 2]
    assert all(len(partition.replicas) == 2 for partition in partitions.values())
    assert grow(cluster, "t", 4, [(3, 1)]) is ErrorCode.none
    assert cluster.partition("t", 3).replicas == (3, 1)


def test_bad_requests_for_more_partitions_are_refused() -> None:
    """M1"""
    cluster = Cluster().up(1, 2, 3)
    create(cluster, entry("t", 2, 2))
    assert grow(cluster, "nope", 3) is ErrorCode.unknown_topic_or_partition
    assert grow(cluster, "t", 2) is ErrorCode.invalid_partitions
    assert grow(cluster, "t", 1) is ErrorCode.invalid_partitions
    assert grow(cluster, "t", 4, [(1, 2)]) is ErrorCode.invalid_replica_assignment
    assert grow(cluster, "t", 3, [(1, 2, 3)]) is ErrorCode.invalid_replica_assignment
    cluster.fence(1, 2, 3)
    assert grow(cluster, "t", 3) is ErrorCode.invalid_replication_factor


def test_topics_are_deleted_by_name_or_id_with_their_partitions_and_configs() -> None:
    """M1: a topic of the same name is another topic."""
    cluster = Cluster().up(1)
    create(cluster, entry("t", 2, configs={"retention.ms": "5"}), entry("u"))
    first = cluster.image.topic_ids["t"]
    assert delete(cluster, name="t") is ErrorCode.none
    assert delete(cluster, topic_id=cluster.image.topic_ids["u"]) is ErrorCode.none
    assert cluster.image.all_partitions() == []
    assert not cluster.image.leads_any(1)
    create(cluster, entry("t"))
    assert cluster.image.topic_ids["t"] != first
    assert cluster.image.config("t", "retention.ms") == 604_800_000


def test_bad_deletions_are_refused() -> None:
    """M1"""
    cluster = Cluster().up(1)
    create(cluster, entry("t"))
    assert delete(cluster, name="nope") is ErrorCode.unknown_topic_or_partition
    assert delete(cluster, topic_id=UUID(int=5)) is ErrorCode.unknown_topic_id
    assert delete(cluster) is ErrorCode.invalid_request
    assert delete(cluster, name="t", topic_id=cluster.image.topic_ids["t"]) is ErrorCode.invalid_request
    twice = (delete_topics.DeleteTopicState(name="t", topic_id=None),) * 2
    request = delete_topics.DeleteTopicsRequest(topics=twice, timeout=ms(1_000))
    (result,) = cluster.handle("delete_topics", request).responses
    assert result.error_code is ErrorCode.invalid_request
    assert "t" in cluster.image.topic_ids
