"""A local cluster of Apache Kafka's own servers, from the jars that `make apache-kafka` fetches.

    with ApacheCluster(brokers=3) as kafka:      # formatted, started, and every broker knows the others as alive
        kafka.bootstrap; kafka.nodes[2].pid
        kafka.kill(2); kafka.start_node(2); kafka.wait_until_ready()

The JVM's options are those of Kafka's own start script. Kafka's defaults apply, except for ids, addresses and
directories, and for the replication of internal topics, which follows the size of the cluster. Servers die with the
process that started them.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from insync.server import node_query
from insync.server.local_cluster import NodeProcess
from insync.server.storage_format import new_cluster_id

LIBS = Path(__file__).resolve().parent.parent / "build" / "apache-kafka" / "libs"
HOST = "127.0.0.1"
POLL_S = 0.02
HEAP = ("-Xmx1G", "-Xms1G")
JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)

SMALL = {"group.initial.rebalance.delay.ms": "0", "num.io.threads": "2", "num.network.threads": "1"}
"""Settings for tests on small machines: few threads, and groups that do not wait for more members."""


class KafkaError(Exception):
    """Kafka cannot be started here, or a server failed or exceeded a timeout."""


def missing_requirement() -> str | None:
    """What is missing to start Kafka on this machine, and how to get it; None if it can be started."""
    if not (LIBS / ".complete").exists():
        return f"Apache Kafka's jars are missing in {LIBS}: run `make apache-kafka`"
    if shutil.which("java") is None:
        return "java is not on the PATH: install a Java runtime, on Debian default-jre-headless"
    return None


def is_available() -> bool:
    return missing_requirement() is None


def version() -> str:
    """The version of the jars."""
    return next((jar.stem.rsplit("-", 1)[1] for jar in LIBS.glob("kafka-clients-*.jar")), "")


def java(main_class: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
    """The command line that runs one of Kafka's classes: a server or a tool."""
    problem = missing_requirement()
    if problem is not None:
        raise KafkaError(problem)
    return ["java", *options, "-cp", f"{LIBS}/*", main_class, *arguments]


@dataclass(slots=True)
class ApacheNode(NodeProcess):
    id: int
    port: int
    controller_port: int
    directory: Path

    @property
    def address(self) -> tuple[str, int]:
        return (HOST, self.port)

    @property
    def log(self) -> Path:
        return self.directory / "node.log"

    @property
    def properties(self) -> Path:
        return self.directory / "node.properties"


