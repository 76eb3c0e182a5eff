"""A running cluster gets TLS and SASL among its nodes and for its clients, one node at a time, without an outage."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from insync.security.certificates import Authority
from insync.server.local_cluster import LocalNode
from tests.server.listener_cluster import CONTROLLER, ListenerCluster
from tests.server.server_harness import TIMEOUT_S, Topic, eventually

AUTHORITY = Authority.create("cluster CA")
PASSWORDS = {"node": "n0de", "node2": "other", "alice": "wonder"}


def plain_users(own: str) -> str:
    """The login module of nodes that log in as `own`."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    return f'{module} username="{own}" password="{PASSWORDS[own]}" {users};'


class ChangingCluster(ListenerCluster):
    """Its nodes begin with PLAINTEXT alone; `settings_of` gives them more when they are started again."""

    def __init__(self, directory: Path) -> None:
        self.files = directory
        self.more: dict[str, str] = {}
        self.open: tuple[str, ...] = ("PLAINTEXT", CONTROLLER)
        AUTHORITY.write(directory / "ca.pem")
        AUTHORITY.issue("nodes", hosts=("localhost", "127.0.0.1")).write(directory / "nodes.pem")
        super().__init__({"SECURE": "SASL_SSL", CONTROLLER: "PLAINTEXT"}, settings_of=self._changes)

    def _changes(self, node_id: int) -> Mapping[str, str]:
        return {
            "listeners": ",".join(f"{name}://127.0.0.1:{self.ports[name][node_id]}" for name in self.open),
            "ssl.keystore.location": str(self.files / "nodes.pem"),
            "ssl.truststore.location": str(self.files / "ca.pem"),
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.secure.plain.sasl.jaas.config": plain_users("node"),
            **self.more,
        }

    def restart_all(self, **more: str) -> None:
        """Every node in turn, with these settings added."""
        self.more |= {key.replace("_", "."): value for key, value in more.items()}
        for node in self.nodes.values():
            self.stop_node(node.id)
            self.write_properties(node)
            self.start_node(node.id)
            self.wait_until_ready()

    def write_properties(self, node: LocalNode) -> None:
        (node.directory / "node.properties").write_text(self._properties(node))


def test_security_is_added_one_node_at_a_time(tmp_path: Path) -> None:
    """First the listener, then the nodes use it, then clients do. Then the nodes log in as another user, which all
    accept before any uses it. Clients write all the time."""
    cluster = ChangingCluster(tmp_path)
    cluster.start()
    try:
        topic = Topic(cluster, "kept")
        with Writer(cluster, "PLAINTEXT", {}) as plain:
            cluster.open = ("PLAINTEXT", "SECURE", CONTROLLER)
            cluster.restart_all()
            cluster.restart_all(inter_broker_listener_name="SECURE")
            eventually(lambda: len(topic.partition().isr_nodes) == 3, "all replicas are in sync")
            secured = {
                "security.protocol": "SASL_SSL",
                "sasl.mechanisms": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": "wonder",
                "ssl.ca.location": str(tmp_path / "ca.pem"),
            }
            with Writer(cluster, "SECURE", secured) as secure:
                time.sleep(0.5)
                cluster.restart_all(listener_name_secure_plain_sasl_jaas_config=plain_users("node2"))
                eventually(lambda: len(topic.partition().isr_nodes) == 3, "all replicas are in sync")
        assert plain.failures == secure.failures == []
        assert plain.count > 100
        assert secure.count > 10
        assert len(topic.values()) == plain.count + secure.count
        leader = topic.leader().id
        for follower in cluster.nodes:
            if follower != leader:
                assert cluster.ports["SECURE"][leader] in cluster.connected_ports(follower)
    finally:
        cluster.stop()


class Writer:
    """Writes until it is left."""

    def __init__(self, cluster: ChangingCluster, listener: str, settings: Mapping[str, Any]) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_of(listener),
                "enable.idempotence": True,
                "linger.ms": 1,
                "log_level": 0,
                **settings,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.count = 0
        self.failures: list[str] = []

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(TIMEOUT_S) == 0

    def _write(self) -> None:
        while not self._stop.is_set():
            self._producer.produce("kept", b"x", on_delivery=self._on_delivery)
            self._producer.poll(0.01)

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            self.count += 1
        else:
            self.failures.append(str(error))
