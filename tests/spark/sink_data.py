"""Rows for the sink, and what a client that we did not write finds in the topic afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
PATIENCE_S = 60


class Planted(Exception):  # noqa: N818
    """The failure that a test asked for."""


@dataclass(frozen=True)
class Found:
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]] | None
    timestamp_ms: int


def rows(count: int, *, step: int = 1_000, changed_from: int = 1 << 60) -> Iterator[Any]:
    """Row i has the value v<i>; every third has no key, every fifth has headers."""
    for first in range(0, count, step):
        numbers = range(first, min(count, first + step))
        yield pa.RecordBatch.from_pydict(
            {
                "key": pa.array([b"k%d" % i if i % 3 else None for i in numbers], pa.binary()),
                "value": [f"v{i}{'!' if i >= changed_from else ''}" for i in numbers],
                "headers": pa.array([_headers(i) for i in numbers], HEADERS),
            }
        )


def failing(batches: Iterator[Any], bootstrap: str, topic: str) -> Iterator[Any]:
    """Most of the batches, and the failure once some of their rows are stored."""
    every = list(batches)
    yield from every[: len(every) * 2 // 3]
    wait_until_written(bootstrap, topic)
    raise Planted


def wait_until_written(bootstrap: str, topic: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not sum(end_offsets(bootstrap, topic)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _headers(i: int) -> list[dict[str, Any]] | None:
    if i % 5 == 0:
        return [{"key": "number", "value": b"%d" % i}, {"key": "none", "value": None}]
    return [] if i % 2 else None


def records(bootstrap: str, topic: str) -> list[Found]:
    """All there is, in the order of each partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False})
    try:
        indexes = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        wanted = [TopicPartition(topic, index, 0) for index in sorted(indexes)]
        total = sum(end - start for start, end in (consumer.get_watermark_offsets(each, PATIENCE_S) for each in wanted))
        consumer.assign(wanted)
        found: list[Found] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < total and time.monotonic() < deadline:
            found += [_found(message) for message in consumer.consume(10_000, 0.5) if message.error() is None]
        assert len(found) == total
        return sorted(found, key=lambda each: (each.partition, each.offset))
    finally:
        consumer.close()


def _found(message: Any) -> Found:
    return Found(
        message.partition(), message.offset(), message.key(), message.value(), message.headers(), message.timestamp()[1]
    )


def end_offsets(bootstrap: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check"})
    try:
        indexes = sorted(consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions)
        return [consumer.get_watermark_offsets(TopicPartition(topic, i), PATIENCE_S)[1] for i in indexes]
    finally:
        consumer.close()


def delete_records(bootstrap: str, topic: str) -> None:
    """Everything that is in it now."""
    ends = end_offsets(bootstrap, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deleting = admin.delete_records([TopicPartition(topic, i, end) for i, end in enumerate(ends)])
    for future in deleting.values():
        future.result(PATIENCE_S)
