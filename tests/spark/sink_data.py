"""Rows for the sink, and a reader that is not ours of what it stored."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.polling import TIMEOUT_S, wait_until

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class InjectedError(Exception):
    """A failure that a test injects into a task."""


@dataclass(frozen=True)
class StoredRecord:
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None
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


def fail_midway(batches: Iterator[Any], bootstrap: str, topic: str) -> Iterator[Any]:
    """Two thirds of the batches, and an InjectedError once some of their rows are stored."""
    all_batches = list(batches)
    yield from all_batches[: len(all_batches) * 2 // 3]
    wait_until_written(bootstrap, topic)
    raise InjectedError


def wait_until_written(bootstrap: str, topic: str) -> None:
    """Wait until the topic has a record."""
    wait_until(lambda: any(end_offsets(bootstrap, topic)), f"{topic} has records")


def _headers(i: int) -> list[dict[str, Any]] | None:
    if i % 5 == 0:
        return [{"key": "number", "value": b"%d" % i}, {"key": "none", "value": None}]
    return [] if i % 2 else None


def read_records(bootstrap: str, topic: str) -> list[StoredRecord]:
    """All records of the topic, ordered by partition and offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False})
    try:
        indexes = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        partitions = [TopicPartition(topic, index, 0) for index in sorted(indexes)]
        watermarks = [consumer.get_watermark_offsets(partition, TIMEOUT_S) for partition in partitions]
        total = sum(end - start for start, end in watermarks)
        consumer.assign(partitions)
        records: list[StoredRecord] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(records) < total and time.monotonic() < deadline:
            messages = consumer.consume(10_000, 0.5)
            records += [_stored_record(message) for message in messages if message.error() is None]
        assert len(records) == total, f"read {len(records)} of {total} records of {topic}"
        return sorted(records, key=lambda record: (record.partition, record.offset))
    finally:
        consumer.close()


def _stored_record(message: Any) -> StoredRecord:
    return StoredRecord(
        message.partition(), message.offset(), message.key(), message.value(), message.headers(), message.timestamp()[1]
    )


def end_offsets(bootstrap: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check"})
    try:
        indexes = sorted(consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions)
        return [consumer.get_watermark_offsets(TopicPartition(topic, i), TIMEOUT_S)[1] for i in indexes]
    finally:
        consumer.close()


def delete_records(bootstrap: str, topic: str) -> None:
    """Delete all records that the topic has now."""
    ends = end_offsets(bootstrap, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deletions = admin.delete_records([TopicPartition(topic, i, end) for i, end in enumerate(ends)])
    for future in deletions.values():
        future.result(TIMEOUT_S)
