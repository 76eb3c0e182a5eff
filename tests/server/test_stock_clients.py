"""Unmodified clients on three real processes: produce, consume, and consume in a group."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer

from insync.server.local_cluster import LocalCluster

PATIENCE_S = 30.0
SENT = {f"key-{i}".encode(): f"value-{i}".encode() for i in range(200)}

Pairs = dict[bytes, bytes]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    cluster = LocalCluster(brokers=3)
    cluster.start()
    yield cluster.bootstrap
    logs = "".join(node.log.read_text() for node in cluster.nodes.values())
    cluster.stop()
    assert "Traceback" not in logs


def _topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 3, 3)])[name].result(PATIENCE_S)


def _confluent_sends(bootstrap: str, topic: str) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": "gzip"})
    for key, value in SENT.items():
        producer.produce(topic, value, key, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert errors == [None] * len(SENT)


def _confluent_reads(bootstrap: str, topic: str) -> Pairs:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{topic}-cf", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: Pairs = {}
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < len(SENT) and time.monotonic() < deadline:
        for message in consumer.consume(100, 0.2):
            assert message.error() is None
            found[message.key()] = message.value()
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def _kafka_python_sends(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all")
    sent = [producer.send(topic, value, key) for key, value in SENT.items()]
    producer.flush(PATIENCE_S)
    assert all(each.succeeded() for each in sent)
    producer.close()


def _kafka_python_reads(bootstrap: str, topic: str) -> Pairs:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap.split(","),
        group_id=f"{topic}-kp",
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(PATIENCE_S * 1_000),
    )
    found: Pairs = {}
    for message in consumer:
        found[message.key] = message.value
        if len(found) == len(SENT):
            break
    consumer.commit()
    consumer.close()
    return found


def _aiokafka_sends(bootstrap: str, topic: str) -> None:
    async def send() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
        await producer.start()
        for key, value in SENT.items():
            await producer.send(topic, value, key)
        await producer.stop()

    asyncio.run(asyncio.wait_for(send(), PATIENCE_S))


def _aiokafka_reads(bootstrap: str, topic: str) -> Pairs:
    async def read() -> Pairs:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=f"{topic}-aio", auto_offset_reset="earliest"
        )
        await consumer.start()
        found: Pairs = {}
        async for message in consumer:
            found[message.key] = message.value
            if len(found) == len(SENT):
                break
        await consumer.commit()
        await consumer.stop()
        return found

    return asyncio.run(asyncio.wait_for(read(), PATIENCE_S))


@pytest.mark.parametrize("sends", [_confluent_sends, _kafka_python_sends, _aiokafka_sends])
@pytest.mark.parametrize("reads", [_confluent_reads, _kafka_python_reads, _aiokafka_reads])
def test_what_one_client_sends_another_reads(
    bootstrap: str, sends: Callable[[str, str], None], reads: Callable[[str, str], Pairs]
) -> None:
    topic = f"{sends.__name__}-{reads.__name__}".replace("_", "")
    _topic(bootstrap, topic)
    sends(bootstrap, topic)
    assert reads(bootstrap, topic) == SENT
