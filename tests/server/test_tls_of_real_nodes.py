"""Three nodes with mutual TLS among themselves and stock clients over TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from kafka import KafkaProducer

from insync.security.certificates import Authority, IssuedCertificate
from tests.server.listener_cluster import CONTROLLER, ListenerCluster
from tests.server.server_harness import TIMEOUT_S, Topic, eventually

HOSTS = ("localhost", "127.0.0.1")
AUTHORITY = Authority.create("cluster CA")


class SecuredCluster(ListenerCluster):
    """Clients use SSL, which asks for a certificate; brokers INTERNAL and controllers CONTROLLER, which require one."""

    def __init__(self, directory: Path) -> None:
        self.files = directory
        AUTHORITY.write(directory / "ca.pem")
        for node_id in (1, 2, 3):
            self.issue(node_id).write(self.keystore(node_id))
        AUTHORITY.issue("alice").write(directory / "alice.pem")
        settings = {
            "inter.broker.listener.name": "INTERNAL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(directory / "ca.pem"),
            "ssl.keystore.type": "PEM",
            "ssl.client.auth": "required",
            "listener.name.ssl.ssl.client.auth": "requested",
            "insync.authentication.timeout.ms": "1000",
        }
        super().__init__(
            {"SSL": "SSL", "INTERNAL": "SSL", CONTROLLER: "SSL"},
            settings=settings,
            settings_of=lambda node_id: {"ssl.keystore.location": str(self.keystore(node_id))},
        )

    def issue(self, node_id: int) -> IssuedCertificate:
        return AUTHORITY.issue(f"node-{node_id}", hosts=HOSTS)

    def keystore(self, node_id: int) -> Path:
        return self.files / f"node-{node_id}.pem"

    def address(self, listener: str = "SSL", node_id: int = 1) -> tuple[str, int]:
        return ("127.0.0.1", self.ports[listener][node_id])

    def log_of(self, node_id: int) -> str:
        return self.nodes[node_id].log.read_text()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with SecuredCluster(tmp_path_factory.mktemp("tls")) as cluster:
        yield cluster


def context(cluster: SecuredCluster, certificate: str = "") -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(cluster.files / "ca.pem"))
    if certificate:
        made.load_cert_chain(cluster.files / certificate)
    return made


def shown_certificate(cluster: SecuredCluster, node_id: int = 1) -> bytes:
    with (
        socket.create_connection(cluster.address(node_id=node_id), TIMEOUT_S) as sock,
        context(cluster).wrap_socket(sock, server_hostname="localhost") as tls,
    ):
        certificate = tls.getpeercert(binary_form=True)
    assert certificate is not None
    return certificate


def shows(cluster: SecuredCluster, node_id: int, certificate: bytes) -> bool:
    return shown_certificate(cluster, node_id) == certificate


def confluent(cluster: SecuredCluster, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap_of("SSL"),
        "security.protocol": "SSL",
        "ssl.ca.location": str(cluster.files / "ca.pem"),
        "ssl.certificate.location": str(cluster.files / "alice.pem"),
        "ssl.key.location": str(cluster.files / "alice.pem"),
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def test_nodes_form_a_cluster_over_mutual_tls(cluster: SecuredCluster) -> None:
    topic = Topic(cluster, "replicated")
    for number in range(10):
        topic.produce(str(number).encode())
    assert topic.values() == [str(number).encode() for number in range(10)]
    assert len(topic.partition().isr_nodes) == 3


def test_stock_clients_produce_and_consume(cluster: SecuredCluster) -> None:
    topic = Topic(cluster, "stock")
    producer = Producer(confluent(cluster))
    for number in range(100):
        producer.produce("stock", f"confluent {number}".encode() * 50)
    assert producer.flush(TIMEOUT_S) == 0
    python = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_of("SSL").split(","),
        acks="all",
        security_protocol="SSL",
        ssl_context=context(cluster, "alice.pem"),
    )
    python.send("stock", b"kafka-python").get(TIMEOUT_S)
    python.close()

    async def produce() -> None:
        aio = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_of("SSL"),
            acks="all",
            security_protocol="SSL",
            ssl_context=context(cluster),
        )
        await aio.start()
        try:
            await aio.send_and_wait("stock", b"aiokafka")
        finally:
            await aio.stop()

    asyncio.run(produce())
    consumer = Consumer({**confluent(cluster, auto_offset_reset="earliest"), "group.id": "stock"})
    consumer.subscribe(["stock"])
    values: list[bytes] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(values) < 102 and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
    consumer.close()
    assert values == topic.values()
    assert values[-2:] == [b"kafka-python", b"aiokafka"]


@pytest.mark.parametrize("wrong", [{"security_protocol": "PLAINTEXT"}, {"ssl_ca_location": "stranger.pem"}])
def test_a_client_without_the_right_trust_fails(cluster: SecuredCluster, wrong: dict[str, str]) -> None:
    Authority.create("stranger").write(cluster.files / "stranger.pem")
    settings = confluent(cluster, **wrong)
    settings["ssl.ca.location"] = str(cluster.files / Path(settings["ssl.ca.location"]).name)
    with pytest.raises(KafkaException):
        Producer({**settings, "log_level": 0}).list_topics(timeout=1.0)


def test_a_listener_that_requires_a_certificate_refuses_clients_without_one(cluster: SecuredCluster) -> None:
    """A client cannot use the listeners among nodes."""
    for listener in ("INTERNAL", CONTROLLER):
        with socket.create_connection(cluster.address(listener), TIMEOUT_S) as sock:
            tls = context(cluster).wrap_socket(sock, server_hostname="localhost")
            with pytest.raises(ssl.SSLError):  # with TLS 1.3 the refusal comes with the first answer
                tls.recv(1)


def test_slow_and_half_open_handshakes_are_closed(cluster: SecuredCluster) -> None:
    """Nodes and clients that come meanwhile are served."""
    hello = bytes.fromhex("16030100f8010000f40303")
    half_open = [socket.create_connection(cluster.address(), TIMEOUT_S) for _ in range(200)]
    for number, sock in enumerate(half_open):
        sock.sendall(hello[: number % len(hello)])
    Topic(cluster, "meanwhile").produce(b"served")
    producer = Producer(confluent(cluster))
    producer.produce("meanwhile", b"over TLS")
    assert producer.flush(TIMEOUT_S) == 0
    for sock in half_open:
        sock.settimeout(TIMEOUT_S)
        with suppress(ConnectionResetError):
            assert sock.recv(1) == b""
        sock.close()
    assert "slow_authentication" in cluster.log_of(1)


def test_a_dead_node_is_noticed_and_comes_back(cluster: SecuredCluster) -> None:
    topic = Topic(cluster, "failing-over")
    topic.produce(b"before")
    topic.fail_over()
    assert topic.values() == [b"before", b"after"]


def test_certificates_are_replaced_under_load(cluster: SecuredCluster) -> None:
    """Every node gets a new certificate while a client writes; nothing is lost, and new connections see it."""
    Topic(cluster, "rotation")
    producer = Producer(confluent(cluster, linger_ms=1))
    delivered: list[Any] = []
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            producer.produce("rotation", b"x" * 100, on_delivery=lambda error, message: delivered.append(error))
            producer.poll(0.002)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        renewed = {}
        for node_id in cluster.nodes:
            issued = cluster.issue(node_id)
            issued.write(cluster.keystore(node_id))
            renewed[node_id] = ssl.PEM_cert_to_DER_cert(issued.certificate_pem)
        for node_id, certificate in renewed.items():
            eventually(partial(shows, cluster, node_id, certificate), "the new certificate is shown")
        # New connections among nodes use the new certificates too.
        cluster.stop_node(3)
        cluster.start_node(3)
        cluster.wait_until_ready()
    finally:
        stop.set()
        writer.join()
    assert producer.flush(TIMEOUT_S) == 0
    assert set(delivered) == {None}
    assert len(delivered) > 100


def test_a_broken_certificate_is_reported_and_not_used(cluster: SecuredCluster) -> None:
    before, good = shown_certificate(cluster), cluster.keystore(1).read_bytes()
    cluster.keystore(1).write_bytes(good[: len(good) // 2])
    eventually(lambda: "event=tls_not_reloaded" in cluster.log_of(1), "the broken file is reported")
    assert shown_certificate(cluster) == before
    cluster.keystore(1).write_bytes(good)
    eventually(
        lambda: cluster.log_of(1).rindex("event=tls_reloaded") > cluster.log_of(1).rindex("tls_not_reloaded"), ""
    )
    assert shown_certificate(cluster) == before
