"""Metrics and logs of a running cluster: all metrics by name, and one line per event with epochs and cause."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from insync.server.local_cluster import LocalCluster, LocalNode
from tests.server.server_harness import TIMEOUT_S, Topic, eventually, metric

METRICS = {
    "UnderReplicatedPartitions": "under_replicated_partitions",
    "OfflinePartitionsCount": "offline_partitions_count",
    "UnderMinIsrPartitionCount": "under_min_isr_partition_count",
    "AtMinIsrPartitionCount": "at_min_isr_partition_count",
    "IsrExpandsPerSec": "isr_expands_total",
    "IsrShrinksPerSec": "isr_shrinks_total",
    "FailedIsrUpdatesPerSec": "failed_isr_updates_total",
    "LeaderElections": "leader_elections_total",
    "UncleanLeaderElectionsPerSec": "unclean_leader_elections_total",
    "FencedBrokerCount": "fenced_broker_count",
    "ActiveBrokerCount": "active_broker_count",
    "RequestsPerSec": "requests_total",
    "TotalTimeMs": "request_seconds",
    "BytesInPerSec": "request_bytes_total",
    "BytesOutPerSec": "response_bytes_total",
    "MaxLag": "replica_max_lag",
}
"""Kafka's name, with which the help text begins, and ours."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def topic(cluster: LocalCluster) -> Topic:
    topic = Topic(cluster, "watched")
    topic.produce(b"first")
    return topic


def page(node: LocalNode) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{node.metrics_port}/metrics", timeout=TIMEOUT_S) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("kafkas", METRICS)
def test_every_node_exports_every_metric(cluster: LocalCluster, topic: Topic, kafkas: str) -> None:
    ours = METRICS[kafkas]
    for node in cluster.nodes.values():
        text = page(node)
        family = ours.removesuffix("_total")
        assert re.search(rf"^# HELP insync_{family}(_total)? {kafkas}", text, re.M), f"{ours} on node {node.id}"
        assert re.search(rf"^insync_{ours}(_bucket)?[ {{]", text, re.M), f"{ours} on node {node.id}"


def test_requests_are_counted_by_api(cluster: LocalCluster, topic: Topic) -> None:
    text = page(topic.leader())
    for name in ("requests_total", "request_bytes_total", "response_bytes_total", "request_seconds_count"):
        value = re.search(rf'^insync_{name}{{api="produce"}} (\S+)', text, re.M)
        assert value is not None
        assert float(value[1]) > 0


def isr_of(topic: Topic) -> list[int]:
    partition = topic.partition()
    return sorted(partition.isr_nodes) if partition else []


def lines(cluster: LocalCluster, event: str) -> list[dict[str, str]]:
    """The fields of every such line in any node's log."""
    text = "".join(node.log.read_text() for node in cluster.nodes.values())
    matching = [line for line in text.splitlines() if f" event={event} " in line]
    return [dict(re.findall(r"(\w+)=('[^']*'|\S+)", line)) for line in matching]


def of_partition(cluster: LocalCluster, event: str, **more: str) -> list[dict[str, str]]:
    """The lines about the topic's only partition, named in either way, with these values."""
    return [
        fields
        for fields in lines(cluster, event)
        if (fields.get("topic") == "watched" or fields.get("partition") == "watched-0")
        and all(fields.get(key) == value for key, value in more.items())
    ]


def test_a_death_and_a_return_are_logged_with_their_epochs_and_causes(cluster: LocalCluster, topic: Topic) -> None:
    """B4, E1, I1, I2: one line each, from the fencing to the restored ISR."""
    victim = topic.leader()
    before = topic.partition()
    fencings = len(lines(cluster, "broker_fenced"))
    cluster.kill(victim.id)

    def replaced() -> Any:
        partition = topic.partition()
        return partition if partition and partition.leader_id not in (-1, victim.id) else None

    after = eventually(replaced, "another leads")

    fenced = eventually(lambda: lines(cluster, "broker_fenced")[fencings:], "the fencing is logged")
    assert [fields["broker"] for fields in fenced] == [str(victim.id)]
    assert int(fenced[0]["broker_epoch"]) > 0
    assert fenced[0]["cause"].startswith(("'its connections dropped", "'no heartbeat for "))

    (elected,) = of_partition(cluster, "leader_elected", leader_epoch=str(after.leader_epoch))
    assert (elected["leader"], elected["before"]) == (str(after.leader_id), str(victim.id))
    assert elected["how"] == "clean"
    assert elected["cause"] == f"'broker {victim.id} is fenced'"

    (shrunk,) = of_partition(cluster, "isr_shrunk_by_controller", leader_epoch=str(after.leader_epoch))
    assert str(victim.id) not in shrunk["isr"]
    assert str(victim.id) in shrunk["before"]
    assert int(shrunk["partition_epoch"]) > 0
    assert shrunk["cause"] == f"'broker {victim.id} is fenced'"
    led = eventually(lambda: of_partition(cluster, "became_leader", epoch=str(after.leader_epoch)), "it leads")
    assert len(led) == 1

    cluster.start_node(victim.id)
    eventually(lambda: isr_of(topic) == sorted(before.isr_nodes), "the ISR is whole again")
    (proposed,) = of_partition(cluster, "isr_expand_proposed", leader_epoch=str(after.leader_epoch))
    assert (str(victim.id) in proposed["proposed"], proposed["cause"]) == (True, "'caught up'")
    committed = eventually(
        lambda: of_partition(cluster, "isr_committed", leader_epoch=str(after.leader_epoch)), "it is committed"
    )
    assert str(victim.id) in committed[-1]["isr"]
    assert int(committed[-1]["partition_epoch"]) > int(shrunk["partition_epoch"])
    registered = lines(cluster, "broker_registered")[-1]
    assert (registered["broker"], registered["clean"]) == (str(victim.id), "False")


def test_events_are_counted(cluster: LocalCluster, topic: Topic) -> None:
    """After the test above; every node counts its own decisions."""
    eventually(
        lambda: sum(metric(node, "leader_elections_total") for node in cluster.nodes.values()) >= 1,
        "the election is counted",
    )
    assert sum(metric(node, "isr_expands_total") for node in cluster.nodes.values()) >= 1
    assert all(metric(node, "active_broker_count") == 3 for node in cluster.nodes.values())
