"""A cluster of node processes on this machine, each with its own directory, properties file and log.

    with LocalCluster(brokers=3) as cluster:    # once these processes are registered and know each other
        cluster.kill(2); cluster.start_node(2)

`start` and `stop` do the same by hand.

A node's standard input is a pipe from this process: when the process that started the cluster dies, the pipe closes and
the node stops. The directory is locked from `start` to `stop`, and stores its nodes and which of them vote (B9).
"""

from __future__ import annotations

import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self
from uuid import UUID, uuid4

from insync.server import cluster_layout, incarnation, local_ports, node_query, ownership, sockets
from insync.server.cluster_layout import Layout, data_directory
from insync.server.directory_lock import DirectoryLock, DirectoryLockedError
from insync.server.local_ports import HOST, Reservations, format_address
from insync.server.startup_error import StartupError
from insync.server.storage_format import check_identity, format_directory, is_formatted, new_cluster_id

if TYPE_CHECKING:
    from insync.server.local_security import LocalSecurity

POLL_S = 0.01
MODULE = ("-m", "insync.server")
ORPHANS_TIMEOUT_S = 30.0
"""Nodes whose supervisor was killed stop by themselves; a new supervisor waits this long for their directories."""
PUBLIC_NAME = "localhost"
"""What clients are told if the nodes listen on all interfaces: ports of a container are usually published there."""


class ClusterError(Exception):
    """The cluster cannot be started, or a node did not start or stop."""


class PortTakenError(ClusterError):
    """Another process uses a port of the cluster."""

    def __init__(self, error: sockets.BindError, count: int) -> None:
        self.port = error.port
        self.problem = error.problem
        self.free_port = local_ports.suggest_first_port(count)
        super().__init__(f"{error.problem} Stop that process, or choose other ports, such as --port {self.free_port}.")


@dataclass(slots=True)
class NodeProcess:
    process: subprocess.Popen[bytes] | None = field(default=None, kw_only=True)

    @property
    def pid(self) -> int:
        return self.process.pid if self.process is not None else -1

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None


@dataclass(slots=True)
class LocalNode(NodeProcess):
    id: int
    roles: tuple[str, ...]
    port: int
    """For clients; the port of the controllers' listener for a node that is a controller only."""
    metrics_port: int
    directory: Path
    node_port: int = 0
    """Of the brokers' own listener, in a cluster that is secured or reached from other machines. Otherwise all use
    `port`."""
    controller_port: int = 0
    """In such a cluster: of the controllers' listener."""
    tls: ssl.SSLContext | None = None
    """How this process reaches the listener of the nodes; None: without TLS."""
    incarnation_id: UUID | None = None
    """The incarnation id of the last process that was started."""

    @property
    def address(self) -> tuple[str, int]:
        """For requests of this process: of the listener for nodes, if there is one."""
        return (HOST, self.node_port or self.controller_port or self.port)

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def log(self) -> Path:
        return self.directory / "node.log"


