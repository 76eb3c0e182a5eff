"""Everything that a client can find out about one partition.

Metadata names the replicas. How far each of them is comes from the replicas themselves: their log end offsets, listed
twice to see their speed, and how much of each log the leader has too, by comparing leader epochs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from insync.client import admin, offsets, topics
from insync.client.client import Client
from insync.client.errors import ClientError, ErrorCode, UnsupportedError
from insync.client.model import NO_NODE, ClusterInfo, Offset, Partition, Reassignment, ReplicaLog, Topic, TopicPartition
from insync.findings import CONFIG_KEY, Finding, decode

MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"
RECOVERY_STRATEGY = "unclean.recovery.strategy"

Status = Literal["live", "fenced", "gone", "unreachable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFacts:
    broker: int
    status: Status
    end: int | None = None
    """Its log end offset; None if unknown."""
    last_epoch: int = -1
    shared: int | None = None
    """The offset up to which its log equals the leader's; None if there is no leader to compare with."""
    earlier_end: int | None = None
    size: int | None = None
    error: ErrorCode = ErrorCode.none
    findings: tuple[Finding, ...] = ()
    """What its broker reports about it; only insync's brokers do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    topic: str
    partition: Partition
    replicas: tuple[ReplicaFacts, ...]
    min_isr: int
    """The effective value: never more than the number of replicas."""
    unclean_election: bool = False
    strategy: str = ""
    hwm: int | None = None
    earlier_hwm: int | None = None
    hwm_error: ErrorCode = ErrorCode.none
    leso: int | None = None
    seconds: float = 0.0
    reassignment: Reassignment | None = None

    def replica(self, broker: int) -> ReplicaFacts:
        return next(r for r in self.replicas if r.broker == broker)

    @property
    def leader_end(self) -> int | None:
        leader = self.partition.leader
        return None if leader not in self.partition.replicas else self.replica(leader).end


async def gather_facts(client: Client, name: str, index: int, interval: float = 0.5) -> PartitionFacts:
    topic, partition = await topics.describe_partition(client, name, index)
    info = await client.describe_cluster()
    key = (topic.name, index)
    alone = Topic(name=topic.name, id=topic.id, partitions=(partition,))
    status = {broker: _status(info, broker) for broker in partition.replicas}
    first = await _ends(client, key, status)
    early = (await offsets.list_leader_offsets(client, [alone]))[key]
    await asyncio.sleep(interval)
    second = await _ends(client, key, status)
    late = (await offsets.list_leader_offsets(client, [alone]))[key]
    sizes = await offsets.describe_replica_logs(client, [b for b, s in status.items() if s == "live"], [alone])
    shared = {broker: await _shared(client, partition, key, second.get(broker)) for broker in partition.replicas}
    live = [broker for broker, s in status.items() if s == "live"]
    reported = dict(
        zip(live, await asyncio.gather(*(list_node_findings(client, broker) for broker in live)), strict=True)
    )
    settings = (
        await topics.describe_topic_configs(client, [name], [MIN_ISR, UNCLEAN_ELECTION, RECOVERY_STRATEGY])
    ).get(name, {})
    return PartitionFacts(
        topic=topic.name,
        partition=partition,
        replicas=tuple(
            replace(
                _replica(broker, status[broker], first, second, shared[broker], sizes.get(broker, {}).get(key)),
                findings=tuple(f for f in reported.get(broker, ()) if f.subject == f"{topic.name}-{index}"),
            )
            for broker in partition.replicas
        ),
        min_isr=effective_min_isr(settings.get(MIN_ISR), partition),
        unclean_election=settings.get(UNCLEAN_ELECTION) == "true",
        strategy=settings.get(RECOVERY_STRATEGY, ""),
        hwm=_known(late),
        earlier_hwm=_known(early),
        hwm_error=late.error,
        leso=await _leso(client, partition, key),
        seconds=interval,
        reassignment=await _reassignment(client, key),
    )


async def list_node_findings(client: Client, broker: int) -> Sequence[Finding]:
    """What a broker reports about itself; with NO_NODE, any broker. Empty if it does not answer or is not insync's."""
    name = "" if broker == NO_NODE else str(broker)
    return await _findings(client, name, through_any=False) or ()


