"""How full a cluster is, how it grows, what retention costs, and which reassignment would even it out.

report = run(spark, CapacityOptions(logs=("/data/node-*",), disks={1: 500_000_000_000}))
report.brokers                # bytes, leaders, growth, days until the disk is full
report.topics, report.costs   # growth and retention by topic
report.document               # the proposed reassignment, for `insync reassign start`
render_page(report)           # HTML
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from insync.client.model import TopicPartition
from insync.errors import InvariantError
from insync.logdir.files import list_replicas
from insync.logdir.options import END, ReadOptions
from insync.metadata.partition import NO_LEADER
from insync.ops.reassignment.balance import (
    DEFAULT_LIMITS,
    BalanceLimits,
    BrokerSpace,
    PartitionSize,
    find_faults,
    propose_moves,
    sum_loads,
)
from insync.ops.reassignment.copy_time import CopyEstimate, estimate_copies
from insync.ops.reassignment.plan import Move, to_document
from insync.pipeline.capacity.cluster_load import ClusterLoad, PartitionLoad, load_cluster
from insync.pipeline.capacity.growth import DAY_MS, Rate, find_full_days, measure_rate, sum_projections
from insync.pipeline.capacity.retention_cost import DEFAULT_CHANGES, Change, RetentionCost, cost_of_topic
from insync.pipeline.capacity.segment_sizes import HOUR_MS
from insync.pipeline.capacity.skew import BrokerLoad, TopicLoad, load_brokers, load_topics, measure_skew
from insync.pipeline.executors import run_on
from insync.pipeline.log_directories import check_broker_ids, to_read_options
from insync.pipeline.report.progress import OnProgress, ignore_progress
from insync.pipeline.session import run_command
from insync.pipeline.text import format_time, pluralize

ALL_BROKERS = -1
"""In `CapacityOptions.disks`: brokers that are not named."""


@dataclass(frozen=True, kw_only=True)
class CapacityOptions:
    logs: tuple[str, ...]
    """Log directories of brokers; may contain wildcards."""
    topics: tuple[str, ...] = ()
    """If empty, all but the metadata log."""
    brokers: tuple[int, ...] = ()
    """Broker ids of the directories, if their meta.properties files are missing."""
    disks: Mapping[int, int] = field(default_factory=dict)
    """Bytes that a broker may hold, by its id or ALL_BROKERS."""
    window_ms: int = 7 * DAY_MS
    """The period that growth is computed from."""
    until_ms: int | None = None
    """The end of that period; None: the time of the newest record."""
    changes: tuple[Change, ...] = DEFAULT_CHANGES
    """Of retention, to be compared with the present settings."""
    excluded: tuple[int, ...] = ()
    """Brokers that the proposal leaves alone."""
    limits: BalanceLimits = DEFAULT_LIMITS
    copy_within_s: float = 8 * 3_600

    def disk_of(self, broker: int) -> int | None:
        return self.disks.get(broker, self.disks.get(ALL_BROKERS))


@dataclass(frozen=True, kw_only=True)
class Capacity:
    cluster: ClusterLoad
    end_ms: int
    rates: dict[TopicPartition, Rate]
    brokers: tuple[BrokerLoad, ...]
    projections: dict[int, Any]
    """By broker: bytes at each of `growth.TIMES_MS`."""
    topics: tuple[TopicLoad, ...]
    """Largest first."""
    costs: tuple[RetentionCost, ...]
    """In the order of `topics`; empty without a metadata log."""
    moves: tuple[Move, ...]
    estimate: CopyEstimate
    sizes_after: dict[int, int]
    """Bytes by broker, once the reassignment is done."""
    preferred_after: dict[int, int]
    notes: tuple[str, ...]

    @property
    def skew(self) -> float:
        """The fullest broker by the mean of all."""
        return measure_skew([broker.size for broker in self.brokers])

    @property
    def skew_after(self) -> float:
        return measure_skew(list(self.sizes_after.values()))

    @property
    def document(self) -> dict[str, Any]:
        """The proposed reassignment in the format of Kafka's own tool."""
        return to_document(self.moves)

    @cached_property
    def hottest(self) -> list[PartitionLoad]:
        """Partitions by their rate of writes, then by their size."""
        return sorted(
            self.cluster.partitions,
            key=lambda partition: (-self.rates[partition.key].size, -partition.size, partition.key),
        )

    @cached_property
    def largest(self) -> list[PartitionLoad]:
        return sorted(self.cluster.partitions, key=lambda partition: (-partition.size, partition.key))

    @property
    def verdict(self) -> str:
        full = [broker for broker in self.brokers if broker.full_days is not None]
        sentences = [f"the fullest broker stores {self.skew:.2f} times the mean"]
        if self.moves:
            sentences.append(f"{self.skew_after:.2f} after the proposed reassignment")
        if full:
            first = min(full, key=lambda broker: (broker.full_days or 0.0, broker.id))
            sentences.append(f"the disk of broker {first.id} is full in {_format_days(first.full_days or 0.0)}")
        return "; ".join(sentences)

    def to_dict(self) -> dict[str, Any]:
        after = {"size_after": self.sizes_after, "preferred_after": self.preferred_after}
        return {
            "end": None if self.end_ms < 0 else format_time(self.end_ms),
            "skew": round(self.skew, 4),
            "brokers": [
                asdict(broker) | {name: values.get(broker.id) for name, values in after.items()}
                for broker in self.brokers
            ],
            "topics": [asdict(topic) for topic in self.topics],
            "partitions": [self._partition_to_dict(partition) for partition in self.cluster.partitions],
            "retention": [
                asdict(cost) | {"savings": [asdict(saving) | {"change": str(saving.change)} for saving in cost.savings]}
                for cost in self.costs
            ],
            "proposal": {
                "skew_after": round(self.skew_after, 4),
                **asdict(self.estimate),
                "partitions": len(self.moves),
                "plan": self.document,
            },
            "notes": list(self.notes),
        }

    def _partition_to_dict(self, partition: PartitionLoad) -> dict[str, Any]:
        rate, keys = self.rates[partition.key], partition.keys
        return {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(partition.replicas),
            "leader": None if partition.leader == NO_LEADER else partition.leader,
            "size": partition.size,
            "records": partition.records,
            "size_per_hour": round(rate.size, 1),
            "records_per_hour": round(rate.records, 1),
            "superseded": None if keys is None else asdict(keys) | {"superseded": keys.superseded},
        }


