"""The two clusters to compare, with one interface: three nodes, each broker and controller, on this machine.

Storage is formatted before the clock starts. Only one side's processes run at a time.

A secured cluster has SASL_SSL with SCRAM-SHA-512 for clients, TLS with certificates of both ends between its nodes, and
the StandardAuthorizer. Both sides get their certificates, users and settings from the same code.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cluster_clients as clients
from cluster_results import INSYNC, KAFKA
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from insync.server.cluster_layout import ADMIN
from insync.server.listeners import SecurityProtocol
from insync.server.local_cluster import LocalCluster
from insync.server.local_security import MECHANISM, LocalSecurity

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import apache_kafka
from apache_kafka import ApacheCluster, ApacheNode, KafkaError

BROKERS = 3
PAGE = os.sysconf("SC_PAGE_SIZE")
TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")
STOP_TIMEOUT_S = 60.0
USER = "alice"
USERS = {ADMIN: "admin-secret", USER: "alice-secret"}


class Side:
    """One cluster; `name` is the column of its figures."""

    def __init__(self, name: str, cluster: LocalCluster | ApacheCluster) -> None:
        self.name = name
        self.cluster = cluster

    @property
    def security(self) -> LocalSecurity | None:
        return self.cluster.security if isinstance(self.cluster, LocalCluster | SecuredApacheCluster) else None

    @property
    def bootstrap(self) -> clients.Bootstrap:
        """How a client connects; in a secured cluster, as the user that may use all topics."""
        if self.security is None:
            return self.cluster.bootstrap
        return self.security.client_settings(USER, self.cluster.bootstrap, "librdkafka")

    def launch(self) -> None:
        """Start the processes; returns at once."""
        if isinstance(self.cluster, ApacheCluster):
            self.cluster.start_all()
        else:
            self.cluster.start(is_cancelled=lambda: True)

    def wait_until_ready(self) -> None:
        self.cluster.wait_until_ready(timeout_s=180)

    def shut_down(self) -> None:
        """Stop all nodes at once, as cleanly as is possible while the quorum loses its majority."""
        self.cluster.stop(timeout_s=STOP_TIMEOUT_S)

    def kill(self, node_id: int) -> None:
        self.cluster.kill(node_id)

    def start_node(self, node_id: int) -> None:
        self.cluster.start_node(node_id)

    def address(self, node_id: int) -> tuple[str, int]:
        """For clients."""
        return (apache_kafka.HOST, self.cluster.nodes[node_id].port)

    def resident_mb(self) -> list[float]:
        """Resident memory per node."""
        return [_resident_mb(node.pid) for node in self.cluster.nodes.values()]

    def cpu_us(self) -> dict[int, float]:
        """CPU time of each node since its start, in user and kernel mode."""
        return {node.id: _cpu_us(node.pid) for node in self.cluster.nodes.values()}


class SecuredApacheCluster(ApacheCluster):
    """Secured as a local cluster of insync is."""

    format_options = tuple(f"--add-scram={MECHANISM}=[name={user},password={USERS[user]}]" for user in USERS)

    def __init__(self, brokers: int, directory: str) -> None:
        super().__init__(brokers, directory)
        self.security = LocalSecurity(self.directory, SecurityProtocol.SASL_SSL, USERS)
        self._node_ports = dict(zip(self.nodes, apache_kafka.free_ports(brokers), strict=True))

    def format(self) -> None:
        self.security.write(list(self.nodes), self.bootstrap)
        super().format()

    def wait_until_ready(self, timeout_s: float = 120.0) -> None:
        admin = AdminClient(clients.settings(self.security.client_settings(ADMIN, self.bootstrap, "librdkafka")))
        deadline = time.monotonic() + timeout_s
        while not self._knows_all(admin):
            if time.monotonic() > deadline:
                raise KafkaError(f"the brokers do not know each other after {timeout_s:.0f} s")
            time.sleep(apache_kafka.POLL_S)
        acls = [_permission(kind) for kind in (ResourceType.TOPIC, ResourceType.GROUP)]
        for created in admin.create_acls(acls).values():
            created.result()

    def _knows_all(self, admin: AdminClient) -> bool:
        try:
            return len(admin.list_topics(timeout=5).brokers) == len(self.nodes)
        except KafkaException:
            return False

    def node_settings(self, node: ApacheNode) -> dict[str, str]:
        clients_address = f"CLIENTS://{apache_kafka.HOST}:{node.port}"
        nodes_address = f"NODES://{apache_kafka.HOST}:{self._node_ports[node.id]}"
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        return {
            **super().node_settings(node),
            **self.security.node_settings(node.id),
            "listeners": f"{clients_address},{nodes_address},CONTROLLER://{apache_kafka.HOST}:{node.controller_port}",
            "advertised.listeners": f"{clients_address},{nodes_address}",
            "listener.name.clients.sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.clients.{MECHANISM.lower()}.sasl.jaas.config": f"{module} required;",
        }


def _permission(kind: ResourceType) -> AclBinding:
    """As insync's local clusters have them: the user may use all topics and groups."""
    return AclBinding(
        kind,
        "*",
        ResourcePatternType.LITERAL,
        f"User:{USER}",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )


@contextmanager
def cluster_of(name: str, profile: str = "fast", *, is_secured: bool = False) -> Iterator[Side]:
    """A formatted cluster that is not running yet. At the end its processes are killed and its directory is removed."""
    directory = tempfile.mkdtemp(prefix=f"bench-{name}-")
    side: Side | None = None
    try:
        if name == KAFKA:
            kafka = (SecuredApacheCluster if is_secured else ApacheCluster)(BROKERS, directory)
            kafka.format()
            side = Side(KAFKA, kafka)
        else:
            security, users = ("sasl_ssl", {USER: USERS[USER]}) if is_secured else (None, None)
            cluster = LocalCluster(
                brokers=BROKERS, directory=directory, profile=profile, security=security, users=users
            )
            side = Side(INSYNC, cluster)
        yield side
    finally:
        if side is not None:
            side.cluster.stop(timeout_s=0)
        shutil.rmtree(directory, ignore_errors=True)


def kafka_says() -> tuple[bool, str]:
    """Whether Kafka can be measured, and the heading of its column."""
    if apache_kafka.is_available():
        return True, f"Kafka {apache_kafka.version()}"
    return False, "Kafka: not available (make apache-kafka)"


def wait_for_background_work(seconds: float) -> None:
    """Give background work time to end before memory is measured."""
    time.sleep(seconds)


def _resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6


def _cpu_us(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_US