class ApacheCluster:
    """`brokers` nodes, each of them broker and controller. Without `directory`, uses a temporary one and removes it.

    A subclass may override `node_settings`, and add `format_options` of Kafka's storage tool.
    """

    format_options: Sequence[str] = ()

    def __init__(
        self, brokers: int = 3, directory: str | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        problem = missing_requirement()
        if problem is not None:
            raise KafkaError(problem)
        self._settings = dict(settings or {})
        self._is_temporary = directory is None
        self.directory = Path(directory or tempfile.mkdtemp(prefix="apache-kafka-"))
        ports = free_ports(2 * brokers)
        self.nodes = {
            i: ApacheNode(i, ports[i - 1], ports[brokers + i - 1], self.directory / f"node-{i}")
            for i in range(1, brokers + 1)
        }

    def __enter__(self) -> Self:
        try:
            self.format()
            self.start_all()
            self.wait_until_ready()
        except BaseException:
            self.stop(timeout_s=0)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{node.port}" for node in self.nodes.values())

    # --- the cluster -------------------------------------------------------------------------------------------------

    def format(self) -> None:
        """Write the nodes' properties files, and format the storage of nodes that have none, at the same time."""
        unformatted = [node for node in self.nodes.values() if not (node.directory / "data").exists()]
        options = (f"--cluster-id={new_cluster_id()}", *self.format_options)
        for node in self.nodes.values():
            node.directory.mkdir(parents=True, exist_ok=True)
            node.properties.write_text("".join(f"{key}={value}\n" for key, value in self.node_settings(node).items()))
        processes = [
            (node, spawn(java("kafka.tools.StorageTool", "format", "-c", str(node.properties), *options), node.log))
            for node in unformatted
        ]
        for node, process in processes:
            if process.wait() != 0:
                raise KafkaError(f"cannot format node {node.id}: {_last_lines(node.log)}")

    def start_all(self) -> None:
        """Start the processes and return at once; see `wait_until_ready`."""
        for node_id in self.nodes:
            self.start_node(node_id)

    def wait_until_ready(self, timeout_s: float = 120.0) -> None:
        """Wait until every running broker knows all running brokers as alive."""
        deadline = time.monotonic() + timeout_s
        running = [node for node in self.nodes.values() if node.is_running]
        for node in running:
            while not _knows(node, running):
                if time.monotonic() > deadline:
                    raise KafkaError(
                        f"node {node.id} does not know all brokers after {timeout_s:.0f} s; see {node.log}"
                    )
                time.sleep(POLL_S)

    def stop(self, timeout_s: float = 15.0) -> None:
        """SIGTERM to all nodes, then SIGKILL: brokers that have lost their quorum would wait for it for minutes."""
        deadline = time.monotonic() + timeout_s
        for node in self.nodes.values():
            _signal(node, signal.SIGTERM)
        while time.monotonic() < deadline and any(node.is_running for node in self.nodes.values()):
            time.sleep(POLL_S)
        for node_id in self.nodes:
            self.kill(node_id)
        if self._is_temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    # --- one node ----------------------------------------------------------------------------------------------------

    def start_node(self, node_id: int) -> None:
        """Start a node that is not running, and return at once."""
        node = self.nodes[node_id]
        if not node.is_running:
            node.process = spawn(java("kafka.Kafka", str(node.properties), options=(*HEAP, *JVM)), node.log)

    def kill(self, node_id: int) -> None:
        """kill -9: the operating system keeps what the node has written."""
        node = self.nodes[node_id]
        if node.process is not None:
            node.process.kill()
            node.process.wait()

    def stop_node(self, node_id: int, timeout_s: float = 60.0) -> None:
        """A controlled shutdown."""
        node = self.nodes[node_id]
        _signal(node, signal.SIGTERM)
        if node.process is not None:
            try:
                node.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                raise KafkaError(f"node {node_id} has not stopped after {timeout_s:.0f} s; see {node.log}") from None

    def node_settings(self, node: ApacheNode) -> dict[str, str]:
        """The node's properties; settings of the caller override the others."""
        replicas = str(min(3, len(self.nodes)))
        min_isr = "2" if len(self.nodes) >= 3 else "1"
        return {
            "node.id": str(node.id),
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{HOST}:{node.port},CONTROLLER://{HOST}:{node.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{node.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{n.id}@{HOST}:{n.controller_port}" for n in self.nodes.values()),
            "log.dirs": str(node.directory / "data"),
            "default.replication.factor": replicas,
            "min.insync.replicas": min_isr,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": min_isr,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": min_isr,
            **self._settings,
        }


def spawn(command: list[str], log_file: Path) -> subprocess.Popen[bytes]:
    """A process that is killed if this one dies."""
    die_with_parent = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    with open(log_file, "ab") as log:
        return subprocess.Popen(
            [*die_with_parent, *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")},
            start_new_session=True,
        )


def _knows(node: ApacheNode, brokers: list[ApacheNode]) -> bool:
    if not node.is_running:
        raise KafkaError(f"node {node.id} has ended: {_last_lines(node.log)}")
    try:
        return set(node_query.query_live_brokers(node.address)) >= {broker.id for broker in brokers}
    except node_query.NoAnswerError:
        return False


def _signal(node: ApacheNode, number: signal.Signals) -> None:
    if node.is_running and node.process is not None:
        node.process.send_signal(number)


def free_ports(count: int) -> list[int]:
    """Different ports that are free now; another process may take one before it is used."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for sock in sockets:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((HOST, 0))
        return [sock.getsockname()[1] for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


def _last_lines(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return " / ".join(lines[-3:])
