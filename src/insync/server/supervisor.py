"""`insync up`: starts a local cluster, reports its state, restarts crashed nodes, and stops the cluster on a signal.

A node that cannot start until an operator changes its settings, directory or addresses is not restarted; when no node
is left, the supervisor ends.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType

from insync.server.local_cluster import ClusterError, LocalCluster, LocalNode, last_line
from insync.server.startup_error import CANNOT_START

Say = Callable[[str], None]

POLL_INTERVAL_S = 0.1
FIRST_BACKOFF_S = 1.0
MAX_BACKOFF_S = 30.0


class Supervisor:
    def __init__(self, cluster: LocalCluster, say: Say, *, restart: bool = True) -> None:
        self.cluster = cluster
        self._say = say
        self._restart = restart
        self._is_stopping = False
        self._restarts: dict[int, float] = {}  # by crashed node: when to restart it
        self._backoff: dict[int, float] = {}

    def run(self, when_ready: Callable[[], None]) -> None:
        """Run the cluster until SIGTERM or Ctrl-C, which may come during its start."""
        before = {n: signal.signal(n, self._stop) for n in (signal.SIGTERM, signal.SIGINT)}
        try:
            self.cluster.start(is_cancelled=lambda: self._is_stopping)
            for notice in self.cluster.notices:
                self._say(notice)
            if not self._is_stopping:
                when_ready()
            while not self._is_stopping:
                self._check_nodes(time.monotonic())
                if not self._restarts and all(node.process is None for node in self.cluster.nodes.values()):
                    raise ClusterError(
                        "No node is left that could be restarted; see the lines above. Correct that and start again."
                    )
                time.sleep(POLL_INTERVAL_S)
            self._say("stopping")
        finally:
            self.cluster.stop()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._is_stopping = True

    def _check_nodes(self, now: float) -> None:
        for node in self.cluster.nodes.values():
            if node.id in self._restarts:
                if now >= self._restarts[node.id]:
                    del self._restarts[node.id]
                    self.cluster.start_node(node.id)
                    self._say(f"node {node.id} restarted, pid {node.pid}")
            elif not node.is_running and node.process is not None:
                self._on_node_exit(node, now)

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
