"""The progress of reassignments: two samples give the bytes left, a rate and an estimate of the time (R6).

What a new replica still has to copy is the leader's size less its own. Sizes differ a little because segments are
rolled at different offsets, so the log end offsets decide whether a replica is complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from insync.client import admin, offsets, topics
from insync.client.client import Client
from insync.client.errors import ErrorCode, UnknownTopicError
from insync.client.model import Partition, Reassignment, Topic, TopicPartition


@dataclass(frozen=True, slots=True)
class ReplicaCopy:
    """One replica's log in one sample; None if unknown."""

    size: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    partitions: Mapping[TopicPartition, Partition]
    copies: Mapping[tuple[TopicPartition, int], ReplicaCopy]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    reassignment: Reassignment
    bytes_left: int | None
    bytes_per_s: float | None
    seconds_left: float | None
    blocker: int | None
    """The broker that the reassignment waits for."""
    reason: str


async def measure_progress(client: Client, interval: float) -> list[Progress]:
    running = await admin.list_reassignments(client)
    if not running:
        return []
    first = await take_sample(client, running)
    await asyncio.sleep(interval)
    second = await take_sample(client, running)
    return [estimate_progress(r, first, second, interval) for r in running]


async def take_sample(client: Client, running: Sequence[Reassignment]) -> Sample:
    names = sorted({r.topic for r in running})
    described = await _describe_existing(client, names)
    keys = [(r.topic, r.partition) for r in running]
    partitions = {key: partition for topic in described for key, partition in _matching(topic, keys)}
    brokers = sorted({b for p in partitions.values() for b in p.replicas} & set(client.brokers))
    sizes = await offsets.describe_replica_logs(client, brokers, _only(described, partitions))
    hosted = {b: [key for key, p in partitions.items() if b in p.replicas] for b in brokers}
    ends = dict(
        zip(brokers, await asyncio.gather(*(offsets.list_log_ends(client, b, hosted[b]) for b in brokers)), strict=True)
    )
    copies: dict[tuple[TopicPartition, int], ReplicaCopy] = {}
    for broker in brokers:
        for key in hosted[broker]:
            log, end = sizes.get(broker, {}).get(key), ends[broker].get(key)
            known = end is not None and end.error is ErrorCode.none
            copies[key, broker] = ReplicaCopy(log.size if log else None, end.offset if known and end else None)
    return Sample(partitions=partitions, copies=copies)


def estimate_progress(r: Reassignment, first: Sample, second: Sample, seconds: float) -> Progress:
    key = (r.topic, r.partition)
    partition = second.partitions.get(key)
    if partition is None:
        return _done_copying(r, "the topic was deleted")
    waiting = [broker for broker in r.adding if broker not in partition.isr]
    if not waiting:
        return _done_copying(r, _why_not_done(r, partition))
    left = {broker: _left(second, key, partition.leader, broker) for broker in waiting}
    before = {broker: _left(first, key, partition.leader, broker) for broker in waiting}
    blocker = max(waiting, key=lambda broker: (left[broker] is None, left[broker] or 0, broker))
    return _copying(r, left, before, blocker, seconds, second)


def _copying(
    r: Reassignment,
    left: dict[int, int | None],
    before: dict[int, int | None],
    blocker: int,
    seconds: float,
    now: Sample,
) -> Progress:
    total = None if None in left.values() else sum(value or 0 for value in left.values())
    earlier = None if None in before.values() else sum(value or 0 for value in before.values())
    rate = None if total is None or earlier is None or seconds <= 0 else max(0.0, (earlier - total) / seconds)
    return Progress(
        reassignment=r,
        bytes_left=total,
        bytes_per_s=rate,
        seconds_left=total / rate if total is not None and rate else 0.0 if total == 0 else None,
        blocker=blocker,
        reason=_why_waiting(r, blocker, left[blocker], rate, now),
    )


def _left(sample: Sample, key: TopicPartition, leader: int, broker: int) -> int | None:
    theirs, own = sample.copies.get((key, leader), ReplicaCopy()), sample.copies.get((key, broker), ReplicaCopy())
    if theirs.size is None or own.size is None:
        return None
    if theirs.end is not None and own.end is not None and own.end >= theirs.end:
        return 0
    return max(0, theirs.size - own.size)


def _why_waiting(r: Reassignment, blocker: int, left: int | None, rate: float | None, now: Sample) -> str:
    key = (r.topic, r.partition)
    if (key, blocker) not in now.copies:
        return f"broker {blocker} is not running"
    if left is None:
        return f"the progress of broker {blocker} is unknown"
    own, leader = now.copies[key, blocker].end, now.copies.get((key, now.partitions[key].leader), ReplicaCopy()).end
    behind = "" if own is None or leader is None else f", {max(0, leader - own)} records behind"
    if left == 0:
        return f"broker {blocker} is complete and about to join the ISR"
    if not rate:
        return f"broker {blocker} makes no progress{behind}: it is throttled, or its fetches fail"
    return f"broker {blocker} is copying{behind}"


def _why_not_done(r: Reassignment, partition: Partition) -> str:
    remaining = [broker for broker in r.target if broker in partition.isr]
    if len(remaining) < len(r.target):
        away = ", ".join(str(b) for b in r.target if b not in partition.isr)
        return f"all copies are made; the ISR without the old replicas would be {remaining}: {away} must join (R2)"
    return "all copies are made; the controller completes the reassignment with its next change"


def _done_copying(r: Reassignment, reason: str) -> Progress:
    return Progress(reassignment=r, bytes_left=0, bytes_per_s=None, seconds_left=0.0, blocker=None, reason=reason)


async def _describe_existing(client: Client, names: Sequence[str]) -> list[Topic]:
    described: list[Topic] = []
    for name in names:
        try:
            described += await topics.describe(client, [name])
        except UnknownTopicError:
            continue  # deleted meanwhile
    return described


def _matching(topic: Topic, keys: Sequence[TopicPartition]) -> list[tuple[TopicPartition, Partition]]:
    return [((topic.name, p.index), p) for p in topic.partitions if (topic.name, p.index) in keys]


def _only(described: Sequence[Topic], partitions: Mapping[TopicPartition, Partition]) -> list[Topic]:
    return [
        Topic(
            name=topic.name,
            id=topic.id,
            partitions=tuple(p for p in topic.partitions if (topic.name, p.index) in partitions),
        )
        for topic in described
    ]
