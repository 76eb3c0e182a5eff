"""A throttled reassignment, from the operator's requests to its end (R6, R2)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from insync.metadata.image import Image
from insync.node.cluster_view import NodeClusterView
from insync.node.lifecycle import Lifecycle
from insync.replication.config import ReplicationConfig
from insync.replication.throttle import UNLIMITED, ThrottledPartitions
from insync.sansio import Outbox
from insync.wire import metadata_records as records
from insync.wire.messages import (
    alter_partition_reassignments,
    incremental_alter_configs,
    list_partition_reassignments,
)
from insync.wire.types import ms
from tests.node.node_harness import Net, config, config_request, three_brokers

TOPIC_CONFIG, BROKER_CONFIG = 2, 4
VALUE = b"x" * 10_000


def view_of(image: Image, broker_id: int = 1) -> NodeClusterView:
    lifecycle = Lifecycle(config(broker_id), random.Random(1), Outbox(), lambda: -1, -1)
    return NodeClusterView(broker_id, lambda: image, lifecycle, lambda: -1)


def set_config(image: Image, kind: int, resource: str, name: str, value: str | None) -> None:
    record = records.ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
    image.apply(record, image.offset + 1)


def reassign(net: Net, target: tuple[int, ...]) -> str:
    entry = alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=target)
    topic = alter_partition_reassignments.ReassignableTopic(name="t", partitions=(entry,))
    request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(timeout=ms(5_000), topics=(topic,))
    (answer,) = net.answered(1, request).responses[0].partitions
    return str(answer.error_code.name)


def under_way(net: Net) -> list[tuple[Any, ...]]:
    request = list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None)
    return [
        (topic.name, p.adding_replicas, p.removing_replicas)
        for topic in net.answered(1, request).topics
        for p in topic.partitions
    ]


def set_rates(net: Net, side: str, rate: int, *brokers: str) -> None:
    change = incremental_alter_configs.AlterableConfig(
        name=f"{side}.replication.throttled.rate", config_operation=0, value=str(rate)
    )
    resources = tuple(
        incremental_alter_configs.AlterConfigsResource(
            resource_type=BROKER_CONFIG, resource_name=broker, configs=(change,)
        )
        for broker in brokers
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    assert {line.error_code.name for line in net.answered(1, request).responses} == {"none"}


def test_rates_are_the_brokers_own_else_the_clusters_default() -> None:
    """R6"""
    image = Image()
    view = view_of(image)
    assert (view.throttle_rates.leader, view.throttle_rates.follower) == (UNLIMITED, UNLIMITED)
    set_config(image, BROKER_CONFIG, "", "leader.replication.throttled.rate", "7")
    set_config(image, BROKER_CONFIG, "", "follower.replication.throttled.rate", "8")
    set_config(image, BROKER_CONFIG, "1", "follower.replication.throttled.rate", "9")
    set_config(image, BROKER_CONFIG, "2", "leader.replication.throttled.rate", "10")
    view.configs_changed()
    assert (view.throttle_rates.leader, view.throttle_rates.follower) == (7, 9)


def test_throttled_replicas_are_the_topics_own_and_change_with_its_configs() -> None:
    """R6"""
    image = Image()
    view = view_of(image)
    set_config(image, TOPIC_CONFIG, "t", "leader.replication.throttled.replicas", "0:1,1:2,3:1")
    set_config(image, TOPIC_CONFIG, "t", "follower.replication.throttled.replicas", "*")
    assert view.throttle("t").leader == ThrottledPartitions(indexes=(0, 3))
    assert 17 in view.throttle("t").follower
    assert 0 not in view.throttle("other").leader
    set_config(image, TOPIC_CONFIG, "t", "leader.replication.throttled.replicas", None)
    view.configs_changed()
    assert view.throttle("t").leader == ThrottledPartitions()


@pytest.mark.parametrize(("side", "broker"), [("leader", 1), ("follower", 3)])
def test_a_throttled_reassignment_is_slow_can_be_listed_and_completes(side: str, broker: int) -> None:
    """R6, R2: lists as Kafka's tool writes them: the sources for the leaders, the newcomers for the followers."""
    net = three_brokers(replication=ReplicationConfig(replica_fetch_max_bytes=2 * len(VALUE))).up()
    net.create("t", (1, 2))
    for _ in range(40):
        net.produce(1, "t", VALUE)
    set_rates(net, side, 2 * len(VALUE), "1", "2", "3")
    net.answered(1, config_request("t", "leader.replication.throttled.replicas", "0:1,0:2"))
    net.answered(1, config_request("t", "follower.replication.throttled.replicas", "0:3"))
    assert reassign(net, (1, 3)) == "none"
    net.advance(10_000)
    assert under_way(net) == [("t", (3,), (2,))]
    net.advance(20_000)
    assert under_way(net) == []
    assert net.partition("t").replicas == (1, 3)
    assert sorted(net.partition("t").isr) == [1, 3]
    noted = [(at, *note.fields.values()) for at, note in net.notes if note.kind == "replica_throttled"]
    assert noted == [(broker, "t-0", 3, side)]
