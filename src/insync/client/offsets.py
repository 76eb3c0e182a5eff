"""Where logs begin and end: ListOffsets, OffsetForLeaderEpoch and DescribeLogDirs.

A leader tells consumers its high watermark. Asked as a debugging replica (-2), any replica tells its own log end: that
is how a follower's progress can be seen from outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from insync.client import apis
from insync.client.cluster import Cluster
from insync.client.errors import ClientError, ErrorCode, NoAnswer, Refused, check
from insync.client.model import NOBODY, Key, LogDir, Offset, Partition, ReplicaLog, Topic
from insync.client.topics import describe
from insync.wire.types import ms

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
CONSUMER, DEBUGGER = -1, -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


async def of_leaders(
    cluster: Cluster, topics: Sequence[Topic], timestamp: int = LATEST, *, isolation: int = READ_UNCOMMITTED
) -> dict[Key, Offset]:
    """One offset of every partition, from its leader; what cannot be told carries its error."""
    wanted = {(topic.name, p.index): timestamp for topic in topics for p in topic.partitions}
    return await of_partitions(cluster, topics, wanted, isolation=isolation)


async def of_partitions(
    cluster: Cluster,
    topics: Sequence[Topic],
    wanted: Mapping[Key, int],
    *,
    isolation: int = READ_UNCOMMITTED,
    timeout: float | None = None,
) -> dict[Key, Offset]:
    """Offsets for a timestamp of each partition's own."""
    known = {(topic.name, p.index): p for topic in topics for p in topic.partitions}
    found: dict[Key, Offset] = {}
    by_leader: dict[int, dict[Key, int]] = {}
    for key, timestamp in wanted.items():
        if key not in known or known[key].leader == NOBODY:
            found[key] = Offset(-1, error=ErrorCode.leader_not_available)
        else:
            by_leader.setdefault(known[key].leader, {})[key] = timestamp
    epochs = {key: partition.leader_epoch for key, partition in known.items()}
    answers = await asyncio.gather(
        *(
            of_replicas(cluster, leader, keys, isolation=isolation, epochs=epochs, timeout=timeout)
            for leader, keys in by_leader.items()
        )
    )
    for answer in answers:
        found |= answer
    return found


async def told(
    cluster: Cluster, wanted: Mapping[Key, int], *, known: Sequence[Topic] = (), isolation: int = READ_UNCOMMITTED
) -> dict[Key, Offset]:
    """As `of_partitions`, and none with an error: while leaders change, they are looked up and asked again. `known` are
    the topics where they have been looked up just now."""
    names = sorted({topic for topic, _ in wanted})

    async def attempt() -> dict[Key, Offset]:
        nonlocal known
        asked = known or await describe(cluster, names)
        known = ()  # if it fails, leaders may have changed
        found = await of_partitions(cluster, asked, wanted, isolation=isolation, timeout=cluster.answer_s)
        for (topic, index), offset in found.items():
            check(offset.error, f"asking for the offsets of {topic}-{index}")
        return found

    return await cluster.retrying(attempt) if wanted else {}


async def of_replicas(
    cluster: Cluster,
    broker: int,
    wanted: Mapping[Key, int],
    replica: int = CONSUMER,
    *,
    isolation: int = READ_UNCOMMITTED,
    epochs: Mapping[Key, int] | None = None,
    timeout: float | None = None,
) -> dict[Key, Offset]:
    """What one broker says; if it cannot be reached, each carries NETWORK_EXCEPTION. With `epochs`, only as the leader
    of these epochs (F3)."""
    topics: dict[str, list[dict[str, int]]] = {}
    for (topic, index), timestamp in wanted.items():
        epoch = -1 if epochs is None else epochs[topic, index]
        entry = {"partition_index": index, "current_leader_epoch": epoch, "timestamp": timestamp, "max_num_offsets": 1}
        topics.setdefault(topic, []).append(entry)
    values = {
        "replica_id": replica,
        "isolation_level": isolation,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        "timeout": ms(int(cluster.timeout * 1000)),
    }
    try:
        answer = await cluster.ask_broker(broker, apis.LIST_OFFSETS, values, timeout=timeout)
    except NoAnswer:
        return {key: Offset(-1, error=ErrorCode.network_exception) for key in wanted}
    return {(topic.name, p.partition_index): _offset(p) for topic in answer.topics for p in topic.partitions}


async def log_ends(cluster: Cluster, broker: int, keys: Sequence[Key]) -> dict[Key, Offset]:
    """The log end offset of the replicas that one broker has, leader or not."""
    return await of_replicas(cluster, broker, dict.fromkeys(keys, LATEST), DEBUGGER)


async def epoch_end(
    cluster: Cluster, topic: str, partition: Partition, epoch: int, *, timeout: float | None = None
) -> Offset:
    """Where the leader's log ends the newest epoch that is not above `epoch`."""
    if partition.leader == NOBODY:
        return Offset(-1, error=ErrorCode.leader_not_available)
    asked = {"partition": partition.index, "current_leader_epoch": partition.leader_epoch, "leader_epoch": epoch}
    values = {"replica_id": DEBUGGER, "topics": [{"topic": topic, "partitions": [asked]}]}
    try:
        answer = await cluster.ask_broker(partition.leader, apis.OFFSET_FOR_LEADER_EPOCH, values, timeout=timeout)
    except NoAnswer:
        return Offset(-1, error=ErrorCode.network_exception)
    (found,) = (p for each in answer.topics for p in each.partitions)
    return Offset(found.end_offset, leader_epoch=found.leader_epoch, error=found.error_code)


async def log_dirs(cluster: Cluster, broker: int, topics: Sequence[Topic] | None = None) -> list[LogDir]:
    """The log directories of one broker with the sizes of its replicas."""
    wanted = None
    if topics is not None:
        wanted = [{"topic": topic.name, "partitions": [p.index for p in topic.partitions]} for topic in topics]
    answer = await cluster.ask_broker(broker, apis.DESCRIBE_LOG_DIRS, {"topics": wanted})
    code = getattr(answer, "error_code", ErrorCode.none)
    if code is not ErrorCode.none:
        raise Refused(code, f"asking broker {broker} for its log directories")
    return [_log_dir(result) for result in answer.results]


async def sizes(cluster: Cluster, brokers: Sequence[int], topics: Sequence[Topic]) -> dict[int, dict[Key, ReplicaLog]]:
    """Replica sizes by broker; a broker that does not answer is left out."""

    async def of(broker: int) -> tuple[int, dict[Key, ReplicaLog] | None]:
        try:
            found = await log_dirs(cluster, broker, topics)
        except ClientError:
            return broker, None
        return broker, {key: replica for entry in found for key, replica in entry.replicas.items()}

    answers = await asyncio.gather(*(of(broker) for broker in brokers))
    return {broker: found for broker, found in answers if found is not None}


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
