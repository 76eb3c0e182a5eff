"""The ports of a local cluster: which ones its nodes get, and sockets that reserve them.

A new cluster uses 9092 and the following ports, unless others are asked for. `cluster.json` stores the ports, so that
the addresses of a cluster stay the same over restarts.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

from insync.server import sockets
from insync.server.cluster_layout import NodeLayout
from insync.server.startup_error import StartupError

HOST = "127.0.0.1"
DEFAULT_PORT = 9092
MAX_PORT = 65_535
SUGGESTED_PORTS = range(9192, 65_000, 100)


class PortRangeError(StartupError):
    """There are not enough ports after the first one."""


class Reservations:
    """Ports that are bound here, also while a node is down: else any client's connection might get one of them.

    A bound socket that does not listen keeps the port from others, but not from a node, which sets SO_REUSEADDR."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def reserve(self, host: str, port: int) -> None:
        """`sockets.BindError` if another process uses the port."""
        self._sockets.append(sockets.bind(host, port))

    def reserve_free(self, count: int, *, host: str = HOST, not_in: Sequence[int] = ()) -> list[int]:
        """Ports that the system chooses."""
        ports: list[int] = []
        while len(ports) < count:
            sock = sockets.bind(host, 0)
            self._sockets.append(sock)
            port = sock.getsockname()[1]
            if port not in not_in:
                ports.append(port)
        return ports

    def reserve_if_free(self, host: str, port: int) -> bool:
        try:
            self.reserve(host, port)
        except sockets.BindError:
            return False
        return True

    def release(self) -> None:
        while self._sockets:
            self._sockets.pop().close()


def list_consecutive(first: int, count: int) -> list[int]:
    if first + count - 1 > MAX_PORT:
        raise PortRangeError(
            f"{count} nodes need {count} ports from {first} on; the highest port is {MAX_PORT}. Use a lower one."
        )
    return [first + i for i in range(count)]


def list_stored(nodes: Sequence[NodeLayout]) -> list[int]:
    """The ports of a cluster that was started before, with free ones for added nodes; those of a new cluster."""
    used = {node.port for node in nodes if node.port}
    if not used:
        return list_consecutive(DEFAULT_PORT, len(nodes))
    ports = []
    for node in nodes:
        port = node.port or next(port for port in range(max(used) + 1, MAX_PORT + 1) if is_free(HOST, port))
        used.add(port)
        ports.append(port)
    return ports


def suggest_first_port(count: int) -> int:
    """The first of as many ports as are free now; 0, which means any free ports, if there are none."""
    for first in SUGGESTED_PORTS:
        if all(is_free(HOST, first + i) for i in range(count)):
            return first
    return 0


def is_free(host: str, port: int) -> bool:
    try:
        sockets.bind(host, port).close()
    except sockets.BindError:
        return False
    return True


def format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