def check_options(options: CapacityOptions) -> None:
    """Raise `OptionError` or `ValueError` for what can be seen without Spark."""
    check_broker_ids(options.logs, options.brokers)
    list_replicas(replace(_to_read_options(options), bound=END))


def _to_read_options(options: CapacityOptions) -> ReadOptions:
    return to_read_options(options.logs, options.topics, options.brokers)


def read_capacity(options: CapacityOptions) -> Capacity:
    """Measures everything in this process."""
    return analyze(load_cluster(_to_read_options(options)), options)


def run(spark: SparkSession, options: CapacityOptions, on_progress: OnProgress = ignore_progress) -> Capacity:
    return analyze(load_cluster(_to_read_options(options), run_on(spark, on_progress)), options)


def analyze(cluster: ClusterLoad, options: CapacityOptions) -> Capacity:
    """From plain data to the report."""
    end_ms = cluster.end_ms if options.until_ms is None else options.until_ms
    rates = [measure_rate(partition, end_ms, options.window_ms) for partition in cluster.partitions]
    by_key = {partition.key: rate for partition, rate in zip(cluster.partitions, rates, strict=True)}
    projections = sum_projections(cluster.partitions, rates, end_ms, [node.id for node in cluster.brokers])
    brokers = []
    for broker in load_brokers(cluster.brokers, cluster.partitions, rates):
        projections[broker.id] = projections[broker.id] + broker.stray_size
        disk = options.disk_of(broker.id)
        full_days = None if disk is None else find_full_days(projections[broker.id], disk)
        brokers.append(replace(broker, disk=disk, full_days=full_days))
    topics = load_topics(cluster.partitions, by_key)
    costs = []
    for topic in topics:
        own = [partition for partition in cluster.partitions if partition.topic == topic.topic]
        cost = cost_of_topic(own, [by_key[partition.key] for partition in own], end_ms, options.changes)
        costs += [] if cost is None else [cost]
    partitions, spaces = _to_balance(cluster, brokers, options)
    moves = _propose(partitions, spaces, options.limits) if cluster.has_metadata else []
    sizes_after, preferred_after = _apply(moves, partitions, brokers)
    return Capacity(
        cluster=cluster,
        end_ms=end_ms,
        rates=by_key,
        brokers=tuple(brokers),
        projections=projections,
        topics=tuple(topics),
        costs=tuple(costs),
        moves=tuple(moves),
        estimate=estimate_copies(
            moves,
            {partition.key: partition.size for partition in cluster.partitions},
            {partition.key: partition.leader for partition in cluster.partitions if partition.leader != NO_LEADER},
            {key: rate.size * 1_000 / HOUR_MS for key, rate in by_key.items()},
            options.copy_within_s,
        ),
        sizes_after=sizes_after,
        preferred_after=preferred_after,
        notes=tuple(_list_notes(cluster, options)),
    )


