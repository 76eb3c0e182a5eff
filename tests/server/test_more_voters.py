"""From one voter to three, with real processes: no acknowledged record is lost (B9)."""

from __future__ import annotations

from pathlib import Path

from insync.server import node_query
from insync.server.local_cluster import LocalCluster
from insync.server.voter_change import set_voters
from insync.wire.errors import ErrorCode
from insync.wire.messages import create_topics
from insync.wire.types import ms
from tests.server.server_harness import TIMEOUT_S, Topic, eventually


def create_topic(cluster: LocalCluster, name: str, node: int, replicas: int) -> ErrorCode:
    topic = create_topics.CreatableTopic(
        name=name, num_partitions=1, replication_factor=replicas, assignments=(), configs=()
    )
    request = create_topics.CreateTopicsRequest(topics=(topic,), timeout=ms(10_000), validate_only=False)
    response = node_query.send_request(cluster.nodes[node].address, request, TIMEOUT_S)
    error: ErrorCode = response.topics[0].error_code
    return error


def test_a_cluster_grows_from_one_voter_to_three_without_losing_records(tmp_path: Path) -> None:
    """B9: brokers are added without a vote, voters by a command; then any of them may fail."""
    with LocalCluster(brokers=1, directory=str(tmp_path)) as cluster:
        topic = Topic(cluster, "kept")
        topic.produce(b"acknowledged")

    with LocalCluster(brokers=3, directory=str(tmp_path)) as cluster:
        assert cluster.layout.voters == (1,)
        assert create_topic(cluster, "right-after-ready", node=3, replicas=3) is ErrorCode.none
        topic.cluster = cluster
        assert topic.values() == [b"acknowledged"]

    set_voters(tmp_path, (1, 2, 3), lambda text: None)
    with LocalCluster(directory=str(tmp_path)) as cluster:
        topic.cluster = cluster
        assert topic.values() == [b"acknowledged"]
        cluster.kill(1)
        eventually(
            lambda: create_topic(cluster, "without-node-1", node=2, replicas=2) is ErrorCode.none, "the quorum goes on"
        )
