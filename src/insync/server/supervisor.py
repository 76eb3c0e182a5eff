"""`insync up`: starts a local cluster, says how it fares, restarts what crashed, and stops it when told.

A node that cannot start until an operator changes its settings, its directory or its addresses is not started again;
when none is left, the supervisor ends.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType

from insync.server.local_cluster import ClusterError, LocalCluster, LocalNode, last_line
from insync.server.startup_error import CANNOT_START

Say = Callable[[str], None]

LOOK_EVERY_S = 0.1
RESTART_FIRST_S = 1.0
RESTART_LAST_S = 30.0


class Supervisor:
    def __init__(self, cluster: LocalCluster, say: Say, *, restart: bool = True) -> None:
        self.cluster = cluster
        self._say = say
        self._restart = restart
        self._told_to_stop = False
        self._restarts: dict[int, float] = {}  # when to start a node that crashed
        self._backoff: dict[int, float] = {}

    def run(self, when_ready: Callable[[], None]) -> None:
        """From the start of the cluster until SIGTERM or Ctrl-C, whenever that comes."""
        before = {n: signal.signal(n, self._stop) for n in (signal.SIGTERM, signal.SIGINT)}
        try:
            self.cluster.start(unless=lambda: self._told_to_stop)
            for notice in self.cluster.notices:
                self._say(notice)
            if not self._told_to_stop:
                when_ready()
            while not self._told_to_stop:
                self._look(time.monotonic())
                if not self._restarts and all(node.process is None for node in self.cluster.nodes.values()):
                    raise ClusterError("no node is left that could be started again")
                time.sleep(LOOK_EVERY_S)
            self._say("stopping")
        finally:
            self.cluster.stop()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._told_to_stop = True

    def _look(self, now: float) -> None:
        for node in self.cluster.nodes.values():
            if node.id in self._restarts:
                if now >= self._restarts[node.id]:
                    del self._restarts[node.id]
                    self.cluster.start_node(node.id)
                    self._say(f"node {node.id} started again, pid {node.pid}")
            elif not node.running and node.process is not None:
                self._ended(node, now)

    def _ended(self, node: LocalNode, now: float) -> None:
        code = node.process.returncode if node.process is not None else 0
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        self._say(f"node {node.id} {how}; its log is {node.log}")
        if code == CANNOT_START:
            self._say(f"node {node.id} is not started again: {last_line(node.log)}")
            node.process = None
        elif self._restart:
            wait = self._backoff.get(node.id, RESTART_FIRST_S)
            self._backoff[node.id] = min(wait * 2, RESTART_LAST_S)
            self._restarts[node.id] = now + wait
        else:
            node.process = None