async def list_controller_findings(client: Client, controller: int) -> Sequence[Finding] | None:
    """What a dedicated controller reports about itself, through a broker; None if it does not answer."""
    return await _findings(client, str(controller), through_any=True)


async def _findings(client: Client, name: str, *, through_any: bool) -> Sequence[Finding] | None:
    try:
        configs = await topics.describe_configs(
            client, name, kind=topics.BROKER, keys=[CONFIG_KEY], through_any=through_any
        )
    except ClientError:
        return None
    entry = configs.get(CONFIG_KEY)
    return decode(entry.value or "") if entry is not None else ()


def effective_min_isr(value: str | None, partition: Partition) -> int:
    """H1: a topic with fewer replicas than min.insync.replicas needs all of them."""
    wanted = int(value) if value and value.isdecimal() else 1
    return min(wanted, len(partition.replicas))


async def _ends(client: Client, key: TopicPartition, status: dict[int, Status]) -> dict[int, Offset]:
    live = [broker for broker, s in status.items() if s == "live"]
    answers = await asyncio.gather(*(offsets.list_log_ends(client, broker, [key]) for broker in live))
    return {broker: answer[key] for broker, answer in zip(live, answers, strict=True) if key in answer}


async def _shared(client: Client, partition: Partition, key: TopicPartition, end: Offset | None) -> int | None:
    """D2, D3: a log equals the leader's up to the end of its last epoch in the leader's log."""
    if end is None or end.error is not ErrorCode.none or partition.leader == NO_NODE:
        return None
    if end.leader_epoch < 0 or end.leader_epoch == partition.leader_epoch:
        return end.offset
    there = await offsets.find_epoch_end(client, key[0], partition, end.leader_epoch)
    if there.error is not ErrorCode.none or there.offset < 0:
        return None
    return min(end.offset, there.offset)


async def _leso(client: Client, partition: Partition, key: TopicPartition) -> int | None:
    """The leader's epoch starts where the previous one ended."""
    if partition.leader == NO_NODE or partition.leader_epoch <= 0:
        return 0 if partition.leader_epoch == 0 else None
    before = await offsets.find_epoch_end(client, key[0], partition, partition.leader_epoch - 1)
    return before.offset if before.error is ErrorCode.none and before.offset >= 0 else None


async def _reassignment(client: Client, key: TopicPartition) -> Reassignment | None:
    try:
        running = await admin.list_reassignments(client)
    except (UnsupportedError, ClientError):
        return None  # the other facts are useful without it
    return next((r for r in running if (r.topic, r.partition) == key), None)


def _status(info: ClusterInfo, broker: int) -> Status:
    registered = next((known for known in info.brokers if known.id == broker), None)
    if registered is None:
        return "gone" if info.includes_fenced else "fenced"
    return "fenced" if registered.fenced else "live"


def _replica(
    broker: int,
    status: Status,
    first: dict[int, Offset],
    second: dict[int, Offset],
    shared: int | None,
    log: ReplicaLog | None,
) -> ReplicaFacts:
    end = second.get(broker, Offset(-1))
    if status == "live" and end.error is ErrorCode.network_exception:
        return ReplicaFacts(broker=broker, status="unreachable", error=end.error)
    return ReplicaFacts(
        broker=broker,
        status=status,
        end=_known(end),
        last_epoch=end.leader_epoch,
        shared=shared,
        earlier_end=_known(first.get(broker, Offset(-1))),
        size=None if log is None else log.size,
        error=end.error,
    )


def _known(offset: Offset) -> int | None:
    return offset.offset if offset.error is ErrorCode.none and offset.offset >= 0 else None
