"""Which nodes are restarted, and which are not."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from insync.server import supervisor as module
from insync.server.local_cluster import ClusterError, LocalCluster
from insync.server.supervisor import Supervisor


class FakeCluster:
    """A cluster whose nodes end with these codes at every start."""

    def __init__(self, directory: Path, **codes: int) -> None:
        self.notices: list[str] = []
        self.nodes: dict[int, Any] = {}
        self.started: list[int] = []
        self.stopped = False
        for number, code in enumerate(codes.values(), 1):
            log = directory / f"{number}.log"
            log.write_text(f"starting\nwhy node {number} ended\n")
            process = SimpleNamespace(returncode=code)
            self.nodes[number] = SimpleNamespace(id=number, pid=7, is_running=False, log=log, process=process)

    def start(self, is_cancelled: Callable[[], bool]) -> None:
        """The nodes are running."""

    def start_node(self, node_id: int) -> None:
        self.started.append(node_id)

    def stop(self) -> None:
        self.stopped = True


def test_a_node_that_cannot_start_is_not_restarted(tmp_path: Path) -> None:
    """Its address is in use, or its directory belongs to another process: another attempt would fail too."""
    cluster, messages = FakeCluster(tmp_path, cannot=2, crashed=1), list[str]()
    supervisor = Supervisor(cast(LocalCluster, cluster), messages.append)
    for now in (0.0, 10.0, 100.0, 1_000.0):
        supervisor._check_nodes(now)
    assert set(cluster.started) == {2}
    assert "node 1 is not restarted: why node 1 ended" in messages


def test_a_supervisor_without_nodes_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_INTERVAL_S", 0)
    cluster = FakeCluster(tmp_path, one=2, other=2)
    with pytest.raises(ClusterError, match="No node is left"):
        Supervisor(cast(LocalCluster, cluster), lambda text: None).run(lambda: None)
    assert cluster.stopped


def test_a_node_is_restarted_on_request_even_if_crashed_ones_are_not(tmp_path: Path) -> None:
    cluster, messages = FakeCluster(tmp_path, one=0, other=0), list[str]()
    for node in cluster.nodes.values():
        signals: list[int] = []
        node.process.send_signal, node.signals, node.is_running = signals.append, signals, True
    supervisor = Supervisor(cast(LocalCluster, cluster), messages.append, restart=False)
    assert "is starting" in supervisor.handle_request({"command": "restart", "node": 1})["error"]
    supervisor._state = "running"
    assert "has no node 3; its nodes are 1, 2" in supervisor.handle_request({"command": "restart", "node": 3})["error"]
    supervisor.handle_request({"command": "restart", "node": 1})
    supervisor.handle_request({"command": "restart", "node": 2, "kill": True})
    supervisor._check_nodes(0.0)
    assert [node.signals for node in cluster.nodes.values()] == [[signal.SIGTERM], [signal.SIGKILL]]
    assert cluster.started == []
    for node in cluster.nodes.values():
        node.is_running = False
    supervisor._check_nodes(1.0)
    assert cluster.started == [1, 2]
    assert "node 1 restarted on request, pid 7" in messages
