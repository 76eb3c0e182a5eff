"""Offsets and sizes of logs: ListOffsets, OffsetForLeaderEpoch and DescribeLogDirs.

A leader answers consumers with its high watermark. To the debugging replica id -2 any replica answers with its own log
end offset, which shows the progress of followers from outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from insync.client import apis
from insync.client.client import Client
from insync.client.errors import ClientError, ErrorCode, NoAnswerError, RefusedError, raise_for_error
from insync.client.model import NO_NODE, LogDir, Offset, Partition, ReplicaLog, Topic, TopicPartition
from insync.client.topics import describe, describe_partitions
from insync.wire.types import ms

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
CONSUMER, DEBUGGER = -1, -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
FEW_PARTITIONS = 8
"""Up to so many are described one by one, also in a topic of thousands."""


async def list_leader_offsets(
    client: Client, topics: Sequence[Topic], timestamp: int = LATEST, *, isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, Offset]:
    """One offset of every partition, from its leader; a failure is in the `error` of its `Offset`."""
    wanted = {(topic.name, p.index): timestamp for topic in topics for p in topic.partitions}
    return await list_offsets(client, topics, wanted, isolation=isolation)


async def list_offsets(
    client: Client,
    topics: Sequence[Topic],
    wanted: Mapping[TopicPartition, int],
    *,
    isolation: int = READ_UNCOMMITTED,
    timeout_s: float | None = None,
) -> dict[TopicPartition, Offset]:
    """The offset for a timestamp of each partition; a failure is in the `error` of its `Offset`."""
    known = {(topic.name, p.index): p for topic in topics for p in topic.partitions}
    offsets: dict[TopicPartition, Offset] = {}
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    for key, timestamp in wanted.items():
        if key not in known or known[key].leader == NO_NODE:
            offsets[key] = Offset(-1, error=ErrorCode.leader_not_available)
        else:
            by_leader.setdefault(known[key].leader, {})[key] = timestamp
    epochs = {key: partition.leader_epoch for key, partition in known.items()}
    answers = await asyncio.gather(
        *(
            list_offsets_at_broker(client, leader, keys, isolation=isolation, epochs=epochs, timeout_s=timeout_s)
            for leader, keys in by_leader.items()
        )
    )
    for answer in answers:
        offsets |= answer
    return offsets


async def list_offsets_with_retry(
    client: Client,
    wanted: Mapping[TopicPartition, int],
    *,
    known: Sequence[Topic] = (),
    isolation: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, Offset]:
    """As `list_offsets`, but without errors: they are retried or raised.

    `known` are the topics, if they were described before. The partitions whose leaders have changed are described and
    asked for again.
    """
    offsets: dict[TopicPartition, Offset] = {}

    async def attempt() -> None:
        nonlocal known
        missing = {key: timestamp for key, timestamp in wanted.items() if key not in offsets}
        described = known or await _describe_topics_of(client, missing)
        known = ()  # leaders may have changed if this attempt fails
        answers = await list_offsets(
            client, described, missing, isolation=isolation, timeout_s=client.attempt_timeout_s
        )
        offsets.update({key: offset for key, offset in answers.items() if offset.error is ErrorCode.none})
        for (topic, index), offset in answers.items():
            raise_for_error(offset.error, f"listing the offsets of {topic}-{index}")

    if wanted:
        await client.retry(attempt)
    return {key: offsets[key] for key in wanted}


async def _describe_topics_of(client: Client, keys: Iterable[TopicPartition]) -> list[Topic]:
    """Of a topic with few partitions to describe, only these."""
    indexes: dict[str, list[int]] = {}
    for topic, index in keys:
        indexes.setdefault(topic, []).append(index)
    few = {name: wanted for name, wanted in indexes.items() if len(wanted) <= FEW_PARTITIONS}
    if len(few) > FEW_PARTITIONS:
        few = {}
    rest = [name for name in indexes if name not in few]
    described = await asyncio.gather(*(describe_partitions(client, name, wanted) for name, wanted in few.items()))
    return [*described, *await describe(client, rest)]


async def list_offsets_at_broker(
    client: Client,
    broker: int,
    wanted: Mapping[TopicPartition, int],
    replica: int = CONSUMER,
    *,
    isolation: int = READ_UNCOMMITTED,
    epochs: Mapping[TopicPartition, int] | None = None,
    timeout_s: float | None = None,
) -> dict[TopicPartition, Offset]:
    """What one broker answers; NETWORK_EXCEPTION for all if it cannot be reached. With `epochs`, only if it leads in
    these epochs (F3)."""
    topics: dict[str, list[dict[str, int]]] = {}
    for (topic, index), timestamp in wanted.items():
        epoch = -1 if epochs is None else epochs[topic, index]
        entry = {"partition_index": index, "current_leader_epoch": epoch, "timestamp": timestamp, "max_num_offsets": 1}
        topics.setdefault(topic, []).append(entry)
    values = {
        "replica_id": replica,
        "isolation_level": isolation,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        "timeout": ms(int(client.timeout_s * 1000)),
    }
    try:
        answer = await client.call_broker(broker, apis.LIST_OFFSETS, values, timeout_s=timeout_s)
    except NoAnswerError:
        return {key: Offset(-1, error=ErrorCode.network_exception) for key in wanted}
    return {(topic.name, p.partition_index): _offset(p) for topic in answer.topics for p in topic.partitions}


async def list_log_ends(client: Client, broker: int, keys: Sequence[TopicPartition]) -> dict[TopicPartition, Offset]:
    """The log end offsets of one broker's replicas, leader or not."""
    return await list_offsets_at_broker(client, broker, dict.fromkeys(keys, LATEST), DEBUGGER)


