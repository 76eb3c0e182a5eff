"""The local cluster, its nodes started through `insync.cluster.node` and told of their faults.

A node's standard input is one end of a socket pair: faults go in as lines, each answered with its number once it is in
force. As with any supervised node, the end of that stream means that whoever started it has died.
"""

from __future__ import annotations

import socket
import subprocess
import time
from typing import IO, Any

from insync.cluster import power_loss
from insync.cluster.disk import JOURNAL
from insync.cluster.faults import Faults, to_line
from insync.server.directory_lock import DirectoryLock
from insync.server.local_cluster import ClusterError, LocalCluster, LocalNode, launch

MODULE = ("-m", "insync.cluster.node")
OBEY_S = 30.0
"""A node obeys in a millisecond; on a machine that stalls, later."""
LOOK_S = 0.1


class ControlledCluster(LocalCluster):
    """`faults[id]` is what the node was last told, and what it is told first when it starts."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.faults = dict.fromkeys(self.nodes, Faults())
        self._controls: dict[int, Control] = {}

    def impose(self, node_id: int, faults: Faults) -> None:
        """A node that is down begins with them; one that is up has heard of them, see `obeyed`."""
        self.faults[node_id] = faults
        if self.nodes[node_id].running:
            self._controls[node_id].tell(faults)

    def obeyed(self, node_id: int) -> None:
        """Returns when the node acts on what it was told, or has ended."""
        node, deadline = self.nodes[node_id], time.monotonic() + OBEY_S
        while node.running and not self._controls[node_id].obeyed():
            if time.monotonic() > deadline:
                raise ClusterError(f"node {node_id} does not react any more; see {node.log}")

    def stop(self, patience_s: float = 15.0) -> None:
        super().stop(patience_s)
        for control in self._controls.values():
            control.close()

    def lose_unflushed(self, node_id: int) -> dict[str, int]:
        """Of a node that is down; by file how many bytes were lost."""
        directory = self.nodes[node_id].directory
        with DirectoryLock(str(directory / "data")):
            return power_loss.lose_unflushed(directory / "data", directory / JOURNAL)

    def _launch(self, node: LocalNode, log: IO[bytes]) -> subprocess.Popen[bytes]:
        ours, theirs = socket.socketpair()
        with theirs:
            before = self._controls.get(node.id)
            if before is not None:
                before.close()
            self._controls[node.id] = Control(ours)
            self._controls[node.id].tell(self.faults[node.id])
            return launch(MODULE, node, log, stdin=theirs.fileno(), env={})


class Control:
    """This end of the line to one process."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sock.settimeout(LOOK_S)
        self._told = 0
        self._heard = b""
        self._obeyed = 0

    def tell(self, faults: Faults) -> None:
        self._told += 1
        try:
            self._sock.sendall(to_line(self._told, faults))
        except ConnectionError:
            return  # it has just ended

    def obeyed(self) -> bool:
        """Looks for a moment."""
        if self._obeyed < self._told:
            try:
                self._heard += self._sock.recv(4_096)
            except (TimeoutError, ConnectionError):
                return False
            *numbers, self._heard = self._heard.split(b"\n")
            self._obeyed = max([self._obeyed, *map(int, numbers)])
        return self._obeyed == self._told

    def close(self) -> None:
        self._sock.close()
