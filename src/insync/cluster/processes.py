"""A local cluster whose nodes run `insync.cluster.node` and receive their faults through a socket pair.

Each node has one end of the pair as its standard input. Faults are sent as lines, and each is acknowledged with its
number once it is in force. As with any supervised node, the end of the stream means that the supervisor has died.
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
APPLY_TIMEOUT_S = 30.0
"""A node applies faults within a millisecond, or later on a machine that stalls."""
POLL_S = 0.1


class ControlledCluster(LocalCluster):
    """`faults[id]` are the faults last sent to a node, and those it begins with when it starts."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.faults = dict.fromkeys(self.nodes, Faults())
        self._controls: dict[int, Control] = {}

    def impose(self, node_id: int, faults: Faults) -> None:
        """Send faults to a node; `wait_until_applied` waits until they are in force."""
        self.faults[node_id] = faults
        if self.nodes[node_id].is_running:
            self._controls[node_id].send(faults)

    def wait_until_applied(self, node_id: int) -> None:
        """Returns when the node has applied the faults sent to it, or has exited."""
        node, deadline = self.nodes[node_id], time.monotonic() + APPLY_TIMEOUT_S
        while node.is_running and not self._controls[node_id].poll_applied():
            if time.monotonic() > deadline:
                raise ClusterError(f"node {node_id} did not apply its faults in {APPLY_TIMEOUT_S:g} s; see {node.log}")

    def stop(self, timeout_s: float = 15.0) -> None:
        super().stop(timeout_s)
        for control in self._controls.values():
            control.close()

    def lose_unflushed(self, node_id: int) -> dict[str, int]:
        """What a power cut does to a node that is down; returns the number of lost bytes by file."""
        directory = self.nodes[node_id].directory
        with DirectoryLock(str(directory / "data")):
            return power_loss.lose_unflushed(directory / "data", directory / JOURNAL)

    def _launch(self, node: LocalNode, log: IO[bytes]) -> subprocess.Popen[bytes]:
        ours, theirs = socket.socketpair()
        with theirs:
            previous = self._controls.get(node.id)
            if previous is not None:
                previous.close()
            self._controls[node.id] = Control(ours)
            self._controls[node.id].send(self.faults[node.id])
            return launch(MODULE, node, log, stdin=theirs.fileno(), env={})


class Control:
    """The supervisor's end of the socket pair of one process."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sock.settimeout(POLL_S)
        self._sent = 0
        self._received = b""
        self._applied = 0

    def send(self, faults: Faults) -> None:
        self._sent += 1
        try:
            self._sock.sendall(to_line(self._sent, faults))
        except ConnectionError:
            return  # the process has just exited

    def poll_applied(self) -> bool:
        """Whether everything sent is applied; waits for at most `POLL_S`."""
        if self._applied < self._sent:
            try:
                self._received += self._sock.recv(4_096)
            except (TimeoutError, ConnectionError):
                return False
            *numbers, self._received = self._received.split(b"\n")
            self._applied = max([self._applied, *map(int, numbers)])
        return self._applied == self._sent

    def close(self) -> None:
        self._sock.close()
