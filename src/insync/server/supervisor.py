"""`insync up`: starts a local cluster, reports its state, restarts crashed nodes, and stops the cluster on a signal.

A node that cannot start until an operator changes its settings, directory or addresses is not restarted; when no node
is left, the supervisor ends. While it runs, it answers requests of other commands (`cluster_registry`).
"""

from __future__ import annotations

import os
import queue
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from insync.server import node_query
from insync.server.cluster_registry import Registration
from insync.server.local_cluster import ClusterError, LocalCluster, LocalNode, last_line
from insync.server.startup_error import CANNOT_START, StartupError

Say = Callable[[str], None]

POLL_INTERVAL_S = 0.1
FIRST_BACKOFF_S = 1.0
MAX_BACKOFF_S = 30.0
ANSWER_TIMEOUT_S = 0.5
"""A node that does not answer the supervisor within this time is reported as such."""


class Supervisor:
    """With a `name`, or with "" for a free one, other commands find the cluster; with None they do not."""

    def __init__(self, cluster: LocalCluster, say: Say, *, restart: bool = True, name: str | None = None) -> None:
        self.cluster = cluster
        self.name = name or ""
        self._is_registered = name is not None
        self._say = say
        self._restart = restart
        self._state = "starting"
        self._started = time.time()
        self._is_stopping = False
        self._requests: queue.SimpleQueue[tuple[int, bool]] = queue.SimpleQueue()
        self._requested: set[int] = set()
        """Nodes that were stopped in order to be restarted."""
        self._restarts: dict[int, float] = {}  # by crashed node: when to restart it
        self._backoff: dict[int, float] = {}

    def run(self, when_ready: Callable[[], None]) -> None:
        """Run the cluster until SIGTERM or Ctrl-C, which may come during its start."""
        before = {n: signal.signal(n, self._stop) for n in (signal.SIGTERM, signal.SIGINT)}
        registration: Registration | None = None
        try:
            if self._is_registered:
                registration = Registration(self.name or None, self.handle_request)
                self.name = registration.name
            self.cluster.start(is_cancelled=lambda: self._is_stopping)
            for notice in self.cluster.notices:
                self._say(notice)
            if not self._is_stopping:
                self._state = "running"
                when_ready()
            while not self._is_stopping:
                self._check_nodes(time.monotonic())
                if not self._restarts and all(node.process is None for node in self.cluster.nodes.values()):
                    raise ClusterError(
                        "No node is left that could be restarted; see the lines above. Correct that and start again."
                    )
                time.sleep(POLL_INTERVAL_S)
            self._say("stopping")
        except StartupError as error:
            raise ClusterError(str(error)) from error
        finally:
            self._state = "stopping"
            self.cluster.stop()
            if registration is not None:
                registration.close()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._is_stopping = True

    # --- requests of other commands ----------------------------------------------------------------------------------

    def handle_request(self, request: dict[str, Any]) -> dict[str, Any]:
        """In a thread of its own: what changes the cluster is done by `run`."""
        command = request["command"]
        if command == "status":
            return self._describe()
        if command == "stop":
            self._is_stopping = True
            return {"pid": os.getpid()}
        if command == "restart":
            node = self.cluster.nodes.get(request["node"])
            if node is None:
                ids = ", ".join(str(node_id) for node_id in self.cluster.nodes)
                return {"error": f"cluster '{self.name}' has no node {request['node']}; its nodes are {ids}"}
            if self._state != "running":
                return {"error": f"cluster '{self.name}' is {self._state}"}
            self._requests.put((node.id, bool(request.get("kill"))))
            return {"pid": node.pid if node.is_running else -1}
        return {"error": f"unknown command {command!r}"}

    def _describe(self) -> dict[str, Any]:
        states = {node.id: self._state_of(node) for node in self.cluster.nodes.values()}
        described = self.cluster.describe()
        nodes: Any = described["nodes"]
        return {
            "name": self.name,
            "state": self._state,
            "pid": os.getpid(),
            "since": self._started,
            "directory": str(self.cluster.directory),
            "is_temporary": self.cluster.is_temporary,
            **described,
            "nodes": [
                {**node, "state": states[node["id"]], "log": str(self.cluster.nodes[node["id"]].log)} for node in nodes
            ],
        }

    def _state_of(self, node: LocalNode) -> str:
        if not node.is_running:
            return "restarting" if node.id in self._restarts or node.id in self._requested else "stopped"
        if node.id in self._requested:
            return "stopping"
        try:
            node_query.query_node_state(node.address, node.id, ANSWER_TIMEOUT_S, node.tls)
        except node_query.NoAnswerError:
            return "starting" if self._state == "starting" else "no answer"
        return "running"

    # --- nodes -------------------------------------------------------------------------------------------------------

    def _check_nodes(self, now: float) -> None:
        self._take_requests()
        for node in self.cluster.nodes.values():
            if node.id in self._restarts:
                if now >= self._restarts[node.id]:
                    self._start(node, "restarted")
            elif not node.is_running and node.id in self._requested:
                self._requested.discard(node.id)
                self._start(node, "restarted on request")
            elif not node.is_running and node.process is not None:
                self._on_node_exit(node, now)

    def _take_requests(self) -> None:
        while not self._requests.empty():
            node_id, kill = self._requests.get()
            node = self.cluster.nodes[node_id]
            self._requested.add(node_id)
            self._restarts.pop(node_id, None)
            if node.process is not None and node.is_running:
                node.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)

    def _start(self, node: LocalNode, how: str) -> None:
        self._restarts.pop(node.id, None)
        self.cluster.start_node(node.id)
        self._say(f"node {node.id} {how}, pid {node.pid}")

    def _on_node_exit(self, node: LocalNode, now: float) -> None:
        code = node.process.returncode if node.process is not None else 0
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        self._say(f"node {node.id} {how}; its log is {node.log}")
        if code == CANNOT_START:
            self._say(f"node {node.id} is not restarted: {last_line(node.log)}")
            node.process = None
        elif self._restart:
            wait = self._backoff.get(node.id, FIRST_BACKOFF_S)
            self._backoff[node.id] = min(wait * 2, MAX_BACKOFF_S)
            self._restarts[node.id] = now + wait
        else:
            node.process = None
