"""A cluster of real processes on this machine, each with its own directory, properties file and log.

    cluster = LocalCluster(brokers=3)
    cluster.start()              # returns once every broker counts every other as alive
    cluster.kill(2); cluster.start_node(2)
    cluster.stop()

A node's standard input is a pipe from here: when whoever started the cluster dies, its end closes and the node stops.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from insync.server import ask
from insync.server.storage_format import format_directory, new_cluster_id

HOST = "127.0.0.1"
POLL_S = 0.01
MODULE = ("-m", "insync.server")
VOTERS = 3
"""How many of the brokers also vote when there are no controllers of their own."""


class ClusterError(Exception):
    """A node did not come up, or did not go down."""


@dataclass(slots=True)
class LocalNode:
    id: int
    roles: tuple[str, ...]
    port: int
    metrics_port: int
    directory: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self.process.pid if self.process is not None else -1

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def address(self) -> tuple[str, int]:
        return (HOST, self.port)

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def log(self) -> Path:
        return self.directory / "node.log"


class LocalCluster:
    """Without `controllers` of their own, the first brokers vote. Without a `directory`, a temporary one is used."""

    def __init__(
        self,
        *,
        brokers: int = 3,
        controllers: int = 0,
        directory: str | None = None,
        port: int = 0,
        profile: str = "fast",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.profile = profile
        self._settings = dict(settings or {})
        self._temporary = directory is None
        self.directory = Path(directory or tempfile.mkdtemp(prefix="insync-"))
        self.directory.mkdir(parents=True, exist_ok=True)
        self._reserved: list[socket.socket] = []
        self.nodes = self._layout(brokers, controllers, port)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{node.port}" for node in self.nodes.values() if node.is_broker)

    def describe(self) -> dict[str, object]:
        nodes = [
            {"id": n.id, "pid": n.pid, "roles": list(n.roles), "port": n.port, "metrics_port": n.metrics_port}
            for n in self.nodes.values()
        ]
        return {"bootstrap": self.bootstrap, "nodes": nodes}

    # --- the whole ---------------------------------------------------------------------------------------------------

    def start(self, timeout_s: float = 60.0, unless: Callable[[], bool] = lambda: False) -> None:
        """Returns when the cluster is ready, or as soon as `unless` says so; a cluster that fails is stopped."""
        self._format()
        for node in self.nodes.values():
            self.start_node(node.id)
        try:
            self.wait_until_ready(timeout_s, unless)
        except ClusterError:
            self.stop()
            raise

    def wait_until_ready(self, timeout_s: float = 60.0, unless: Callable[[], bool] = lambda: False) -> None:
        """Every running broker counts every running broker as alive."""
        deadline = time.monotonic() + timeout_s
        for node in self._brokers():
            while not unless() and not self._sees_all(node):
                if time.monotonic() > deadline:
                    raise ClusterError(f"node {node.id} does not see all brokers; see {node.log}")
                time.sleep(POLL_S)

    def stop(self, patience_s: float = 15.0) -> None:
        """Brokers, then controllers. A node that is told twice no longer waits for leave to go (B7): nobody is left to
        give it once the quorum has lost its majority."""
        deadline = time.monotonic() + patience_s
        brokers = self._brokers()
        _signal(brokers, signal.SIGTERM)
        while any(node.running for node in brokers) and self._has_quorum() and time.monotonic() < deadline:
            time.sleep(POLL_S)
        rest = [node for node in self.nodes.values() if node.running]
        _signal(rest, signal.SIGTERM)
        _wait(rest, deadline)
        for node in rest:
            self.kill(node.id)
        while self._reserved:
            self._reserved.pop().close()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    # --- one node ----------------------------------------------------------------------------------------------------

    def start_node(self, node_id: int) -> None:
        node = self.nodes[node_id]
        if node.running:
            return
        with open(node.log, "ab") as log:
            node.process = self._launch(node, log)

    def kill(self, node_id: int) -> None:
        """As kill -9 does; the machine's page cache survives."""
        node = self.nodes[node_id]
        if node.process is not None:
            node.process.kill()
            node.process.wait()

    def stop_node(self, node_id: int, timeout_s: float = 30.0) -> None:
        """A controlled shutdown (B7)."""
        node = self.nodes[node_id]
        _signal([node], signal.SIGTERM)
        _wait([node], time.monotonic() + timeout_s)
        if node.running:
            raise ClusterError(f"node {node_id} did not stop in {timeout_s} s")

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _launch(self, node: LocalNode, log: IO[bytes]) -> subprocess.Popen[bytes]:
        return launch(MODULE, node, log, stdin=subprocess.PIPE, env={"INSYNC_SUPERVISED": "1"})

    def _brokers(self) -> list[LocalNode]:
        return [node for node in self.nodes.values() if node.is_broker and node.running]

    def _has_quorum(self) -> bool:
        voters = [node for node in self.nodes.values() if "controller" in node.roles]
        return sum(node.running for node in voters) > len(voters) // 2

    def _sees_all(self, node: LocalNode) -> bool:
        if not node.running:
            raise ClusterError(f"node {node.id} has ended; see {node.log}: {_last_line(node.log)}")
        try:
            return set(ask.live_brokers(node.address)) >= {each.id for each in self._brokers()}
        except ask.NoAnswer:
            return False

    def _layout(self, brokers: int, controllers: int, port: int) -> dict[int, LocalNode]:
        count = brokers + controllers
        ports = [port + i for i in range(count)] if port else self._reserve_ports(count)
        metrics_ports = self._reserve_ports(count)
        nodes = {}
        for i in range(count):
            broker = i < brokers
            votes = i >= brokers if controllers else i < VOTERS
            roles = (("broker",) if broker else ()) + (("controller",) if votes else ())
            nodes[i + 1] = LocalNode(i + 1, roles, ports[i], metrics_ports[i], self.directory / f"node-{i + 1}")
        return nodes

    def _reserve_ports(self, count: int) -> list[int]:
        """Free ones, which stay ours while a node is down: else any client's connection might be given one of them.

        A socket that is bound and does not listen keeps others away, but not a node, which says that it shares."""
        sockets = [socket.socket() for _ in range(count)]
        self._reserved += sockets
        for sock in sockets:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((HOST, 0))
        return [sock.getsockname()[1] for sock in sockets]

    def _format(self) -> None:
        about = self.directory / "cluster.json"
        cluster_id = json.loads(about.read_text())["cluster_id"] if about.exists() else new_cluster_id()
        about.write_text(json.dumps({"cluster_id": cluster_id}))
        for node in self.nodes.values():
            node.directory.mkdir(exist_ok=True)
            (node.directory / "node.properties").write_text(self._properties(node))
            if not (node.directory / "data" / "meta.properties").exists():
                format_directory(str(node.directory / "data"), cluster_id=cluster_id, node_id=node.id)

    def _properties(self, node: LocalNode) -> str:
        voters = ",".join(f"{n.id}@{HOST}:{n.port}" for n in self.nodes.values() if "controller" in n.roles)
        brokers = sum(each.is_broker for each in self.nodes.values())
        values = {
            "node.id": str(node.id),
            "process.roles": ",".join(node.roles),
            "listeners": f"PLAINTEXT://{HOST}:{node.port}",
            "controller.quorum.voters": voters,
            "log.dirs": str(node.directory / "data"),
            "default.replication.factor": str(min(3, brokers)),
            "min.insync.replicas": "2" if brokers >= 3 else "1",
            "insync.profile": self.profile,
            "insync.metrics.port": str(node.metrics_port),
            **self._settings,
        }
        return "".join(f"{key}={value}\n" for key, value in values.items())


def launch(
    command: Sequence[str], node: LocalNode, log: IO[bytes], *, stdin: int, env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *command, str(node.directory / "node.properties")],
        stdin=stdin,
        stdout=log,
        stderr=log,
        env={**_inherited(), **env},
        start_new_session=True,  # Ctrl-C in a terminal is for the supervisor, which stops the nodes in its way
    )


def _inherited() -> dict[str, str]:
    """This process's environment, but for one thing: a node that may not keep its bytecode compiles itself at every
    start, which doubles the time that takes."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def _signal(nodes: list[LocalNode], number: signal.Signals) -> None:
    for node in nodes:
        if node.running and node.process is not None:
            node.process.send_signal(number)


def _wait(nodes: list[LocalNode], deadline: float) -> None:
    while any(node.running for node in nodes) and time.monotonic() < deadline:
        time.sleep(POLL_S)


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines()
    return lines[-1] if lines else ""
