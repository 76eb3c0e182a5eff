"""Answers that name brokers: the endpoint of the listener that the request arrived on."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.metadata.v5.response import MetadataResponse as MetadataResponseV5

from insync.metadata.broker import Endpoint
from insync.node.config import BROKER
from insync.sansio import Client
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_cluster, describe_topic_partitions, find_coordinator
from insync.wire.versions import cluster
from insync.wire.versions.context import RequestContext
from tests.node.node_harness import Net, config, metadata_request

INTERNAL, EXTERNAL, OTHER = (Client(listener=name) for name in ("INTERNAL", "EXTERNAL", "OTHER"))
SSL = 1


def endpoints(node_id: int, *names: str) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(name=name, host=f"{name.lower()}-{node_id}", port=9_000 + node_id, security_protocol=SSL)
        for name in names
    )


@pytest.fixture
def net() -> Net:
    """Broker 3 has no external listener. Broker 2 leads `reached`, broker 3 `hidden`."""
    cluster = Net(
        config(1, endpoints=endpoints(1, "INTERNAL", "EXTERNAL")),
        config(2, roles=(BROKER,), endpoints=endpoints(2, "INTERNAL", "EXTERNAL")),
        config(3, roles=(BROKER,), endpoints=endpoints(3, "INTERNAL")),
    ).up()
    cluster.create("reached", (2, 3))
    cluster.create("hidden", (3, 1))
    return cluster


def brokers(answer: Any) -> list[str]:
    return [f"{broker.host}:{broker.port}" for broker in answer.brokers]


def about_cluster() -> Any:
    return describe_cluster.DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=1, include_fenced_brokers=False
    )


def test_registrations_keep_every_endpoint_with_its_security_protocol(net: Net) -> None:
    assert net.nodes[2].image.brokers[1].endpoints == endpoints(1, "INTERNAL", "EXTERNAL")


@pytest.mark.parametrize("request_of", [metadata_request, about_cluster])
def test_brokers_are_named_by_the_listener_of_the_request(net: Net, request_of: Any) -> None:
    assert brokers(net.answered(1, request_of(), INTERNAL)) == ["internal-1:9001", "internal-2:9002", "internal-3:9003"]
    assert brokers(net.answered(1, request_of(), EXTERNAL)) == ["external-1:9001", "external-2:9002"]
    assert brokers(net.answered(1, request_of(), OTHER)) == []


def test_a_request_without_a_connection_gets_the_first_endpoints(net: Net) -> None:
    assert brokers(net.answered(1, metadata_request())) == ["internal-1:9001", "internal-2:9002", "internal-3:9003"]


def test_a_leader_without_the_listener_is_not_named(net: Net) -> None:
    """The description of a topic is kept, for each listener by itself."""
    for client, leader, error, offline in (
        (INTERNAL, 3, ErrorCode.none, ()),
        (EXTERNAL, -1, ErrorCode.listener_not_found, (3,)),
        (INTERNAL, 3, ErrorCode.none, ()),
    ):
        (partition,) = net.answered(1, metadata_request("hidden"), client).topics[0].partitions
        assert (partition.leader_id, partition.error_code, partition.offline_replicas) == (leader, error, offline)
    (partition,) = net.answered(1, metadata_request("reached"), EXTERNAL).topics[0].partitions
    assert (partition.leader_id, partition.error_code, partition.offline_replicas) == (2, ErrorCode.none, (3,))


def test_clients_before_version_6_get_leader_not_available_instead(net: Net) -> None:
    answer = net.answered(1, metadata_request("hidden", "reached"), EXTERNAL)
    context = RequestContext(header=None)  # type: ignore[arg-type]
    topics = cluster.downgrade_metadata(answer, MetadataResponseV5, context, names=None).topics  # type: ignore[arg-type]
    assert [topic.partitions[0].error_code for topic in topics] == [ErrorCode.leader_not_available, ErrorCode.none]


def test_descriptions_of_topics_do_not_name_a_leader_without_the_listener(net: Net) -> None:
    request = describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=(describe_topic_partitions.TopicRequest(name="hidden"),), response_partition_limit=10, cursor=None
    )
    for client, leader, offline in ((INTERNAL, 3, ()), (EXTERNAL, -1, (3,))):
        (partition,) = net.answered(1, request, client).topics[0].partitions
        assert (partition.leader_id, partition.offline_replicas) == (leader, offline)


def test_a_coordinator_is_named_by_the_listener_of_the_request(net: Net) -> None:
    keys = tuple(f"group-{number}" for number in range(20))
    request = find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=keys)
    net.ask(1, request)
    net.advance(5_000)
    internal = {coordinator.key: coordinator.node_id for coordinator in net.answered(1, request, INTERNAL).coordinators}
    external = {coordinator.key: coordinator for coordinator in net.answered(1, request, EXTERNAL).coordinators}
    assert sorted(set(internal.values())) == [1, 2, 3]
    for key, node_id in internal.items():
        if node_id == 3:
            assert external[key].error_code is ErrorCode.coordinator_not_available
        else:
            assert external[key].host == f"external-{node_id}"
