"""Who has written to a partition, as its leader remembers: DescribeProducers (KIP-664)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from insync.client import apis, topics
from insync.client.cluster import Cluster
from insync.client.errors import ErrorCode, Refused, check
from insync.client.model import NOBODY


@dataclass(frozen=True, slots=True)
class Writer:
    producer_id: int
    epoch: int
    last_sequence: int


async def of_partitions(cluster: Cluster, topic: str, partitions: Sequence[int]) -> dict[int, list[Writer]]:
    """By partition. Refused where there is no leader or it changes just now; asked again, it finds the new one."""
    described = await topics.describe_one(cluster, topic)
    by_leader: dict[int, list[int]] = {}
    for index in partitions:
        known = described.partition(index)
        leader = NOBODY if known is None else known.leader
        if leader == NOBODY:
            raise Refused(ErrorCode.leader_not_available, f"asking who writes to {topic}-{index}")
        by_leader.setdefault(leader, []).append(index)
    answers = await asyncio.gather(*(_of_leader(cluster, leader, topic, mine) for leader, mine in by_leader.items()))
    return {index: writers for answer in answers for index, writers in answer.items()}


async def _of_leader(cluster: Cluster, leader: int, topic: str, partitions: list[int]) -> dict[int, list[Writer]]:
    values = {"topics": [{"name": topic, "partition_indexes": partitions}]}
    answer = await cluster.ask_broker(leader, apis.DESCRIBE_PRODUCERS, values)
    found: dict[int, list[Writer]] = {}
    for entry in (p for each in answer.topics for p in each.partitions):
        check(entry.error_code, f"asking who writes to {topic}-{entry.partition_index}", entry.error_message)
        found[entry.partition_index] = [
            Writer(each.producer_id, each.producer_epoch, each.last_sequence) for each in entry.active_producers
        ]
    return found