def _to_balance(
    cluster: ClusterLoad, brokers: Sequence[BrokerLoad], options: CapacityOptions
) -> tuple[list[PartitionSize], list[BrokerSpace]]:
    partitions = [
        PartitionSize(
            topic=partition.topic,
            partition=partition.partition,
            replicas=partition.replicas,
            size=partition.size,
            can_move=not partition.reassigning,
        )
        for partition in cluster.partitions
    ]
    spaces = [
        BrokerSpace(
            id=broker.id,
            rack=broker.rack,
            used=broker.size,
            disk=broker.disk,
            can_take=broker.active and broker.id not in options.excluded,
        )
        for broker in brokers
    ]
    return partitions, spaces


def _propose(partitions: list[PartitionSize], spaces: list[BrokerSpace], limits: BalanceLimits) -> list[Move]:
    moves = propose_moves(partitions, spaces, limits)
    if faults := find_faults(partitions, spaces, moves, limits):
        raise InvariantError("R1", f"the proposed reassignment is not valid: {'; '.join(faults)}")
    return moves


def _apply(
    moves: Sequence[Move], partitions: Sequence[PartitionSize], brokers: Sequence[BrokerLoad]
) -> tuple[dict[int, int], dict[int, int]]:
    """Bytes and preferred leaders by broker after the moves."""
    everywhere = [BrokerSpace(id=broker.id) for broker in brokers]
    after = {(move.topic, move.partition): move.after for move in moves}
    moved = [replace(partition, replicas=after.get(partition.key, partition.replicas)) for partition in partitions]
    loads, new_loads = sum_loads(partitions, everywhere), sum_loads(moved, everywhere)
    sizes = {broker.id: broker.size + new_loads[broker.id] - loads[broker.id] for broker in brokers}
    preferred = dict.fromkeys(sizes, 0)
    for partition in moved:
        if partition.replicas and partition.replicas[0] in preferred:
            preferred[partition.replicas[0]] += 1
    return sizes, preferred


def _list_notes(cluster: ClusterLoad, options: CapacityOptions) -> list[str]:
    """What limits the report."""
    notes = []
    if not cluster.has_metadata:
        notes.append(
            "there is no metadata log beside the logs: leaders, racks and retention are unknown, "
            "and no reassignment is proposed"
        )
    if unknown := [str(node.id) for node in cluster.brokers if not node.known]:
        notes.append(
            f"no directories of {_name_brokers(unknown)} were given: their sizes are those of the other replicas"
        )
    if fenced := [str(node.id) for node in cluster.brokers if not node.active and node.id not in options.excluded]:
        notes.append(f"{_name_brokers(fenced)} fenced: the proposal leaves their replicas alone")
    reassigning = sum(partition.reassigning for partition in cluster.partitions)
    if reassigning:
        notes.append(f"{pluralize(reassigning, 'partition')} being reassigned: the proposal leaves them alone")
    notes += [
        f"broker {node.id} has {node.stray_size:,} bytes of logs that are not in the metadata log: "
        "`insync pipeline audit` lists them"
        for node in cluster.brokers
        if node.stray_size
    ]
    if cluster.unread:
        notes.append(
            f"{cluster.unread:,} bytes of segments are no valid batches: `insync pipeline audit` says where and why"
        )
    return notes


def _name_brokers(ids: Sequence[str]) -> str:
    return f"broker{'s' if len(ids) > 1 else ''} {', '.join(ids)}"


def _format_days(days: float) -> str:
    return f"{days:.0f} days" if days >= 3 else f"{days * 24:.0f} h"


def main(argv: Sequence[str] | None = None) -> None:
    run_command("capacity", argv)


if __name__ == "__main__":
    main()
