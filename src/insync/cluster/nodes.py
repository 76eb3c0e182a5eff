"""The processes of a cluster, ended, started, put to sleep and woken one by one."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from insync.cluster import queries
from insync.cluster.processes import ControlledCluster
from insync.server.local_cluster import ClusterError, LocalNode

T = TypeVar("T")

PATIENCE_S = 60.0
"""Of every wait whose caller names no other: only a defect, or a fault that was not mended, takes this long."""
POLL_S = 0.01


class Nodes:
    def __init__(self, processes: ControlledCluster) -> None:
        self._processes = processes
        self._paused: dict[int, None] = {}

    @property
    def nodes(self) -> Mapping[int, LocalNode]:
        """By id; a node has `port`, `roles`, `pid` and `running`."""
        return MappingProxyType(self._processes.nodes)

    def log_of(self, node: int) -> Path:
        """The file with what this node has logged, over all its restarts."""
        return self._node(node).log

    def last_lines_of(self, node: int, count: int = 20) -> str:
        """The end of that file; nothing if the cluster has ended."""
        log = self.log_of(node)
        return "\n".join(log.read_text(errors="replace").splitlines()[-count:]) if log.exists() else ""

    def kill(self, node: int) -> None:
        """kill -9: the process is gone at once; what it has written is in the machine's page cache and stays."""
        self._running(node)
        self._processes.kill(node)
        self._paused.pop(node, None)

    def stop(self, node: int, timeout_s: float = PATIENCE_S) -> None:
        """A controlled shutdown, as SIGTERM does it: the node hands its leaderships over, then goes."""
        self._awake(node)
        self._processes.stop_node(node, timeout_s)

    def stop_all(self) -> None:
        """Every node in an orderly way. `mend` starts them again."""
        for node in list(self._paused):
            self.resume(node)
        self._processes.stop_nodes()

    def start(self, node: int, timeout_s: float = PATIENCE_S, *, wait: bool = True) -> None:
        """Returns when the node answers clients, if it is to `wait`; `wait_for_isr` tells when it has caught up.

        Without a majority of the voters no node answers: start the first of them without waiting.
        """
        found = self._node(node)
        if found.running:
            raise ClusterError(f"node {node} is running already: kill({node}) or stop({node}) ends it")
        self._processes.start_node(node)
        if wait:
            self._until(lambda: self._answers(found), f"node {node} answers", timeout_s)

    def wait_until_ended(self, node: int, timeout_s: float = PATIENCE_S) -> None:
        """Until the process has ended by itself, as after `fill_disk`."""
        found = self._node(node)
        self._until(lambda: not found.running, f"node {node} has ended", timeout_s)

    def restart(self, node: int, timeout_s: float = PATIENCE_S) -> None:
        """`stop`, then `start`."""
        self.stop(node, timeout_s)
        self.start(node, timeout_s)

    def pause(self, node: int) -> None:
        """SIGSTOP: the process sleeps, its connections stay open, and its clock goes on."""
        self._awake(node)
        self._signal(node, signal.SIGSTOP)
        self._paused[node] = None

    def resume(self, node: int) -> None:
        self._running(node)
        if node not in self._paused:
            raise ClusterError(f"node {node} is not paused: pause({node}) comes first")
        self._signal(node, signal.SIGCONT)
        del self._paused[node]
        self._processes.obeyed(node)

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _node(self, node: int) -> LocalNode:
        found = self.nodes.get(node)
        if found is None:
            raise ClusterError(f"there is no node {node!r}: this cluster has the nodes {listed(self.nodes)}")
        return found

    def _running(self, node: int) -> LocalNode:
        found = self._node(node)
        if not found.running:
            raise ClusterError(f"node {node} is not running: start({node}) first")
        return found

    def _awake(self, node: int) -> LocalNode:
        found = self._running(node)
        if node in self._paused:
            raise ClusterError(f"node {node} is paused: resume({node}) first")
        return found

    def _signal(self, node: int, number: signal.Signals) -> None:
        process = self.nodes[node].process
        if process is not None:
            process.send_signal(number)

    def _answers(self, node: LocalNode) -> bool:
        if not node.running:
            raise ClusterError(f"node {node.id} has ended; its last words: {self.last_lines_of(node.id, 1)}")
        return queries.answers(node)

    def _until(self, condition: Callable[[], T | None], what: str, timeout_s: float) -> T:
        """The first true value of `condition`."""
        deadline = time.monotonic() + timeout_s
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise ClusterError(f"still not, after {timeout_s:g} s: {what}")
            time.sleep(POLL_S)
        return found


def listed(ids: Iterable[int]) -> str:
    return ", ".join(str(each) for each in sorted(ids))
