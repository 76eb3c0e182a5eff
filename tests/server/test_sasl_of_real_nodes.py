"""Three nodes that authenticate to each other by SCRAM, and stock clients by every mechanism, with and without TLS."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from typing import Any

import jwt
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from aiokafka.helpers import create_ssl_context
from confluent_kafka import KafkaException, Producer
from cryptography.hazmat.primitives.asymmetric import ec
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider as PythonTokenProvider

from insync.client import topics
from insync.client.client import Client
from insync.client.errors import AccessDeniedError
from insync.client.settings import ClientSettings
from insync.security.certificates import Authority
from insync.server import bootstrap_metadata
from insync.server.cluster_layout import data_directory
from insync.server.storage_format import BOOTSTRAP_CHECKPOINT
from tests.server.listener_cluster import CONTROLLER, ListenerCluster
from tests.server.server_harness import TIMEOUT_S, Topic, metric

AUTHORITY = Authority.create("cluster CA")
KEY = ec.generate_private_key(ec.SECP256R1())
MODULES = "org.apache.kafka.common.security"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
USERS = {"alice": "wonder", "node": "n0de"}
LIFETIME_MS = 1_500


def scram_module(user: str, password: str) -> str:
    return f'{MODULES}.scram.ScramLoginModule required username="{user}" password="{password}";'


class SaslCluster(ListenerCluster):
    """Clients use SASL, SECURE (the same over TLS) or SHORT (with sessions of 1.5 seconds)."""

    def __init__(self, directory: Path) -> None:
        self.files = directory
        AUTHORITY.write(directory / "ca.pem")
        AUTHORITY.issue("nodes", hosts=("localhost", "127.0.0.1")).write(directory / "nodes.pem")
        key = jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
        (directory / "keys.json").write_text(json.dumps({"keys": [{**key, "kid": "1"}]}))
        plain = f"{MODULES}.plain.PlainLoginModule required " + " ".join(f'user_{n}="{p}"' for n, p in USERS.items())
        settings = {
            "inter.broker.listener.name": "INTERNAL",
            "ssl.keystore.location": str(directory / "nodes.pem"),
            "ssl.truststore.location": str(directory / "ca.pem"),
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "sasl.mechanism.controller.protocol": "SCRAM-SHA-256",
            "listener.name.internal.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.internal.scram-sha-512.sasl.jaas.config": scram_module("node", "n0de"),
            "listener.name.internal.connections.max.reauth.ms": "2500",
            "listener.name.controller.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.controller.scram-sha-256.sasl.jaas.config": scram_module("node", "n0de"),
            "listener.name.short.connections.max.reauth.ms": str(LIFETIME_MS),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{directory}/keys.json",
            "sasl.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.expected.issuer": "https://idp",
            "insync.authentication.timeout.ms": "1000",
        }
        for listener in ("sasl", "secure", "short"):
            settings[f"listener.name.{listener}.plain.sasl.jaas.config"] = f"{plain};"
            settings[f"listener.name.{listener}.oauthbearer.sasl.jaas.config"] = (
                f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;"
            )
        listeners = {
            "SASL": "SASL_PLAINTEXT",
            "SECURE": "SASL_SSL",
            "SHORT": "SASL_PLAINTEXT",
            "INTERNAL": "SASL_SSL",
            CONTROLLER: "SASL_PLAINTEXT",
        }
        super().__init__(listeners, settings=settings)

    def _write_nodes(self) -> None:
        super()._write_nodes()
        first_users = tuple(
            bootstrap_metadata.parse_scram_argument(f"{mechanism}=[name={name},password={password}]")
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for name, password in USERS.items()
        )
        for node_id in self.nodes:
            path = data_directory(self.directory, node_id) / BOOTSTRAP_CHECKPOINT
            path.write_bytes(bootstrap_metadata.encode(first_users))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslCluster]:
    with SaslCluster(tmp_path_factory.mktemp("sasl")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def topic(cluster: SaslCluster) -> Topic:
    return Topic(cluster, "events")


def token(**more: Any) -> str:
    now = int(time.time())
    claims = {"sub": "alice", "iss": "https://idp", "aud": "kafka", "iat": now, "exp": now + 300, **more}
    return jwt.encode(claims, KEY, "ES256", headers={"kid": "1"})


class AioProvider(AioTokenProvider):  # type: ignore[misc]
    async def token(self) -> str:
        return token()


class PythonProvider(PythonTokenProvider):  # type: ignore[misc]
    def token(self) -> str:
        return token()


def protocol_of(listener: str) -> str:
    return "SASL_SSL" if listener == "SECURE" else "SASL_PLAINTEXT"


def confluent(cluster: SaslCluster, listener: str, mechanism: str, **more: Any) -> dict[str, Any]:
    settings = {
        "bootstrap.servers": cluster.bootstrap_of(listener),
        "security.protocol": protocol_of(listener),
        "sasl.mechanisms": mechanism,
        "ssl.ca.location": str(cluster.files / "ca.pem"),
        "log_level": 0,
        "client.id": f"confluent {listener} {mechanism}",
    }
    if mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _: (token(), time.time() + 300)
    else:
        settings |= {"sasl.username": "alice", "sasl.password": "wonder"}
    return {**settings, **more}


def produce_confluent(cluster: SaslCluster, listener: str, mechanism: str, value: bytes) -> None:
    producer = Producer(confluent(cluster, listener, mechanism))
    errors: list[Any] = []
    producer.produce("events", value, on_delivery=lambda error, message: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == [None]


def produce_kafka_python(cluster: SaslCluster, listener: str, mechanism: str, value: bytes) -> None:
    provider = {"sasl_oauth_token_provider": PythonProvider()} if mechanism == "OAUTHBEARER" else {}
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_of(listener).split(","),
        acks="all",
        security_protocol=protocol_of(listener),
        sasl_mechanism=mechanism,
        sasl_plain_username="alice",
        sasl_plain_password="wonder",
        ssl_cafile=str(cluster.files / "ca.pem"),
        **provider,
    )
    producer.send("events", value).get(TIMEOUT_S)
    producer.close()


def produce_aiokafka(cluster: SaslCluster, listener: str, mechanism: str, value: bytes) -> None:
    async def produce() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_of(listener),
            acks="all",
            security_protocol=protocol_of(listener),
            ssl_context=create_ssl_context(cafile=str(cluster.files / "ca.pem")) if listener == "SECURE" else None,
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password="wonder",
            sasl_oauth_token_provider=AioProvider() if mechanism == "OAUTHBEARER" else None,
        )
        await producer.start()
        try:
            await producer.send_and_wait("events", value)
        finally:
            await producer.stop()

    asyncio.run(produce())


@pytest.mark.parametrize("listener", ["SASL", "SECURE"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_stock_client_logs_in_by_every_mechanism(
    cluster: SaslCluster, topic: Topic, listener: str, mechanism: str
) -> None:
    values = [f"{name} {listener} {mechanism}".encode() for name in ("confluent", "kafka-python", "aiokafka")]
    for produce, value in zip((produce_confluent, produce_kafka_python, produce_aiokafka), values, strict=True):
        produce(cluster, listener, mechanism, value)
    assert topic.values()[-3:] == values


@pytest.mark.parametrize(
    ("mechanism", "wrong"),
    [
        ("PLAIN", {"sasl.password": "guess"}),
        ("PLAIN", {"sasl.username": "mallory"}),
        ("SCRAM-SHA-256", {"sasl.password": "guess"}),
        ("SCRAM-SHA-512", {"sasl.username": "mallory"}),
        ("OAUTHBEARER", {"oauth_cb": lambda _: (token(aud="another"), time.time() + 300)}),
    ],
)
def test_wrong_credentials_are_refused(cluster: SaslCluster, mechanism: str, wrong: dict[str, Any]) -> None:
    before = sum(metric(node, "failed_authentications_total") for node in cluster.nodes.values())
    with pytest.raises(KafkaException):
        Producer(confluent(cluster, "SASL", mechanism, **wrong)).list_topics(timeout=0.5)
    assert sum(metric(node, "failed_authentications_total") for node in cluster.nodes.values()) > before


def our_client(cluster: SaslCluster, listener: str, **more: str) -> Client:
    settings = {
        "security.protocol": protocol_of(listener),
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": scram_module("alice", "wonder"),
        "ssl.truststore.location": str(cluster.files / "ca.pem"),
        **more,
    }
    return Client.connect(cluster.bootstrap_of(listener), settings=ClientSettings.of(settings))


def test_our_client_renews_its_session(cluster: SaslCluster, topic: Topic) -> None:
    """Sessions of 1.5 seconds, one connection for longer than that."""

    async def run() -> int:
        async with our_client(cluster, "SHORT") as client:
            opened = 0
            deadline = time.monotonic() + 2.5 * LIFETIME_MS / 1_000
            while time.monotonic() < deadline:
                assert await topics.describe(client)
                opened += 1
                await asyncio.sleep(0.1)
            return opened

    before = sum(node.log.read_text().count("reason=session_expired") for node in cluster.nodes.values())
    assert asyncio.run(run()) > 20
    after = sum(node.log.read_text().count("reason=session_expired") for node in cluster.nodes.values())
    assert after == before


def test_our_client_reports_why_authentication_failed(cluster: SaslCluster) -> None:
    async def connect(listener: str, **more: str) -> None:
        async with our_client(cluster, listener, **more) as client:
            await topics.describe(client)

    with pytest.raises(AccessDeniedError, match="rejected user 'alice'"):
        asyncio.run(connect("SASL", **{"sasl.jaas.config": scram_module("alice", "guess")}))
    with pytest.raises(AccessDeniedError, match=r"sasl\.mechanism is SCRAM-SHA-256, but .* offers SCRAM-SHA-512"):
        asyncio.run(connect("INTERNAL", **{"security.protocol": "SASL_SSL"}))


def test_nodes_renew_their_sessions_and_survive_the_death_of_one(cluster: SaslCluster) -> None:
    """Sessions among brokers end after 2.5 seconds; replication goes on over new connections."""
    topic = Topic(cluster, "renewed")
    deadline = time.monotonic() + 3.5
    count = 0
    while time.monotonic() < deadline:
        topic.produce(str(count).encode())
        count += 1
        time.sleep(0.05)
    assert len(topic.partition().isr_nodes) == 3
    for node in cluster.nodes.values():
        assert "reason=session_expired" not in node.log.read_text()
    topic.fail_over()
    assert topic.values() == [str(number).encode() for number in range(count)] + [b"after"]
    for node in cluster.nodes.values():
        assert "event=peer_denied" not in node.log.read_text()


def test_a_cluster_that_was_stopped_elects_a_controller_again(cluster: SaslCluster, topic: Topic) -> None:
    """Voters know their users from the formatting until they know any metadata."""
    before = topic.values()
    cluster.stop_nodes()
    for node_id in cluster.nodes:
        cluster.start_node(node_id)
    cluster.wait_until_ready()
    assert topic.values() == before


def test_connections_that_do_not_authenticate_are_closed(cluster: SaslCluster) -> None:
    """Silent ones, endless ones, and such that send requests without logging in."""
    address = ("127.0.0.1", cluster.ports["SASL"][1])
    produce = pack(">hhih", 0, 9, 1, -1)
    for data in (b"", pack(">i", 100) + b"x", pack(">i", 600_000), pack(">i", len(produce)) + produce):
        with socket.create_connection(address, TIMEOUT_S) as sock:
            sock.sendall(data)
            started = time.monotonic()
            assert sock.recv(1) == b""
            assert time.monotonic() - started < 5.0
