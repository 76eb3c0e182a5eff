"""Three nodes with a listener for clients, one among brokers, and one of the controllers."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from insync.server import node_query
from insync.wire.messages import metadata
from tests.server.listener_cluster import CONTROLLER, ListenerCluster
from tests.server.server_harness import Topic

INTERNAL = "INTERNAL"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ListenerCluster]:
    listeners = {INTERNAL: "PLAINTEXT", CONTROLLER: "PLAINTEXT"}
    with ListenerCluster(listeners, settings={"inter.broker.listener.name": INTERNAL}) as cluster:
        yield cluster


def test_every_listener_names_its_own_endpoints(cluster: ListenerCluster) -> None:
    request = metadata.MetadataRequest(topics=(), include_topic_authorized_operations=False)
    for listener in ("PLAINTEXT", INTERNAL):
        for port in cluster.ports[listener].values():
            answer = node_query.send_request(("127.0.0.1", port), request)
            assert {broker.node_id: broker.port for broker in answer.brokers} == cluster.ports[listener]


def test_nodes_replicate_by_the_inter_broker_listener_and_vote_by_the_controllers(cluster: ListenerCluster) -> None:
    topic = Topic(cluster, "replicated")
    for number in range(20):
        topic.produce(str(number).encode())
    assert topic.values() == [str(number).encode() for number in range(20)]
    for node_id in cluster.nodes:
        used = cluster.connected_ports(node_id)
        assert not used & set(cluster.ports["PLAINTEXT"].values())
    leader = topic.leader().id
    followers = [node_id for node_id in cluster.nodes if node_id != leader]
    for follower in followers:
        assert cluster.ports[INTERNAL][leader] in cluster.connected_ports(follower)
    voters_used = set().union(*(cluster.connected_ports(node_id) for node_id in cluster.nodes))
    assert voters_used & set(cluster.ports[CONTROLLER].values())


def test_the_death_of_a_node_is_noticed_by_its_refused_ports(cluster: ListenerCluster) -> None:
    topic = Topic(cluster, "failing-over")
    topic.produce(b"before")
    topic.fail_over()
    assert topic.values() == [b"before", b"after"]


def test_all_listeners_are_closed_with_the_node(cluster: ListenerCluster) -> None:
    cluster.stop_node(3)
    for listener in cluster.ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", cluster.ports[listener][3]), 5)
    cluster.start_node(3)
    cluster.wait_until_ready()
