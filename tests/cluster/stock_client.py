"""Writes and reads with confluent-kafka, and sends a produce request that no client would send."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from insync import Cluster
from insync.server import node_query
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import metadata, produce
from insync.wire.types import ms
from tests.polling import TIMEOUT_S


def write(cluster: Cluster, topic: str, values: Iterable[str], through: int | None = None) -> None:
    """Write with acks=all and wait until every value is acknowledged.

    `through` is the node that the client gets its metadata from. A leader that was replaced without learning of it
    would keep the client waiting until its request times out.
    """
    failed: list[KafkaError] = []
    host, port = cluster.nodes[through or 1].address
    producer = Producer(
        {
            "bootstrap.servers": f"{host}:{port}" if through else cluster.bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": int(TIMEOUT_S * 1_000),
            "retry.backoff.ms": 20,
        }
    )
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(TIMEOUT_S) == 0
    assert not failed


def read(cluster: Cluster, topic: str) -> list[str]:
    """All values in partition 0, up to its current end."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "test", "enable.auto.commit": False})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + TIMEOUT_S
        values: list[str] = []
        last_offset = -1
        while last_offset < end - 1:
            assert time.monotonic() < deadline, f"{topic} ends at {end}, but only {len(values)} records can be read"
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                values.append((message.value() or b"").decode())
                last_offset = message.offset() or 0
        return values
    finally:
        consumer.close()


def write_to(cluster: Cluster, node: int, topic: str, value: str, *, acks: int, timeout_ms: int) -> ErrorCode:
    """Write directly to this node, whether it still leads or not; returns its answer."""
    address = cluster.nodes[node].address
    records = bytes(batch.build([batch.NewRecord(key=None, value=value.encode())], timestamp_ms=1_700_000_000_000))
    data = produce.PartitionProduceData(index=0, records=records)
    topic_data = produce.TopicProduceData(topic_id=_id_of(address, topic), partition_data=(data,))
    request = produce.ProduceRequest(transactional_id=None, acks=acks, timeout=ms(timeout_ms), topic_data=(topic_data,))
    answer = node_query.send_request(address, request, TIMEOUT_S).responses[0].partition_responses[0]
    code: ErrorCode = answer.error_code
    return code


def _id_of(address: tuple[str, int], topic: str) -> Any:
    requested = metadata.MetadataRequestTopic(topic_id=None, name=topic)
    request = metadata.MetadataRequest(
        topics=(requested,), allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    return node_query.send_request(address, request).topics[0].topic_id