async def find_epoch_end(
    client: Client, topic: str, partition: Partition, epoch: int, *, timeout_s: float | None = None
) -> Offset:
    """The end offset, in the leader's log, of the newest epoch that is not above `epoch`."""
    if partition.leader == NO_NODE:
        return Offset(-1, error=ErrorCode.leader_not_available)
    request = {"partition": partition.index, "current_leader_epoch": partition.leader_epoch, "leader_epoch": epoch}
    values = {"replica_id": DEBUGGER, "topics": [{"topic": topic, "partitions": [request]}]}
    try:
        answer = await client.call_broker(partition.leader, apis.OFFSET_FOR_LEADER_EPOCH, values, timeout_s=timeout_s)
    except NoAnswerError:
        return Offset(-1, error=ErrorCode.network_exception)
    (entry,) = (p for topic_entry in answer.topics for p in topic_entry.partitions)
    return Offset(entry.end_offset, leader_epoch=entry.leader_epoch, error=entry.error_code)


async def describe_log_dirs(client: Client, broker: int, topics: Sequence[Topic] | None = None) -> list[LogDir]:
    """The log directories of one broker, with the sizes of its replicas."""
    wanted = None
    if topics is not None:
        wanted = [{"topic": topic.name, "partitions": [p.index for p in topic.partitions]} for topic in topics]
    answer = await client.call_broker(broker, apis.DESCRIBE_LOG_DIRS, {"topics": wanted})
    code = getattr(answer, "error_code", ErrorCode.none)
    if code is not ErrorCode.none:
        raise RefusedError(code, f"describing the log directories of broker {broker}")
    return [_log_dir(result) for result in answer.results]


async def describe_replica_logs(
    client: Client, brokers: Sequence[int], topics: Sequence[Topic]
) -> dict[int, dict[TopicPartition, ReplicaLog]]:
    """The replicas of each broker; a broker that does not answer is left out."""

    async def describe_broker(broker: int) -> tuple[int, dict[TopicPartition, ReplicaLog] | None]:
        try:
            log_dirs = await describe_log_dirs(client, broker, topics)
        except ClientError:
            return broker, None
        return broker, {key: replica for log_dir in log_dirs for key, replica in log_dir.replicas.items()}

    answers = await asyncio.gather(*(describe_broker(broker) for broker in brokers))
    return {broker: replicas for broker, replicas in answers if replicas is not None}


def _offset(entry: Any) -> Offset:
    return Offset(entry.offset, entry.timestamp, getattr(entry, "leader_epoch", -1), entry.error_code)


def _log_dir(result: Any) -> LogDir:
    replicas = {
        (topic.name, p.partition_index): ReplicaLog(p.partition_size, p.offset_lag, result.log_dir)
        for topic in result.topics
        for p in topic.partitions
        if not p.is_future_key
    }
    return LogDir(
        path=result.log_dir,
        error=result.error_code,
        total_bytes=getattr(result, "total_bytes", -1),
        usable_bytes=getattr(result, "usable_bytes", -1),
        replicas=replicas,
    )
