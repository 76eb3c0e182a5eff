"""Three real processes: acknowledged records survive kill -9, clean stops and restarts."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from insync.server import node_query
from insync.server.local_cluster import LocalCluster, LocalNode
from tests.server.server_harness import Topic, eventually, metric

SESSION_TIMEOUT_S = 2.0
"""The session timeout of the fast profile. Faster detection comes from dropped connections."""


@pytest.fixture(scope="module")
def running() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: LocalCluster) -> Iterator[LocalCluster]:
    """All three nodes run after every test, and none of them has logged a traceback."""
    yield running
    for node in running.nodes.values():
        running.start_node(node.id)
    running.wait_until_ready()
    for node in running.nodes.values():
        assert "Traceback" not in node.log.read_text()


def _in_sync(topic: Topic, count: int) -> None:
    def enough() -> bool:
        partition = topic.partition()
        return partition is not None and len(partition.isr_nodes) == count

    eventually(enough, f"{count} replicas are in sync")


def _active_controller(cluster: LocalCluster) -> LocalNode:
    def active() -> LocalNode | None:
        running = [node for node in cluster.nodes.values() if node.is_running]
        return next((node for node in running if metric(node, "active_controller_count") == 1), None)

    return eventually(active, "one controller is active")


def _measure_failover(topic: Topic, victim: LocalNode) -> float:
    """Seconds from the kill to the next acknowledged write."""
    topic.produce(b"before")
    _in_sync(topic, 3)
    topic.cluster.kill(victim.id)
    began = time.monotonic()
    topic.produce(b"after")
    return time.monotonic() - began


def test_kill_9_of_a_leader_is_noticed_by_its_dropped_connections(cluster: LocalCluster) -> None:
    controller = _active_controller(cluster)
    topics = (Topic(cluster, f"killed-leader-{i}") for i in range(10))  # placed in turn
    topic = next(topic for topic in topics if topic.leader() is not controller)
    leader = topic.leader()
    assert _measure_failover(topic, leader) < SESSION_TIMEOUT_S
    assert topic.values() == [b"before", b"after"]


def test_kill_9_of_the_active_controller_stops_writes_for_less_than_a_session(cluster: LocalCluster) -> None:
    topic = Topic(cluster, "killed-controller")
    assert _measure_failover(topic, _active_controller(cluster)) < SESSION_TIMEOUT_S
    assert topic.values() == [b"before", b"after"]


def test_every_acknowledged_write_survives_kill_9_of_all_nodes(cluster: LocalCluster) -> None:
    topic = Topic(cluster, "all-killed")
    written = [f"value-{i}".encode() for i in range(20)]
    for value in written:
        topic.produce(value)
    for node in cluster.nodes.values():
        cluster.kill(node.id)
    for node in cluster.nodes.values():
        cluster.start_node(node.id)
    cluster.wait_until_ready()
    eventually(lambda: len(topic.values()) == len(written), "all of it is committed again")
    assert topic.values() == written


def test_no_write_fails_while_one_node_after_the_other_is_restarted(cluster: LocalCluster) -> None:
    """B7: leadership is handed over before the leader stops, and its registration is a clean one (B5)."""
    topic = Topic(cluster, "rolling")
    written: list[bytes] = []
    for node in cluster.nodes.values():
        _in_sync(topic, 3)
        before = len(node.log.read_text())
        cluster_stop = _Stopping(cluster, node)
        while not cluster_stop.done:
            written.append(f"value-{len(written)}".encode())
            topic.produce(written[-1])
        cluster.start_node(node.id)
        cluster.wait_until_ready()
        assert "event=stopped clean=true" in node.log.read_text()[before:]
    registrations = "".join(node.log.read_text() for node in cluster.nodes.values()).count("clean=True")
    assert registrations >= 3
    assert topic.values() == written


class _Stopping:
    """A controlled shutdown under way."""

    def __init__(self, cluster: LocalCluster, node: LocalNode) -> None:
        self._node = node
        os.kill(node.pid, signal.SIGTERM)

    @property
    def done(self) -> bool:
        return not self._node.is_running


def test_a_paused_node_is_fenced_and_comes_back(cluster: LocalCluster) -> None:
    """B4: a paused process drops no connection, but its session ends."""
    topic = Topic(cluster, "paused")
    victim = topic.leader()
    os.kill(victim.pid, signal.SIGSTOP)
    try:
        others = [node for node in cluster.nodes.values() if node is not victim]
        eventually(
            lambda: victim.id not in node_query.query_live_brokers(others[0].address), "the paused node is fenced"
        )
    finally:
        os.kill(victim.pid, signal.SIGCONT)
    topic.produce(b"value")
    _in_sync(topic, 3)
    assert topic.values() == [b"value"]


def test_metrics_show_a_missing_replica(cluster: LocalCluster) -> None:
    topic = Topic(cluster, "under-replicated")
    _in_sync(topic, 3)
    victim = next(node for node in cluster.nodes.values() if node is not topic.leader())
    cluster.kill(victim.id)
    _in_sync(topic, 2)
    leader = topic.leader()
    assert metric(leader, "under_replicated_partitions") >= 1
    assert metric(leader, "at_min_isr_partition_count") >= 1
    assert metric(leader, "fenced_broker_count") == 1
    assert metric(leader, "active_broker_count") == 2


def test_elections_and_fencing_are_logged_with_epochs(cluster: LocalCluster) -> None:
    topic = Topic(cluster, "logged")
    _in_sync(topic, 3)
    victim = topic.leader()
    cluster.kill(victim.id)
    leader = topic.leader()
    eventually(
        lambda: "event=became_leader partition=logged-0 epoch=1 " in leader.log.read_text(), "the leader logs it"
    )
    logs = "".join(node.log.read_text() for node in cluster.nodes.values())
    assert f"event=broker_fenced broker={victim.id} broker_epoch=" in logs
    assert "event=leader_elected topic=logged partition=0" in logs
