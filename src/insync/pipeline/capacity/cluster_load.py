"""What each partition and broker of a cluster holds, by its log directories and its metadata log.

All replicas are measured by the sizes of their files, and one replica of each partition, the leader's if its directory
is given, by what is in them. A broker whose directories are not given is taken to hold as much of each partition as the
other replicas do. Directories that the metadata log does not know are strays: they take space and belong to nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from insync.client.model import TopicPartition
from insync.logdir.files import Replica, Segment, list_replicas, plan_segments_of
from insync.logdir.options import END, ReadOptions
from insync.metadata.image import Image
from insync.metadata.partition import NO_LEADER
from insync.pipeline.audit.cluster_metadata import find_compacted, load_metadata
from insync.pipeline.audit.inventory import NodeDirectory, read_nodes, read_partition_metadata
from insync.pipeline.capacity.segment_sizes import Hours, SegmentSize, SegmentTask, add_hours, measure_segment
from insync.pipeline.capacity.superseded import KeyShare, measure_keys
from insync.pipeline.executors import RunTasks, run_here
from insync.storage.file_names import LOG, parse_file_name


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    retention_ms: int
    """-1: no limit."""
    retention_bytes: int
    deletes: bool
    compacts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoad:
    topic: str
    partition: int
    replicas: tuple[int, ...]
    """The preferred leader first, if there is a metadata log."""
    leader: int = NO_LEADER
    reassigning: bool = False
    replica_sizes: dict[int, int] = field(default_factory=dict)
    """Bytes by broker, of the directories that were given."""
    segments: tuple[SegmentSize, ...] = ()
    """Of the measured replica."""
    log_start: int = 0
    hwm: int = 0
    settings: RetentionSettings | None = None
    """None if there is no metadata log."""
    keys: KeyShare | None = None
    """Of a compacted topic."""

    @property
    def key(self) -> TopicPartition:
        return self.topic, self.partition

    @property
    def size(self) -> int:
        """Bytes of its largest replica: what a copy of it takes."""
        return max(self.replica_sizes.values(), default=0)

    @property
    def records(self) -> int:
        return sum(segment.records for segment in self.segments)

    @property
    def hours(self) -> Hours:
        total: Hours = {}
        for segment in self.segments:
            add_hours(total, segment.hours)
        return total

    @property
    def first_ms(self) -> int:
        """The time of the oldest record; -1 if there is none."""
        return min((segment.first_ms for segment in self.segments if segment.first_ms >= 0), default=-1)

    def size_on(self, broker: int) -> int:
        return self.replica_sizes.get(broker, self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerNode:
    id: int
    rack: str | None = None
    active: bool = True
    """False if it is fenced, and neither stopped cleanly nor with all others."""
    known: bool = True
    """Whether its directories were given."""
    stray_size: int = 0
    """Bytes of directories that the metadata log does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLoad:
    partitions: tuple[PartitionLoad, ...]
    brokers: tuple[BrokerNode, ...]
    has_metadata: bool
    unread: int = 0
    """Bytes of the measured segments that are no valid batches."""

    @property
    def end_ms(self) -> int:
        """The time of the newest record; -1 if there is none."""
        return max(
            (segment.max_timestamp for partition in self.partitions for segment in partition.segments), default=-1
        )


def load_cluster(options: ReadOptions, run_tasks: RunTasks = run_here) -> ClusterLoad:
    options = ReadOptions(paths=options.paths, brokers=options.brokers, topics=options.topics, bound=END)
    nodes = read_nodes(options)
    metadata = load_metadata(nodes)
    image = metadata.image
    replicas = list_replicas(options)
    strays = [replica for replica in replicas if image is not None and not _is_assigned(image, replica)]
    known_strays = set(strays)
    own = [replica for replica in replicas if replica not in known_strays]
    sizes = {replica: _list_segment_sizes(replica.directory) for replica in replicas}
    measured = choose_measured(own, sizes, image)
    compacted = find_compacted(nodes, metadata, sorted({replica.topic for replica in own}))
    tasks = [
        (key, task)
        for key, replica in measured.items()
        for task in _plan_segments(replica, sizes[replica], key[0] in compacted)
    ]
    total = sum(sum(sizes[replica].values()) for replica in measured.values())
    results = run_tasks([task for _, task in tasks], measure_segment, what="segments", size=total)
    segments: dict[TopicPartition, list[SegmentSize]] = {key: [] for key in measured}
    for (key, _), segment in zip(tasks, results, strict=True):
        segments[key].append(segment)
    with_keys = {key: _plan_keys(replica, options) for key, replica in measured.items() if key[0] in compacted}
    shares = run_tasks(list(with_keys.values()), measure_keys, what="keys of compacted topics", size=total)
    keys = dict(zip(with_keys, shares, strict=True))
    replica_sizes: dict[TopicPartition, dict[int, int]] = {}
    for replica in own:
        replica_sizes.setdefault((replica.topic, replica.partition), {})[replica.broker] = sum(sizes[replica].values())
    partitions = []
    for key in sorted({*measured, *_list_partitions(image, options)}):
        held_sizes = replica_sizes.get(key, {})
        held = measured.get(key)
        known = None if image is None else image.find(*key)
        partitions.append(
            PartitionLoad(
                topic=key[0],
                partition=key[1],
                replicas=tuple(sorted(held_sizes)) if known is None else known.replicas,
                leader=NO_LEADER if known is None else known.leader,
                reassigning=known is not None and bool(known.adding or known.removing),
                replica_sizes=held_sizes,
                segments=tuple(segments.get(key, ())),
                log_start=0 if held is None else held.log_start,
                hwm=0 if held is None else held.hwm or 0,
                settings=None if image is None else _read_settings(image, key[0]),
                keys=keys.get(key),
            )
        )
    return ClusterLoad(
        partitions=tuple(partitions),
        brokers=_list_brokers(image, nodes, strays, sizes),
        has_metadata=image is not None,
        unread=sum(segment.unread for segment in results),
    )


