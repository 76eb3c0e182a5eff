"""Who has written to a partition, as its leader remembers: DescribeProducers (KIP-664)."""

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
    """By partition. Refused where there is no leader or it changes just now; asked again, it finds the new one."""
    described = await topics.describe_one(client, topic)
    by_leader: dict[int, list[int]] = {}
    for index in partitions:
        known = described.partition(index)
        leader = NO_NODE if known is None else known.leader
        if leader == NO_NODE:
            raise RefusedError(ErrorCode.leader_not_available, f"asking who writes to {topic}-{index}")
        by_leader.setdefault(leader, []).append(index)
    answers = await asyncio.gather(
        *(_describe_at_leader(client, leader, topic, mine) for leader, mine in by_leader.items())
    )
    return {index: writers for answer in answers for index, writers in answer.items()}


async def _describe_at_leader(
    client: Client, leader: int, topic: str, partitions: list[int]
) -> dict[int, list[ProducerState]]:
    values = {"topics": [{"name": topic, "partition_indexes": partitions}]}
    answer = await client.call_broker(leader, apis.DESCRIBE_PRODUCERS, values)
    found: dict[int, list[ProducerState]] = {}
    for entry in (p for each in answer.topics for p in each.partitions):
        raise_for_error(entry.error_code, f"asking who writes to {topic}-{entry.partition_index}", entry.error_message)
        found[entry.partition_index] = [
            ProducerState(each.producer_id, each.producer_epoch, each.last_sequence) for each in entry.active_producers
        ]
    return found
