"""Writing and reading records for tests that need no client of their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from insync.client import Client, ClientError, Producer, Reader, SyncClient, groups, offsets, topics
from insync.client.model import Topic
from insync.client.offsets import EARLIEST, LATEST
from insync.client.producer import partition_for
from insync.wire.batch import NewRecord

Payload = str | bytes | None


@dataclass(frozen=True, slots=True)
class ReceivedRecord:
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def text(self) -> str:
        """The value as text; empty for a tombstone."""
        return (self.value or b"").decode()


def produce(
    client: SyncClient,
    topic: str,
    values: Sequence[Payload],
    key: Payload,
    partition: int | None,
    headers: Mapping[str, bytes] | None,
) -> list[tuple[int, int]]:
    """Returns the partition and the offset of each record."""
    encoded_key = _encode(key)
    given = tuple((headers or {}).items())
    records = [NewRecord(encoded_key, _encode(value), given) for value in values]

    async def send(connected: Client) -> list[tuple[int, int]]:
        described = await topics.describe_one(connected, topic)
        chosen = partition if partition is not None else _partition_of(encoded_key, described)
        producer = Producer(connected, described)
        await producer.start()
        written = await producer.send(chosen, records, int(time.time() * 1_000))
        return [(chosen, written.offset + index) for index in range(len(records))]

    return client.submit(send).result() if records else []


def consume(
    client: SyncClient, topic: str, count: int | None, partition: int | None, timeout_s: float
) -> list[ReceivedRecord]:
    received: list[ReceivedRecord] = []

    async def read(connected: Client) -> None:
        described = await topics.describe_one(connected, topic)
        if partition is not None and described.partition(partition) is None:
            raise ClientError(
                f"topic '{topic}' has no partition {partition}, only 0 to {len(described.partitions) - 1}"
            )
        indexes = [known.index for known in described.partitions if partition in (None, known.index)]
        starts, ends = [await _list_offsets(connected, described, indexes, at) for at in (EARLIEST, LATEST)]
        reader = Reader(connected, described, starts, ends if count is None else None)
        async for consumed in reader.records():
            record = consumed.record
            received.append(
                ReceivedRecord(
                    consumed.partition, record.offset, record.timestamp_ms, record.key, record.value, record.headers
                )
            )
            if len(received) == count:
                return

    async def read_in_time(connected: Client) -> None:
        try:
            await asyncio.wait_for(read(connected), timeout_s)
        except TimeoutError:
            wanted = "the end" if count is None else f"{count} records"
            raise ClientError(
                f"topic '{topic}': read {len(received)} records, but not {wanted}, in {timeout_s:g} s"
            ) from None

    if count != 0:
        client.submit(read_in_time).result()
    return sorted(received, key=lambda record: (record.partition, record.offset))


async def _list_offsets(client: Client, topic: Topic, indexes: Sequence[int], timestamp: int) -> dict[int, int]:
    wanted = {(topic.name, index): timestamp for index in indexes}
    listed = await offsets.list_offsets_with_retry(client, wanted, known=[topic])
    return {index: offset.offset for (_, index), offset in listed.items()}


def delete_topics_and_groups(client: SyncClient) -> None:
    async def delete(connected: Client) -> None:
        for group in await groups.list_groups(connected):
            await groups.delete(connected, group.id)
        for topic in await topics.describe(connected):
            if not topic.internal:
                await topics.delete(connected, topic.name)

    client.call(delete)


def _encode(payload: Payload) -> bytes | None:
    return payload.encode() if isinstance(payload, str) else payload


def _partition_of(key: bytes | None, topic: Topic) -> int:
    return 0 if key is None else partition_for(key, len(topic.partitions))
