"""How unevenly a cluster is loaded: totals by broker and by topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from insync.client.model import TopicPartition
from insync.pipeline.capacity.cluster_load import BrokerNode, PartitionLoad
from insync.pipeline.capacity.growth import Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    id: int
    rack: str | None
    active: bool
    known: bool
    size: int
    """Bytes of its replicas, and of directories that the metadata log does not know."""
    stray_size: int
    records: int
    replicas: int
    leaders: int
    preferred: int
    """Partitions whose preferred leader it is."""
    led_size: int
    """Bytes of the partitions that it leads."""
    size_per_hour: float
    records_per_hour: float
    disk: int | None = None
    full_days: float | None = None
    """After how many days its disk is full; None if unknown, or not for years."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLoad:
    topic: str
    partitions: int
    replicas: int
    size: int
    """Bytes on all brokers."""
    records: int
    size_per_hour: float
    """On all brokers."""
    records_per_hour: float
    skew: float
    """The size of its largest partition by the mean of all."""


def load_brokers(
    nodes: Sequence[BrokerNode], partitions: Sequence[PartitionLoad], rates: Sequence[Rate]
) -> list[BrokerLoad]:
    held: dict[int, list[tuple[PartitionLoad, Rate]]] = {node.id: [] for node in nodes}
    for partition, rate in zip(partitions, rates, strict=True):
        for broker in partition.replicas:
            if broker in held:
                held[broker].append((partition, rate))
    loads = []
    for node in nodes:
        own = held[node.id]
        led = [partition for partition, _ in own if partition.leader == node.id]
        loads.append(
            BrokerLoad(
                id=node.id,
                rack=node.rack,
                active=node.active,
                known=node.known,
                size=sum(partition.size_on(node.id) for partition, _ in own) + node.stray_size,
                stray_size=node.stray_size,
                records=sum(partition.records for partition, _ in own),
                replicas=len(own),
                leaders=len(led),
                preferred=sum(partition.replicas[0] == node.id for partition, _ in own),
                led_size=sum(partition.size for partition in led),
                size_per_hour=sum(rate.size for _, rate in own),
                records_per_hour=sum(rate.records for _, rate in own),
            )
        )
    return loads


def load_topics(partitions: Sequence[PartitionLoad], rates: Mapping[TopicPartition, Rate]) -> list[TopicLoad]:
    """Largest first."""
    by_topic: dict[str, list[PartitionLoad]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition)
    loads = []
    for topic, own in by_topic.items():
        sizes = [partition.size for partition in own]
        loads.append(
            TopicLoad(
                topic=topic,
                partitions=len(own),
                replicas=sum(len(partition.replicas) for partition in own),
                size=sum(partition.size_on(broker) for partition in own for broker in partition.replicas),
                records=sum(partition.records for partition in own),
                size_per_hour=sum(rates[partition.key].size * len(partition.replicas) for partition in own),
                records_per_hour=sum(rates[partition.key].records for partition in own),
                skew=measure_skew(sizes),
            )
        )
    return sorted(loads, key=lambda load: (-load.size, load.topic))


def measure_skew(values: Sequence[float]) -> float:
    """The largest value by the mean: 1 if all are equal."""
    mean = sum(values) / len(values) if values else 0.0
    return max(values) / mean if mean else 1.0
