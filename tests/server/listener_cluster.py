"""A cluster whose nodes have several listeners. Tests and the supervisor use PLAINTEXT; the others are the test's."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from insync.server.local_cluster import LocalCluster, LocalNode
from insync.server.local_ports import HOST

CONTROLLER = "CONTROLLER"
_ESTABLISHED = "01"
"""In the kernel's table of connections."""


class ListenerCluster(LocalCluster):
    """`listeners`: by name its security protocol. One called CONTROLLER is the controllers'.

    `settings_of` adds settings to a node's file.
    """

    def __init__(
        self,
        listeners: Mapping[str, str],
        *,
        settings: Mapping[str, str] | None = None,
        settings_of: Callable[[int], Mapping[str, str]] = lambda node_id: {},
        brokers: int = 3,
        directory: str | None = None,
    ) -> None:
        super().__init__(brokers=brokers, settings=settings, directory=directory)
        self.listeners = {"PLAINTEXT": "PLAINTEXT", **listeners}
        self.settings_of = settings_of
        self.ports: dict[str, dict[int, int]] = {"PLAINTEXT": {node.id: node.port for node in self.nodes.values()}}
        for name in listeners:
            self.ports[name] = dict(zip(self.nodes, self._reservations.reserve_free(len(self.nodes)), strict=True))

    def bootstrap_of(self, listener: str) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports[listener].values())

    def connected_ports(self, node_id: int) -> set[int]:
        """The remote ports of this node's connections: those of listeners, where it has connected to others."""
        inodes = [target[8:-1] for target in _open_files(self.nodes[node_id].pid) if target.startswith("socket:[")]
        with open("/proc/net/tcp") as table:
            rows = [line.split() for line in table][1:]
        return {int(row[2].rpartition(":")[2], 16) for row in rows if row[9] in inodes and row[3] == _ESTABLISHED}

    def node_settings(self, node: LocalNode) -> dict[str, str]:
        settings = super().node_settings(node)
        listeners = [f"{name}://{HOST}:{self.ports[name][node.id]}" for name in self.listeners]
        settings["listeners"] = ",".join(listeners)
        settings["listener.security.protocol.map"] = ",".join(
            f"{name}:{protocol}" for name, protocol in self.listeners.items()
        )
        if CONTROLLER in self.listeners:
            voters = [other.id for other in self.nodes.values() if "controller" in other.roles]
            settings["controller.listener.names"] = CONTROLLER
            settings["controller.quorum.voters"] = ",".join(
                f"{voter}@{HOST}:{self.ports[CONTROLLER][voter]}" for voter in voters
            )
        return {**settings, **self.settings_of(node.id)}


def _open_files(pid: int) -> list[str]:
    targets = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):
            targets.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    return targets
