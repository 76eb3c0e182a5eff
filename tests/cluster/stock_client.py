"""What tests of faults do with a client that is not ours, and one request that no client would send."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from insync.server import ask
from insync.testing import Cluster
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import metadata, produce
from insync.wire.types import ms

PATIENCE_S = 60.0


def write(cluster: Cluster, topic: str, values: Iterable[str], through: int | None = None) -> None:
    """With acks=all, and until every value is acknowledged. `through`: the node that the client hears of others from.

    A client that asks a leader that was replaced without knowing it takes its word, and waits there until its request
    times out."""
    failed: list[KafkaError] = []
    host, port = cluster.nodes[through or 1].address
    producer = Producer(
        {
            "bootstrap.servers": f"{host}:{port}" if through else cluster.bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": int(PATIENCE_S * 1_000),
            "retry.backoff.ms": 20,
        }
    )
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(PATIENCE_S) == 0
    assert not failed


def read(cluster: Cluster, topic: str) -> list[str]:
    """Everything in partition 0 up to where it ends now."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "test", "enable.auto.commit": False})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S)
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline, found = time.monotonic() + PATIENCE_S, []
        while (not found or found[-1].offset() < end - 1) and end > 0:
            assert time.monotonic() < deadline, f"{topic} ends at {end}, but only {len(found)} records can be read"
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append(message)
        return [message.value().decode() for message in found]
    finally:
        consumer.close()


def write_to(cluster: Cluster, node: int, topic: str, value: str, *, acks: int, timeout_ms: int) -> ErrorCode:
    """Straight to this node, whether it still leads or not; its answer."""
    address = cluster.nodes[node].address
    records = bytes(batch.build([batch.NewRecord(key=None, value=value.encode())], timestamp_ms=1_700_000_000_000))
    data = produce.PartitionProduceData(index=0, records=records)
    line = produce.TopicProduceData(topic_id=_id_of(address, topic), partition_data=(data,))
    request = produce.ProduceRequest(transactional_id=None, acks=acks, timeout=ms(timeout_ms), topic_data=(line,))
    answer = ask.ask(address, request, PATIENCE_S).responses[0].partition_responses[0]
    code: ErrorCode = answer.error_code
    return code


def _id_of(address: tuple[str, int], topic: str) -> Any:
    asked = metadata.MetadataRequestTopic(topic_id=None, name=topic)
    request = metadata.MetadataRequest(
        topics=(asked,), allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    return ask.ask(address, request).topics[0].topic_id
