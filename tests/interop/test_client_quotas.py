"""Clients with quotas: a throttled producer or consumer gets about its rate, and gets the throttle time."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from insync.cli.main import app
from insync.server.local_cluster import LocalCluster

SETTINGS = {
    "quota.window.num": "2",  # rates are averaged over one to two seconds, not eleven: tests end sooner
    "controller.quota.window.num": "2",
    "max.connections.per.ip.overrides": "127.0.0.3:2",
}
RATE = 200_000
SECONDS = 5
TIMEOUT_S = 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, settings=SETTINGS) as made:
        admin = AdminClient({"bootstrap.servers": made.bootstrap})
        admin.create_topics([NewTopic("t", 1)])["t"].result(TIMEOUT_S)
        yield made


@pytest.fixture(autouse=True)
def _quotas(cluster: LocalCluster) -> Iterator[None]:
    limits = {"slow-producer": "producer_byte_rate", "slow-consumer": "consumer_byte_rate"}
    for client_id, quota in limits.items():
        run(cluster, "quota", "set", "--client-id", client_id, f"{quota}={RATE}")
    yield
    for client_id in limits:
        run(cluster, "quota", "remove", "--client-id", client_id)


def run(cluster: LocalCluster, *arguments: str) -> None:
    env = {"INSYNC_BOOTSTRAP": cluster.bootstrap}
    result = CliRunner(env=env).invoke(app, [*arguments, "--timeout", str(TIMEOUT_S)])
    assert result.exit_code == 0, result.output


def produce(cluster: LocalCluster, client_id: str, size: int, acks: int = -1) -> tuple[float, list[int]]:
    """How long it takes to write `size` bytes, and for how long the broker asked to wait, each time (ms)."""
    throttle_times_ms: list[int] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "client.id": client_id,
            "acks": acks,
            "linger.ms": 5,
            "batch.size": 20_000,
            "throttle_cb": lambda event: throttle_times_ms.append(event.throttle_time * 1_000),
        }
    )
    began = time.monotonic()
    for _ in range(size // 1_000):
        producer.produce("t", b"x" * 1_000)
        producer.poll(0)
    assert producer.flush(4 * TIMEOUT_S) == 0
    return time.monotonic() - began, throttle_times_ms


def test_a_throttled_producer_gets_about_its_rate(cluster: LocalCluster) -> None:
    """The first second is not throttled, since rates are averaged."""
    took_s, throttle_times_ms = produce(cluster, "slow-producer", RATE * SECONDS)
    assert 0.8 * (SECONDS - 2) < took_s < 2 * SECONDS
    assert max(throttle_times_ms, default=0) > 0
    took_s, throttle_times_ms = produce(cluster, "other-producer", RATE * SECONDS)
    assert (took_s < 0.8 * (SECONDS - 2), throttle_times_ms) == (True, [])


def test_a_throttled_consumer_gets_about_its_rate(cluster: LocalCluster) -> None:
    produce(cluster, "other-producer", RATE * SECONDS)

    def consume(client_id: str) -> float:
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "client.id": client_id,
                "group.id": "unused",
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition("t", 0, 0)])
        began, size = time.monotonic(), 0
        while size < RATE * SECONDS:
            for message in consumer.consume(500, timeout=TIMEOUT_S) or pytest.fail(f"only {size} bytes"):
                size += len(message.value() or b"")
        took_s = time.monotonic() - began
        consumer.close()
        return took_s

    assert 0.8 * (SECONDS - 2) < consume("slow-consumer") < 2 * SECONDS
    assert consume("other-consumer") < 0.8 * (SECONDS - 2)


def connect(cluster: LocalCluster, address: str) -> socket.socket:
    """From this address, of which Linux has a whole network."""
    return socket.create_connection(cluster.nodes[1].address, TIMEOUT_S, source_address=(address, 0))


def is_refused(connection: socket.socket, within_s: float = TIMEOUT_S) -> bool:
    """Whether the broker closes it."""
    connection.settimeout(within_s)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def test_an_address_that_connects_too_fast_is_refused(cluster: LocalCluster) -> None:
    run(cluster, "quota", "set", "--ip", "127.0.0.2", "connection_creation_rate=3")
    connections = [connect(cluster, "127.0.0.2") for _ in range(12)]
    others = [connect(cluster, "127.0.0.4") for _ in range(12)]
    assert is_refused(connections[-1])
    assert not is_refused(connections[0], within_s=0.1)
    assert not is_refused(others[-1], within_s=0.1)
    for connection in (*connections, *others):
        connection.close()
    run(cluster, "quota", "remove", "--ip", "127.0.0.2")


def test_an_address_has_no_more_connections_than_it_may(cluster: LocalCluster) -> None:
    connections = [connect(cluster, "127.0.0.3") for _ in range(3)]
    assert is_refused(connections[2])
    assert not is_refused(connections[1], within_s=0.1)
    for connection in connections:
        connection.close()


def test_a_client_that_creates_partitions_too_fast_has_to_wait(cluster: LocalCluster) -> None:
    """KIP-599: librdkafka asks in a version that does not know the error, so it is not refused but slowed down."""
    run(cluster, "quota", "set", "--client-id", "fast-admin", "controller_mutation_rate=5")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "client.id": "fast-admin"})

    def create(name: str, partitions: int) -> float:
        began = time.monotonic()
        admin.create_topics([NewTopic(name, partitions)])[name].result(TIMEOUT_S)
        return time.monotonic() - began

    assert create("first", 20) < 1, "ten of them in advance, and ten that are owed: two seconds"
    assert create("second", 1) > 1.5
    run(cluster, "quota", "remove", "--client-id", "fast-admin")
