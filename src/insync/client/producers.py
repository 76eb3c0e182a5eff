"""The producers that a partition's leader knows: DescribeProducers (KIP-664)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from insync.client import apis, topics
from insync.client.client import Client
from insync.client.errors import ErrorCode, RefusedError, raise_for_error
from insync.client.model import NO_NODE


@dataclass(frozen=True, slots=True)
class ProducerState:
    producer_id: int
    epoch: int
    last_sequence: int


async def describe_producers(client: Client, topic: str, partitions: Sequence[int]) -> dict[int, list[ProducerState]]:
    """The producers of each partition. Raises a retriable error while a partition has no leader."""
    described = await topics.describe_one(client, topic)
    by_leader: dict[int, list[int]] = {}
    for index in partitions:
        known = described.partition(index)
        leader = NO_NODE if known is None else known.leader
        if leader == NO_NODE:
            raise RefusedError(ErrorCode.leader_not_available, f"describing the producers of {topic}-{index}")
        by_leader.setdefault(leader, []).append(index)
    answers = await asyncio.gather(
        *(_describe_at_leader(client, leader, topic, mine) for leader, mine in by_leader.items())
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
