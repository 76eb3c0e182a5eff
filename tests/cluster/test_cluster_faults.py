"""Each fault does to real processes what it says, and what it broke can be mended."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stock_client import PATIENCE_S, read, write, write_to

from insync.testing import Cluster, ClusterError
from insync.wire.errors import ErrorCode


@pytest.fixture
def cluster(insync_session_cluster: Cluster) -> Cluster:
    return insync_session_cluster


def _topic(cluster: Cluster, request: pytest.FixtureRequest, **settings: object) -> str:
    """One of the test's own."""
    name = request.node.name.replace("_", "-")[:100]
    cluster.create_topic(name, **settings)
    return name


def _truncations(cluster: Cluster, node: int) -> list[str]:
    return [line for line in cluster.log_of(node).read_text().splitlines() if "event=truncated" in line]


def test_a_leader_that_is_cut_off_is_replaced_and_loses_what_only_it_had(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    topic = _topic(cluster, request)
    write(cluster, topic, ["before"])
    old = cluster.leader_of(topic)
    cluster.partition({old})
    assert write_to(cluster, old, topic, "heard by nobody", acks=1, timeout_ms=1_000) is ErrorCode.none
    assert write_to(cluster, old, topic, "not acknowledged", acks=-1, timeout_ms=500) is not ErrorCode.none
    new = cluster.wait_for_leader(topic, other_than=old)
    write(cluster, topic, ["after"], through=new)
    assert old not in cluster.isr_of(topic)
    cluster.heal()
    assert old in cluster.wait_for_isr(topic)
    assert read(cluster, topic) == ["before", "after"]
    assert any(topic in line for line in _truncations(cluster, old)), "D3: the tail that nobody else had is cut off"
    cluster.kill(new)
    cluster.wait_for_leader(topic, other_than=new)
    assert read(cluster, topic) == ["before", "after"]


def test_a_cut_does_not_keep_clients_from_any_node(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    topic = _topic(cluster, request)
    cluster.partition({1}, {2}, {3})
    leader = cluster.leader_of(topic)
    assert write_to(cluster, leader, topic, "by itself", acks=1, timeout_ms=1_000) is ErrorCode.none
    cluster.heal()
    cluster.wait_for_isr(topic)
    write(cluster, topic, ["after"])
    assert read(cluster, topic)[-1] == "after"


def test_a_node_started_during_a_cut_begins_on_its_side_of_it(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    topic = _topic(cluster, request)
    cluster.wait_for_isr(topic)
    lonely = cluster.leader_of(topic)
    cluster.kill(lonely)
    cluster.wait_for_leader(topic, other_than=lonely)
    cluster.partition({lonely})
    cluster.start(lonely)
    with pytest.raises(ClusterError, match=r"3 replicas of .* are in sync"):
        cluster.wait_for_isr(topic, size=3, timeout_s=1)
    cluster.heal()
    assert lonely in cluster.wait_for_isr(topic, size=3)


def test_a_cut_of_a_sleeping_node_is_in_force_when_it_wakes(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    topic = _topic(cluster, request)
    cluster.wait_for_isr(topic)
    leader = cluster.leader_of(topic)
    sleeper = next(node for node in cluster.nodes if node != leader)
    cluster.pause(sleeper)
    cluster.partition({sleeper})
    cluster.wait_for_isr(topic, size=2)
    cluster.resume(sleeper)
    with pytest.raises(ClusterError, match="in sync"):
        cluster.wait_for_isr(topic, size=3, timeout_s=1)
    cluster.heal()
    cluster.wait_for_isr(topic, size=3)


def test_a_power_cut_takes_what_was_not_flushed(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    """S1 promises nothing here: one replica, and no flush before the acknowledgement."""
    lost = _topic(cluster, request, replication_factor=1, min_insync_replicas=1)
    values = [f"value-{i}" for i in range(50)]
    write(cluster, lost, values)
    victim = cluster.leader_of(lost)
    losses = cluster.lose_unflushed(victim)[victim]
    assert any(path.startswith(f"data/{lost}-0/") and path.endswith(".log") for path in losses), losses
    assert not any("__cluster_metadata" in path and path.endswith(".log") for path in losses), losses
    cluster.start(victim)
    cluster.wait_for_leader(lost)
    assert read(cluster, lost) == []


def test_a_power_cut_takes_nothing_from_a_topic_that_flushes_every_record(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    kept = _topic(cluster, request, replication_factor=1, min_insync_replicas=1, flush_messages=1)
    values = [f"value-{i}" for i in range(50)]
    write(cluster, kept, values)
    victim = cluster.leader_of(kept)
    cluster.lose_unflushed(victim)
    cluster.start(victim)
    cluster.wait_for_leader(kept)
    assert read(cluster, kept) == values


def test_with_three_replicas_a_power_cut_takes_nothing_that_was_acknowledged(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    """S1: the others have it, in memory too."""
    topic = _topic(cluster, request)
    before, after = [f"before-{i}" for i in range(50)], [f"after-{i}" for i in range(50)]
    write(cluster, topic, before)
    cluster.wait_for_isr(topic)
    victim = cluster.leader_of(topic)
    assert any(topic in path for path in cluster.lose_unflushed(victim)[victim])
    write(cluster, topic, after)
    cluster.start(victim)
    cluster.wait_for_isr(topic)
    assert read(cluster, topic) == before + after


def test_a_node_whose_disk_is_full_ends_and_the_others_go_on(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    topic = _topic(cluster, request)
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


def test_a_controlled_shutdown_is_none_of_the_faults(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    topic = _topic(cluster, request)
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
        (lambda c: c.leader_of("nowhere"), r"no broker knows nowhere-0: create_topic\('nowhere'\) makes it"),
        (lambda c: c.create_topic("bad name"), "'bad name' was not created: INVALID_TOPIC_EXCEPTION"),
        (lambda c: c.create_topic("fine", colour="red"), "'fine' was not created: INVALID_CONFIG"),
    ],
)
def test_a_mistake_is_told_with_what_to_do(cluster: Cluster, mistake: object, advice: str) -> None:
    with pytest.raises(ClusterError, match=advice):
        mistake(cluster)
    assert all(node.running for node in cluster.nodes.values()), "and nothing was done"


def test_what_only_a_running_node_can_do_is_refused_for_one_that_is_not(cluster: Cluster) -> None:
    cluster.pause(3)
    with pytest.raises(ClusterError, match=r"node 3 is paused: resume\(3\) first"):
        cluster.stop(3)
    with pytest.raises(ClusterError, match=r"paused: 3; resume"):
        cluster.wait_until_ready()
    cluster.kill(3)
    for act in (cluster.kill, cluster.stop, cluster.pause, cluster.resume):
        with pytest.raises(ClusterError, match=r"node 3 is not running: start\(3\) first"):
            act(3)


def test_topics_are_not_given_as_one_text() -> None:
    with pytest.raises(ClusterError, match=r"write topics=\['orders'\]"):
        Cluster(topics="orders")


def test_nodes_end_when_whoever_started_them_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, insync.testing\n"
        "cluster = insync.testing.Cluster(brokers=1, directory=sys.argv[1])\n"
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
    deadline = time.monotonic() + PATIENCE_S
    while _runs(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert "event=stopped clean=true" in (tmp_path / "node-1" / "node.log").read_text()


def _runs(pid: int) -> bool:
    """An orphan that has ended may stay as a zombie where nobody collects it."""
    status = Path(f"/proc/{pid}/status")
    try:
        return "State:\tZ" not in status.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
