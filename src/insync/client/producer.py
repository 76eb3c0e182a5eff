"""An idempotent producer that sends one batch at a time: a batch that is sent again is stored once (P4).

Keys are assigned to partitions by murmur2, as Kafka's own clients do. `describe_producers` asks the leaders which
producers they know (DescribeProducers, KIP-664).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from insync.client import apis, topics
from insync.client.client import Client
from insync.client.errors import ClientError, ErrorCode, RefusedError, raise_for_error
from insync.client.model import NO_NODE, Topic, TopicPartition
from insync.wire import batch
from insync.wire.types import ms

ACKS_ALL = -1
_SEQUENCES = 1 << 31
_ZSTD_SINCE = 7


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """Where a batch was written; the offset is -1 with acks=0, which is not answered."""

    partition: int
    offset: int
    count: int


class Producer:
    """Writes batches to the partitions of one topic; call `start` first."""

    __slots__ = ("_identity", "_sequences", "acks", "client", "compression", "topic")

    def __init__(self, client: Client, topic: Topic, *, acks: int = ACKS_ALL, compression: str = "none") -> None:
        self.client = client
        self.topic = topic
        self.acks = acks
        self.compression = compression
        self._identity = (-1, -1)
        self._sequences: dict[TopicPartition, int] = {}

    async def start(self) -> None:
        """Get a producer id. Only acks=all is idempotent, so other producers need none."""
        if self.acks != ACKS_ALL:
            return
        values = {"transactional_id": None, "transaction_timeout": ms(60_000), "producer_id": -1, "producer_epoch": -1}

        async def attempt() -> Any:
            answer = await self.client.call_any(apis.INIT_PRODUCER_ID, values)
            raise_for_error(answer.error_code, "asking for a producer id")
            return answer

        answer = await self.client.retry(attempt)
        self._identity = (answer.producer_id, answer.producer_epoch)

    async def send(self, partition: int, records: Sequence[batch.NewRecord], now_ms: int) -> WrittenBatch:
        """Write one batch; retries while leaders change, until the client's timeout."""
        key = (self.topic.name, partition)
        sequence = self._sequences.get(key, 0)
        identified = self._identity[0] >= 0
        data = batch.build(
            records,
            timestamp_ms=now_ms,
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            base_sequence=sequence if identified else -1,
            compression=self.compression,
        )
        offset = await self.store(partition, bytes(data))
        self._sequences[key] = (sequence + len(records)) % _SEQUENCES
        return WrittenBatch(partition, offset, len(records))

    async def store(self, partition: int, data: bytes) -> int:
        """One batch that is ready, producer id and sequence included; its offset."""
        tries = 0

        async def attempt() -> int:
            nonlocal tries
            tries += 1
            if tries > 1:
                self.topic = await topics.refresh_partitions(self.client, self.topic, [partition])
            return await self._once(partition, data)

        return await self.client.retry(attempt)

    async def _once(self, partition: int, data: bytes) -> int:
        what = f"writing to {self.topic.name}-{partition}"
        known = self.topic.partition(partition)
        if known is None:
            last = len(self.topic.partitions) - 1
            raise ClientError(f"topic '{self.topic.name}' has no partition {partition}, only 0 to {last}")
        if known.leader == NO_NODE:
            raise RefusedError(ErrorCode.leader_not_available, what)
        connection = await self.client.broker_connection(known.leader)
        version = connection.version(apis.PRODUCE) or 0
        if self.compression == "zstd" and version < _ZSTD_SINCE:
            raise ClientError(f"the broker at {connection.address} does not support zstd: choose another compression")
        values = self._request(partition, data)
        if self.acks == 0:
            await connection.send(apis.PRODUCE, values)
            return -1
        answer = await connection.call(apis.PRODUCE, values)
        (stored,) = (p for topic in answer.responses for p in topic.partition_responses)
        if stored.error_code is not ErrorCode.duplicate_sequence_number:
            raise_for_error(stored.error_code, what, getattr(stored, "error_message", None))
        offset: int = stored.base_offset
        return offset

    def _request(self, partition: int, data: bytes) -> dict[str, Any]:
        topic = {
            "name": self.topic.name,
            "topic_id": self.topic.id,
            "partition_data": [{"index": partition, "records": data}],
        }
        timeout_s = ms(int(self.client.timeout_s * 1000))
        return {"transactional_id": None, "acks": self.acks, "timeout": timeout_s, "topic_data": [topic]}


def partition_for(key: bytes, partitions: int) -> int:
    """The partition that Kafka's default partitioner chooses for a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """MurmurHash2, 32 bit, with the seed that Kafka's clients use."""
    mixer, mask = 0x5BD1E995, 0xFFFFFFFF
    whole = len(data) & ~3
    value = 0x9747B28C ^ len(data)
    for pos in range(0, whole, 4):
        k = int.from_bytes(data[pos : pos + 4], "little") * mixer & mask
        value = (value * mixer & mask) ^ ((k ^ (k >> 24)) * mixer & mask)
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * mixer & mask
    value = (value ^ (value >> 13)) * mixer & mask
    return value ^ (value >> 15)


@dataclass(frozen=True, slots=True)
class ProducerState:
    producer_id: int
    epoch: int
    last_sequence: int


async def describe_producers(client: Client, topic: Topic, partitions: Sequence[int]) -> dict[int, list[ProducerState]]:
    """The producers of each partition. Raises a retriable error while a partition has no leader, or another one."""
    by_leader: dict[int, list[int]] = {}
    for index in partitions:
        known = topic.partition(index)
        leader = NO_NODE if known is None else known.leader
        if leader == NO_NODE:
            raise RefusedError(ErrorCode.leader_not_available, f"describing the producers of {topic.name}-{index}")
        by_leader.setdefault(leader, []).append(index)
    answers = await asyncio.gather(
        *(_describe_at_leader(client, leader, topic.name, mine) for leader, mine in by_leader.items())
    )
    return {index: producers for answer in answers for index, producers in answer.items()}


async def _describe_at_leader(
    client: Client, leader: int, topic: str, partitions: list[int]
) -> dict[int, list[ProducerState]]:
    values = {"topics": [{"name": topic, "partition_indexes": partitions}]}
    answer = await client.call_broker(leader, apis.DESCRIBE_PRODUCERS, values)
    producers: dict[int, list[ProducerState]] = {}
    for entry in (p for topic_entry in answer.topics for p in topic_entry.partitions):
        raise_for_error(
            entry.error_code, f"describing the producers of {topic}-{entry.partition_index}", entry.error_message
        )
        producers[entry.partition_index] = [
            ProducerState(p.producer_id, p.producer_epoch, p.last_sequence) for p in entry.active_producers
        ]
    return producers
