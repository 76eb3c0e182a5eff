"""Each fault has its effect on real processes, and can be undone."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from insync import Cluster, ClusterError
from insync.wire.errors import ErrorCode
from tests.cluster.stock_client import read, write, write_to
from tests.polling import wait_until


@pytest.fixture
def cluster(insync_session_cluster: Cluster) -> Cluster:
    return insync_session_cluster


def _create_topic(cluster: Cluster, request: pytest.FixtureRequest, **settings: Any) -> str:
    """Create a topic named after the test."""
    name: str = request.node.name.replace("_", "-")[:100]
    cluster.create_topic(name, **settings)
    return name


def _truncations(cluster: Cluster, node: int) -> list[str]:
    return [line for line in cluster.log_of(node).read_text().splitlines() if "event=truncated" in line]


def test_a_leader_that_is_cut_off_is_replaced_and_truncates_its_unreplicated_records(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    topic = _create_topic(cluster, request)
    write(cluster, topic, ["before"])
    old = cluster.leader_of(topic)
    cluster.partition({old})
    assert write_to(cluster, old, topic, "not replicated", acks=1, timeout_ms=1_000) is ErrorCode.none
    assert write_to(cluster, old, topic, "not acknowledged", acks=-1, timeout_ms=500) is not ErrorCode.none
    new = cluster.wait_for_leader(topic, other_than=old)
    write(cluster, topic, ["after"], through=new)
    assert old not in cluster.isr_of(topic)
    cluster.heal()
    assert old in cluster.wait_for_isr(topic)
    assert read(cluster, topic) == ["before", "after"]
    assert any(topic in line for line in _truncations(cluster, old)), (
        "D3: the tail that no other replica had is truncated"
    )
    cluster.kill(new)
    cluster.wait_for_leader(topic, other_than=new)
    assert read(cluster, topic) == ["before", "after"]


def test_clients_reach_every_node_during_a_cut(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    topic = _create_topic(cluster, request)
    cluster.partition({1}, {2}, {3})
    leader = cluster.leader_of(topic)
    assert write_to(cluster, leader, topic, "by itself", acks=1, timeout_ms=1_000) is ErrorCode.none
    cluster.heal()
    cluster.wait_for_isr(topic)
    write(cluster, topic, ["after"])
    assert read(cluster, topic)[-1] == "after"


def test_a_node_started_during_a_cut_is_cut_off_too(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    topic = _create_topic(cluster, request)
    cluster.wait_for_isr(topic)
    isolated = cluster.leader_of(topic)
    cluster.kill(isolated)
    cluster.wait_for_leader(topic, other_than=isolated)
    cluster.partition({isolated})
    cluster.start(isolated)
    with pytest.raises(ClusterError, match=r"3 replicas of .* are in sync"):
        cluster.wait_for_isr(topic, size=3, timeout_s=1)
    cluster.heal()
    assert isolated in cluster.wait_for_isr(topic, size=3)


def test_a_cut_of_a_paused_node_is_in_force_when_it_resumes(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    topic = _create_topic(cluster, request)
    cluster.wait_for_isr(topic)
    leader = cluster.leader_of(topic)
    paused = next(node for node in cluster.nodes if node != leader)
    cluster.pause(paused)
    cluster.partition({paused})
    cluster.wait_for_isr(topic, size=2)
    cluster.resume(paused)
    with pytest.raises(ClusterError, match="in sync"):
        cluster.wait_for_isr(topic, size=3, timeout_s=1)
    cluster.heal()
    cluster.wait_for_isr(topic, size=3)


def test_a_power_cut_loses_what_was_not_flushed(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    """S1 promises nothing here: one replica, and no flush before the acknowledgement."""
    lost = _create_topic(cluster, request, replication_factor=1, min_insync_replicas=1)
    values = [f"value-{i}" for i in range(50)]
    write(cluster, lost, values)
    victim = cluster.leader_of(lost)
    losses = cluster.lose_unflushed(victim)[victim]
    assert any(path.startswith(f"data/{lost}-0/") and path.endswith(".log") for path in losses), losses
    assert not any("__cluster_metadata" in path and path.endswith(".log") for path in losses), losses
    cluster.start(victim)
    cluster.wait_for_leader(lost)
    assert read(cluster, lost) == []


def test_a_power_cut_loses_nothing_of_a_topic_that_flushes_every_record(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    kept = _create_topic(cluster, request, replication_factor=1, min_insync_replicas=1, flush_messages=1)
    values = [f"value-{i}" for i in range(50)]
    write(cluster, kept, values)
    victim = cluster.leader_of(kept)
    cluster.lose_unflushed(victim)
    cluster.start(victim)
    cluster.wait_for_leader(kept)
    assert read(cluster, kept) == values


def test_with_three_replicas_a_power_cut_loses_nothing_acknowledged(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    """S1: the other replicas have it, if only in memory."""
    topic = _create_topic(cluster, request)
    before, after = [f"before-{i}" for i in range(50)], [f"after-{i}" for i in range(50)]
    write(cluster, topic, before)
    cluster.wait_for_isr(topic)
    victim = cluster.leader_of(topic)
    assert any(topic in path for path in cluster.lose_unflushed(victim)[victim])
    write(cluster, topic, after)
    cluster.start(victim)
    cluster.wait_for_isr(topic)
    assert read(cluster, topic) == before + after


def test_a_node_with_a_full_disk_exits_and_the_others_continue(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    topic = _create_topic(cluster, request)
    write(cluster, topic, ["before"])
    victim = cluster.leader_of(topic)
    cluster.fill_disk(victim)
    write(cluster, topic, ["during"])
    cluster.wait_until_ended(victim)
    last = cluster.last_lines_of(victim, 1)
    assert "level=ERROR" in last
    assert "No space left on device" in last
    assert "Free space" in last
    cluster.free_disk(victim)
    cluster.start(victim)
    assert victim in cluster.wait_for_isr(topic)
    assert read(cluster, topic) == ["before", "during"]


def test_a_restart_is_a_controlled_shutdown(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    topic = _create_topic(cluster, request)
    leader = cluster.leader_of(topic)
    cluster.restart(leader)
    assert "clean=true" in cluster.log_of(leader).read_text()
    cluster.wait_for_isr(topic)


@pytest.mark.parametrize(
    ("mistake", "advice"),
    [
        (lambda c: c.kill(9), "there is no node 9: this cluster has the nodes 1, 2, 3"),
        (lambda c: c.start(1), r"node 1 is running already: kill\(1\) or stop\(1\) ends it"),
        (lambda c: c.resume(1), r"node 1 is not paused: pause\(1\) comes first"),
        (lambda c: c.partition({1}, {7}), "there is no node 7"),
        (lambda c: c.partition({1}, {1, 2}), "node 1 is on both sides of the cut: name it in one group"),
        (lambda c: c.partition(), r"nodes on both sides, such as partition\(\{1\}, \{2, 3\}\)"),
        (lambda c: c.partition({1, 2, 3}), "nodes on both sides"),
        (lambda c: c.partition({1}, {2}, {3}, one_way=True), "one_way takes two groups"),
        (lambda c: c.lose_unflushed(1, 8), "there is no node 8"),
        (lambda c: c.fill_disk(8), "there is no node 8"),
        (lambda c: c.leader_of("nowhere"), r"no broker knows topic 'nowhere': create_topic\('nowhere'\) makes it"),
        (lambda c: c.create_topic("bad name"), "'bad name' was not created: INVALID_TOPIC_EXCEPTION"),
        (lambda c: c.create_topic("fine", colour="red"), "'fine' was not created: INVALID_CONFIG"),
    ],
)
def test_a_mistake_is_refused_with_advice(cluster: Cluster, mistake: Callable[[Cluster], object], advice: str) -> None:
    with pytest.raises(ClusterError, match=advice):
        mistake(cluster)
    assert all(node.is_running for node in cluster.nodes.values()), "nothing was done"


def test_operations_on_a_paused_or_stopped_node_are_refused(cluster: Cluster) -> None:
    cluster.pause(3)
    with pytest.raises(ClusterError, match=r"node 3 is paused: resume\(3\) first"):
        cluster.stop(3)
    with pytest.raises(ClusterError, match=r"paused: 3; resume"):
        cluster.wait_until_ready()
    cluster.kill(3)
    for operation in (cluster.kill, cluster.stop, cluster.pause, cluster.resume):
        with pytest.raises(ClusterError, match=r"node 3 is not running: start\(3\) first"):
            operation(3)


def test_topics_as_a_single_string_are_refused() -> None:
    with pytest.raises(ClusterError, match=r"write topics=\['orders'\]"):
        Cluster(topics="orders")


def test_nodes_stop_when_the_process_that_started_them_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, insync\n"
        "cluster = insync.Cluster(brokers=1, directory=sys.argv[1])\n"
        "cluster.open()\n"
        "print(cluster.nodes[1].pid, flush=True)\n"
        "input()\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    wait_until(lambda: not _is_running(pid), "the node has ended")
    assert "event=stopped clean=true" in (tmp_path / "node-1" / "node.log").read_text()


def _is_running(pid: int) -> bool:
    """An orphan that has exited may remain as a zombie."""
    status = Path(f"/proc/{pid}/status")
    try:
        return "State:\tZ" not in status.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