class LocalCluster:
    """Without a `directory`, the cluster uses a temporary one.

    `brokers` and `controllers`: None means as stored in the directory, else three brokers and no separate controllers;
    the first brokers then vote. If the directory has fewer brokers, new ones are added, which do not vote.

    `security`: the protocol of clients in lower case (sasl_ssl, ssl or sasl_plaintext), or None for a cluster without
    security, or as stored in the directory. `users`: the first users and their passwords, besides the admin.

    `port` and `metrics_port`: of the first node, the others follow; 0: any free ports; None: as stored in the
    directory, else 9092 and any free ports for metrics. `host`: the address on which clients are served.
    `advertised`: the host that clients connect to.
    """

    def __init__(
        self,
        *,
        brokers: int | None = None,
        controllers: int | None = None,
        directory: str | None = None,
        port: int | None = 0,
        metrics_port: int | None = 0,
        host: str = HOST,
        advertised: str | None = None,
        profile: str = "fast",
        settings: Mapping[str, str] | None = None,
        security: str | None = None,
        users: Mapping[str, str] | None = None,
    ) -> None:
        self.profile = profile
        self._settings = dict(settings or {})
        self._temporary = directory is None
        self.directory = Path(directory or tempfile.mkdtemp(prefix="insync-"))
        self.notices: list[str] = []
        """Repairs that `start` has made, for the operator."""
        self.host = host
        self.advertised = advertised or (PUBLIC_NAME if host in ("0.0.0.0", "::") else host)
        self._lock: DirectoryLock | None = None
        self._reservations = Reservations()
        self._fixed_ports: list[int] = []
        """Ports that were chosen by number, and are reserved when the cluster starts."""
        self._requested = (brokers, controllers)
        self._stored_layout: Layout | None = None
        self.nodes: dict[int, LocalNode] = {}
        try:
            self.layout = self._read_layout()
            self.security = self._read_security(security, users)
            self.nodes = self._plan_nodes(port, metrics_port)
        except ClusterError:
            self.stop()
            raise

    @property
    def bootstrap(self) -> str:
        return ",".join(format_address(self.advertised, node.port) for node in self.nodes.values() if node.is_broker)

    @property
    def is_temporary(self) -> bool:
        """Whether the data is removed when the cluster stops."""
        return self._temporary

    def describe(self) -> dict[str, object]:
        nodes = [
            {"id": n.id, "pid": n.pid, "roles": list(n.roles), "port": n.port, "metrics_port": n.metrics_port}
            for n in self.nodes.values()
        ]
        described: dict[str, object] = {"bootstrap": self.bootstrap, "nodes": nodes}
        if self.security is not None:
            described["security"] = self.security.describe()
        return described

    def client_settings(self, user: str, client: str = "java", password: str | None = None) -> dict[str, Any]:
        """How a user of a secured cluster connects, as settings of that client library."""
        if self.security is None:
            raise ClusterError("This cluster has no users: it was started without security.")
        try:
            return self.security.client_settings(user, self.bootstrap, client, password)
        except ValueError as error:
            raise ClusterError(str(error)) from None

    # --- the cluster -------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, timeout_s: float = 60.0, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        """Return when the cluster is ready, or as soon as `is_cancelled`; a cluster that fails to start is stopped."""
        try:
            self._take_ownership(is_cancelled)
        except (StartupError, OSError) as error:
            self.stop()
            if isinstance(error, sockets.BindError) and error.is_taken:
                raise PortTakenError(error, len(self.nodes)) from error
            raise ClusterError(str(error)) from error
        for node in self.nodes.values():
            self.start_node(node.id)
        try:
            self._wait_for(list(self.nodes.values()), timeout_s, is_cancelled)
        except ClusterError:
            self.stop()
            raise

    def wait_until_ready(self, timeout_s: float = 60.0) -> None:
        """Wait until every running node answers, is the process that was started here, and knows a controller, and
        every running broker knows the current incarnation of every running broker as unfenced."""
        self._wait_for([node for node in self.nodes.values() if node.is_running], timeout_s, lambda: False)

    def _wait_for(self, nodes: Sequence[LocalNode], timeout_s: float, is_cancelled: Callable[[], bool]) -> None:
        deadline = time.monotonic() + timeout_s
        for node in nodes:
            while not is_cancelled() and not self._is_ready(node):
                if time.monotonic() > deadline:
                    raise ClusterError(
                        f"Node {node.id} did not see all brokers alive in {timeout_s:g} s; see {node.log}."
                    )
                time.sleep(POLL_S)

    def stop(self, timeout_s: float = 15.0) -> None:
        self.stop_nodes(timeout_s)
        self._reservations.release()
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def stop_nodes(self, timeout_s: float = 15.0) -> None:
        """Stop brokers, then controllers. A node that gets a second SIGTERM no longer waits for the controller's
        permission (B7), which no controller can give once the quorum has lost its majority."""
        deadline = time.monotonic() + timeout_s
        brokers = self._brokers()
        _signal(brokers, signal.SIGTERM)
        while any(node.is_running for node in brokers) and self._has_quorum() and time.monotonic() < deadline:
            time.sleep(POLL_S)
        remaining = [node for node in self.nodes.values() if node.is_running]
        _signal(remaining, signal.SIGTERM)
        _wait(remaining, deadline)
        for node in remaining:
            self.kill(node.id)

    # --- one node ----------------------------------------------------------------------------------------------------

    def start_node(self, node_id: int) -> None:
        node = self.nodes[node_id]
        if node.is_running:
            return
        node.incarnation_id = uuid4()
        with open(node.log, "ab") as log:
            node.process = self._launch(node, log)

    def kill(self, node_id: int) -> None:
        """Like kill -9: the machine's page cache survives."""
        node = self.nodes[node_id]
        if node.process is not None:
            node.process.kill()
            node.process.wait()

    def stop_node(self, node_id: int, timeout_s: float = 30.0) -> None:
        """A controlled shutdown (B7)."""
        node = self.nodes[node_id]
        _signal([node], signal.SIGTERM)
        _wait([node], time.monotonic() + timeout_s)
        if node.is_running:
            raise ClusterError(f"Node {node_id} did not stop in {timeout_s:g} s.")

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _launch(self, node: LocalNode, log: IO[bytes]) -> subprocess.Popen[bytes]:
        return launch(MODULE, node, log, stdin=subprocess.PIPE, env={"INSYNC_SUPERVISED": "1"})

    def _brokers(self) -> list[LocalNode]:
        return [node for node in self.nodes.values() if node.is_broker and node.is_running]

    def _has_quorum(self) -> bool:
        voters = [node for node in self.nodes.values() if "controller" in node.roles]
        return sum(node.is_running for node in voters) > len(voters) // 2

    def _is_ready(self, node: LocalNode) -> bool:
        if not node.is_running:
            raise ClusterError(f"Node {node.id} has ended; see {node.log}: {last_line(node.log)}")
        try:
            state = node_query.query_node_state(node.address, node.id, tls=node.tls)
        except node_query.NoAnswerError:
            return False
        if (state["cluster_id"], state["incarnation_id"]) != (self.layout.cluster_id, str(node.incarnation_id)):
            raise ClusterError(
                f"Another process answers on {HOST}:{node.address[1]}, the address of node {node.id}: "
                f"node {state['node_id']} of cluster {state['cluster_id']}. Stop it, or use other ports."
            )
        if state["controller_id"] < 0:
            return False
        unfenced = state["unfenced"]
        return not node.is_broker or all(
            unfenced.get(str(broker.id)) == str(broker.incarnation_id) for broker in self._brokers()
        )

    # --- before the nodes start --------------------------------------------------------------------------------------

    def _read_layout(self) -> Layout:
        brokers, controllers = self._requested
        try:
            if self.directory.exists() and not self.directory.is_dir():
                raise StartupError(f"{self.directory} is not a directory. Name a directory for the cluster.")
            self._stored_layout = cluster_layout.load(self.directory)
            if self._stored_layout is None:
                return cluster_layout.create(new_cluster_id(), brokers, controllers)
            return cluster_layout.adapt(self._stored_layout, self.directory, brokers, controllers)
        except (StartupError, OSError) as error:
            raise ClusterError(str(error)) from error

    def _read_security(self, protocol: str | None, users: Mapping[str, str] | None) -> LocalSecurity | None:
        if protocol is None and users is None and not (self.directory / "security").exists():
            return None
        from insync.server.local_security import LocalSecurity  # imports a library for certificates

        try:
            return LocalSecurity.prepare(self.directory, protocol, users, has_data=self._stored_layout is not None)
        except StartupError as error:
            raise ClusterError(str(error)) from None

    def _plan_nodes(self, port: int | None, metrics_port: int | None) -> dict[int, LocalNode]:
        try:
            ports, metrics_ports = self._plan_ports(port, metrics_port)
        except StartupError as error:
            raise ClusterError(str(error)) from None
        planned = zip(self.layout.nodes, ports, metrics_ports, strict=True)
        self.layout = replace(
            self.layout, nodes=tuple(replace(node, port=port, metrics_port=metrics) for node, port, metrics in planned)
        )
        nodes = {
            node.id: LocalNode(node.id, node.roles, node.port, node.metrics_port, self.directory / f"node-{node.id}")
            for node in self.layout.nodes
        }
        if self._has_node_listeners:
            for node in nodes.values():
                node.node_port, node.controller_port = self._reservations.reserve_free(2, not_in=ports)
                if not node.is_broker:
                    node.node_port, node.controller_port = 0, node.port
                elif "controller" not in node.roles:
                    node.controller_port = 0
        return nodes

    @property
    def _has_node_listeners(self) -> bool:
        """Whether nodes use listeners of their own: the one for clients may advertise a name that nodes cannot use."""
        return self.security is not None or (self.host, self.advertised) != (HOST, HOST)

    def _plan_ports(self, port: int | None, metrics_port: int | None) -> tuple[list[int], list[int]]:
        nodes = self.layout.nodes
        count = len(nodes)
        if port == 0:
            ports = self._reservations.reserve_free(count, host=self.host)
        else:
            ports = local_ports.list_stored(nodes) if port is None else local_ports.list_consecutive(port, count)
            self._fixed_ports += ports
        if metrics_port:
            metrics_ports = local_ports.list_consecutive(metrics_port, count)
            if shared := set(ports) & set(metrics_ports):
                raise StartupError(f"Port {min(shared)} would be for clients and for metrics. Use other metrics ports.")
            self._fixed_ports += metrics_ports
            return ports, metrics_ports
        metrics_ports = []
        for node in nodes:
            stored = node.metrics_port if metrics_port is None and node.metrics_port not in ports else 0
            is_reserved = stored and self._reservations.reserve_if_free(self.host, stored)
            metrics_ports += [stored] if is_reserved else self._reservations.reserve_free(1, not_in=ports)
        return ports, metrics_ports

    def _take_ownership(self, is_cancelled: Callable[[], bool]) -> None:
        """B9: directories and ports are checked before anything is written, and written before a node starts."""
        if self.directory.is_dir():
            self._lock_directory()
        with ExitStack() as locks:
            self._lock_nodes(locks, is_cancelled)
            for port in self._fixed_ports:
                self._reservations.reserve(self.host, port)
            self.directory.mkdir(parents=True, exist_ok=True)
            self._lock_directory()
            self._check_nodes()
            self._write_nodes()

    def _lock_directory(self) -> None:
        if self._lock is None:
            self._lock = DirectoryLock(str(self.directory))
            if cluster_layout.load(self.directory) != self._stored_layout:
                raise StartupError(f"Another process has changed {self.directory}. Try again.")

    def _lock_nodes(self, locks: ExitStack, is_cancelled: Callable[[], bool]) -> None:
        """Nodes of a supervisor that was killed may still be stopping."""
        deadline = time.monotonic() + ORPHANS_TIMEOUT_S
        for node in self.nodes.values():
            data = data_directory(self.directory, node.id)
            while data.is_dir():
                try:
                    locks.enter_context(DirectoryLock(str(data)))
                    break
                except DirectoryLockedError:
                    if time.monotonic() > deadline or is_cancelled():
                        raise
                    time.sleep(POLL_S)

    def _check_nodes(self) -> None:
        """B9: every directory belongs to its node of this cluster and of this quorum, and none is a copy of another."""
        owners: dict[UUID, int] = {}
        for node in self.layout.nodes:
            data = str(data_directory(self.directory, node.id))
            if is_formatted(data):
                identity = check_identity(data, node.id, self.layout.cluster_id)
                ownership.check_voters(data, self.layout.voters)
                other = owners.setdefault(identity.directory_id, node.id)
                if other != node.id:
                    raise StartupError(
                        f"{data} has the directory.id of node {other}: one of the two directories is a copy of the "
                        "other. Remove the copy."
                    )

    def _write_nodes(self) -> None:
        """The layout is written before the nodes, with those that have been formatted: after a crash in between, no
        node looks like one that lost its data. Security comes before both: a stored cluster cannot get it later."""
        bootstrap = None
        if self.security is not None:
            self.security.write(list(self.nodes), self.bootstrap, hosts=(self.host, self.advertised))
            bootstrap = self.security.bootstrap_checkpoint()
            context = self.security.supervisor_context()
            for local in self.nodes.values():
                local.tls = context
        cluster_layout.save(self.directory, self.layout)
        for node in self.layout.nodes:
            data = data_directory(self.directory, node.id)
            data.parent.mkdir(exist_ok=True, mode=0o777 if self.security is None else 0o700)
            (data.parent / "node.properties").write_text(self._properties(self.nodes[node.id]))
            if is_formatted(str(data)):
                continue
            if node.formatted and node.is_voter:
                from insync.server import voter_change  # rarely needed, and imports much of a node

                source = voter_change.rebuild_voter(self.directory, self.layout, node.id)
                self.notices.append(f"{data} was empty; node {node.id} got the metadata log of node {source}")
            else:
                format_directory(str(data), cluster_id=self.layout.cluster_id, node_id=node.id, bootstrap=bootstrap)
                if node.formatted:
                    self.notices.append(f"{data} was empty; node {node.id} will fetch its replicas from the others")
        self.layout = self._stored_layout = self.layout.all_formatted()
        cluster_layout.save(self.directory, self.layout)

    def _properties(self, node: LocalNode) -> str:
        return "".join(f"{key}={value}\n" for key, value in self.node_settings(node).items())

    def node_settings(self, node: LocalNode) -> dict[str, str]:
        """The settings in the properties file of this node."""
        voters = ",".join(
            f"{n.id}@{HOST}:{n.controller_port or n.port}" for n in self.nodes.values() if "controller" in n.roles
        )
        brokers = sum(other.is_broker for other in self.nodes.values())
        return {
            "node.id": str(node.id),
            "process.roles": ",".join(node.roles),
            "listeners": ",".join(
                f"{name}://{format_address(host, port)}" for name, host, port in self._listeners(node)
            ),
            "controller.quorum.voters": voters,
            "log.dirs": str(node.directory / "data"),
            "default.replication.factor": str(min(3, brokers)),
            "min.insync.replicas": "2" if brokers >= 3 else "1",
            "insync.profile": self.profile,
            "insync.metrics.host": self.host,
            "insync.metrics.port": str(node.metrics_port),
            **self._listener_settings(node),
            **(self.security.node_settings(node.id) if self.security is not None else {}),
            **self._settings,
        }

    def _listeners(self, node: LocalNode) -> list[tuple[str, str, int]]:
        """Their names, hosts and ports."""
        if not self._has_node_listeners:
            return [("PLAINTEXT", HOST, node.port)]
        listeners = [("CLIENTS", self.host, node.port), ("NODES", HOST, node.node_port)] if node.is_broker else []
        return [*listeners, ("CONTROLLER", HOST, node.controller_port)] if node.controller_port else listeners

    def _listener_settings(self, node: LocalNode) -> dict[str, str]:
        if not self._has_node_listeners:
            return {}
        settings = {
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,NODES:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "NODES",
            "controller.listener.names": "CONTROLLER",
        }
        if node.is_broker:
            clients = format_address(self.advertised, node.port)
            settings["advertised.listeners"] = f"CLIENTS://{clients},NODES://{HOST}:{node.node_port}"
        return settings


def launch(
    command: Sequence[str], node: LocalNode, log: IO[bytes], *, stdin: int, env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *command, str(node.directory / "node.properties")],
        stdin=stdin,
        stdout=log,
        stderr=log,
        env={**_inherited_environment(), incarnation.VARIABLE: str(node.incarnation_id), **env},
        start_new_session=True,  # Ctrl-C in a terminal must reach the supervisor only, which stops the nodes in order
    )


def _inherited_environment() -> dict[str, str]:
    """This process's environment without PYTHONDONTWRITEBYTECODE: a node that cannot keep its bytecode compiles itself
    at every start, which doubles the time to start."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def _signal(nodes: list[LocalNode], number: signal.Signals) -> None:
    for node in nodes:
        if node.is_running and node.process is not None:
            node.process.send_signal(number)


def _wait(nodes: list[LocalNode], deadline: float) -> None:
    while any(node.is_running for node in nodes) and time.monotonic() < deadline:
        time.sleep(POLL_S)


def last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines()
    return lines[-1] if lines else ""