def choose_measured(
    replicas: Sequence[Replica], sizes: dict[Replica, dict[int, int]], image: Image | None
) -> dict[TopicPartition, Replica]:
    """The leader's replica; if its directory is not given, the largest one."""
    chosen: dict[TopicPartition, Replica] = {}
    for replica in replicas:
        key = (replica.topic, replica.partition)
        known = None if image is None else image.find(*key)
        leader = NO_LEADER if known is None else known.leader

        def rank(candidate: Replica, leader: int = leader) -> tuple[bool, int, int]:
            return candidate.broker == leader, sum(sizes[candidate].values()), -candidate.broker

        if key not in chosen or rank(replica) > rank(chosen[key]):
            chosen[key] = replica
    return dict(sorted(chosen.items()))


def _is_assigned(image: Image, replica: Replica) -> bool:
    partition = image.find(replica.topic, replica.partition)
    if partition is None or replica.broker not in partition.replicas:
        return False
    identity = read_partition_metadata(replica.directory)
    return identity is None or identity.topic_id == partition.topic_id


def _list_segment_sizes(directory: str) -> dict[int, int]:
    """Bytes by base offset, without files that a running broker deletes meanwhile."""
    sizes = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            base = parse_file_name(entry.name, LOG)
            if base is not None:
                try:
                    sizes[base] = entry.stat().st_size
                except FileNotFoundError:
                    continue
    return dict(sorted(sizes.items()))


def _plan_segments(replica: Replica, sizes: dict[int, int], compacted: bool) -> list[SegmentTask]:
    return [
        SegmentTask(os.path.join(replica.directory, f"{base:020d}{LOG}"), base, following, compacted)
        for base, following in pairwise([*sizes, None])
        if base is not None
    ]


def _plan_keys(replica: Replica, options: ReadOptions) -> tuple[Segment, ...]:
    return tuple(plan_segments_of([replica], options))


def _list_partitions(image: Image | None, options: ReadOptions) -> list[TopicPartition]:
    """Also those of which no directory is given."""
    if image is None:
        return []
    wanted = [
        partition for partition in image.all_partitions() if partition.topic in (options.topics or image.topic_ids)
    ]
    return [(partition.topic, partition.index) for partition in wanted]


def _read_settings(image: Image, topic: str) -> RetentionSettings:
    policy = image.config(topic, "cleanup.policy")
    names = policy if isinstance(policy, tuple) else tuple(str(policy).split(","))
    return RetentionSettings(
        retention_ms=int(image.config(topic, "retention.ms")),  # type: ignore[arg-type]
        retention_bytes=int(image.config(topic, "retention.bytes")),  # type: ignore[arg-type]
        deletes="delete" in names,
        compacts="compact" in names,
    )


def _list_brokers(
    image: Image | None,
    nodes: Sequence[NodeDirectory],
    strays: Sequence[Replica],
    sizes: dict[Replica, dict[int, int]],
) -> tuple[BrokerNode, ...]:
    """Without the nodes that are no brokers. If all brokers are fenced, the cluster was stopped."""
    given = {node.broker for node in nodes}
    stopped = {node.broker for node in nodes if any(root.clean is not None for root in node.roots)}
    registered = {} if image is None else image.brokers
    active = {broker.id for broker in registered.values() if broker.is_active} or set(registered)
    stray_sizes = dict.fromkeys(given, 0)
    for replica in strays:
        stray_sizes[replica.broker] += sum(sizes[replica].values())
    return tuple(
        BrokerNode(
            id=broker,
            rack=registered[broker].rack if broker in registered else None,
            active=image is None or broker in active or broker in stopped,
            known=broker in given,
            stray_size=stray_sizes.get(broker, 0),
        )
        for broker in sorted(given if image is None else registered)
    )
