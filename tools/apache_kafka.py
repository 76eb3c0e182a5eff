"""A local cluster of Apache Kafka's own servers, from the jars that `make apache-kafka` fetches.

    with ApacheCluster(brokers=3) as kafka:      # formatted, started and ready: every broker counts every other
        kafka.bootstrap; kafka.nodes[2].pid
        kafka.kill(2); kafka.start(2); kafka.wait_until_ready()

Settings and the JVM's options are those of Kafka's own start script. Set are only who a node is and what a cluster of
three needs, so that it keeps three copies of its internal topics. A server whose starter dies is killed with it.
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

from insync.server import node_query
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


class KafkaError(Exception):
    """Kafka is not here, or a server did not do what it was told."""


def unavailable() -> str | None:
    """Why no Kafka can be started here; None if it can."""
    if not (LIBS / ".complete").exists():
        return "Apache Kafka's jars are missing: make apache-kafka"
    if shutil.which("java") is None:
        return "there is no java on the path"
    return None


def available() -> bool:
    return unavailable() is None


def version() -> str:
    """Of the jars, from a jar's name."""
    return next((jar.stem.rsplit("-", 1)[1] for jar in LIBS.glob("kafka-clients-*.jar")), "")


def java(main_class: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
    """The command that runs one of Kafka's classes: a server, or a command-line tool."""
    problem = unavailable()
    if problem is not None:
        raise KafkaError(problem)
    return ["java", *options, "-cp", f"{LIBS}/*", main_class, *arguments]


@dataclass(slots=True)
class ApacheNode:
    id: int
    port: int
    controller_port: int
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
    def log(self) -> Path:
        return self.directory / "node.log"

    @property
    def properties(self) -> Path:
        return self.directory / "node.properties"


class ApacheCluster:
    """`brokers` nodes, each broker and controller. Without a `directory`, a temporary one is used and removed."""

    def __init__(
        self, brokers: int = 3, directory: str | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        problem = unavailable()
        if problem is not None:
            raise KafkaError(problem)
        self._settings = dict(settings or {})
        self._temporary = directory is None
        self.directory = Path(directory or tempfile.mkdtemp(prefix="apache-kafka-"))
        ports = _free_ports(2 * brokers)
        self.nodes = {
            i: ApacheNode(i, ports[i - 1], ports[brokers + i - 1], self.directory / f"node-{i}")
            for i in range(1, brokers + 1)
        }

    def __enter__(self) -> ApacheCluster:
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

    # --- the whole ---------------------------------------------------------------------------------------------------

    def format(self) -> None:
        """Write settings and storage of nodes that have none yet; all at once, for each is a JVM of its own."""
        fresh = [node for node in self.nodes.values() if not (node.directory / "data").exists()]
        cluster_id = new_cluster_id()
        for node in self.nodes.values():
            node.directory.mkdir(parents=True, exist_ok=True)
            node.properties.write_text(self._properties(node))
        running = [(node, self._format(node, cluster_id)) for node in fresh]
        for node, process in running:
            if process.wait() != 0:
                raise KafkaError(f"cannot format node {node.id}: {_tail(node.log)}")

    def start_all(self) -> None:
        """Returns at once; see `wait_until_ready`."""
        for node_id in self.nodes:
            self.start(node_id)

    def wait_until_ready(self, timeout_s: float = 120.0) -> None:
        """Every running broker counts every running broker as alive."""
        deadline = time.monotonic() + timeout_s
        running = [node for node in self.nodes.values() if node.running]
        for node in running:
            while not _sees(node, running):
                if time.monotonic() > deadline:
                    raise KafkaError(f"node {node.id} does not see all brokers after {timeout_s:.0f} s")
                time.sleep(POLL_S)

    def stop(self, timeout_s: float = 15.0) -> None:
        """SIGTERM to all, then SIGKILL: brokers that lost their quorum would wait for it for minutes."""
        deadline = time.monotonic() + timeout_s
        for node in self.nodes.values():
            _signal(node, signal.SIGTERM)
        while time.monotonic() < deadline and any(node.running for node in self.nodes.values()):
            time.sleep(POLL_S)
        for node_id in self.nodes:
            self.kill(node_id)
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    # --- one node ----------------------------------------------------------------------------------------------------

    def start(self, node_id: int) -> None:
        node = self.nodes[node_id]
        if not node.running:
            node.process = _spawn(node, java("kafka.Kafka", str(node.properties), options=(*HEAP, *JVM)))

    def kill(self, node_id: int) -> None:
        """As kill -9 does; the machine's page cache survives."""
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
                raise KafkaError(f"node {node_id} did not stop in {timeout_s:.0f} s") from None

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _format(self, node: ApacheNode, cluster_id: str) -> subprocess.Popen[bytes]:
        return _spawn(
            node, java("kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(node.properties))
        )

    def _properties(self, node: ApacheNode) -> str:
        copies = str(min(3, len(self.nodes)))
        enough = "2" if len(self.nodes) >= 3 else "1"
        values = {
            "node.id": str(node.id),
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{HOST}:{node.port},CONTROLLER://{HOST}:{node.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{node.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{n.id}@{HOST}:{n.controller_port}" for n in self.nodes.values()),
            "log.dirs": str(node.directory / "data"),
            "default.replication.factor": copies,
            "min.insync.replicas": enough,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": enough,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": enough,
            **self._settings,
        }
        return "".join(f"{key}={value}\n" for key, value in values.items())


def _spawn(node: ApacheNode, command: list[str]) -> subprocess.Popen[bytes]:
    leash = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    with open(node.log, "ab") as log:
        return subprocess.Popen(
            [*leash, *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")},
            start_new_session=True,
        )


def _sees(node: ApacheNode, others: list[ApacheNode]) -> bool:
    if not node.running:
        raise KafkaError(f"node {node.id} has ended: {_tail(node.log)}")
    try:
        return set(node_query.query_live_brokers(node.address)) >= {each.id for each in others}
    except node_query.NoAnswerError:
        return False


def _signal(node: ApacheNode, number: signal.Signals) -> None:
    if node.running and node.process is not None:
        node.process.send_signal(number)


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for sock in sockets:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((HOST, 0))
        return [sock.getsockname()[1] for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


def _tail(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return " / ".join(lines[-3:])
