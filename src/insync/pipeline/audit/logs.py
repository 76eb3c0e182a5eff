"""Checks the replicas' logs of a cluster: each by itself, the replicas of a partition against each other, and all
against what the metadata and the checkpoints say should be there.

One job reads every segment once (`segments`), one task per segment. Its results are small: digests of stretches, the
ends of segments, findings. The driver puts them together (`log_ends`), and stretches with different digests are read
again by a second job (`log_matching`). Replicas of compacted topics drop records at different times, so only records at
the same offset are compared there (`compacted_records`). What is not in segments is checked by `placement`,
`replica_files` and `quorum_files`.

None of it knows Spark: `run_tasks` runs tasks here, or wherever `job` lets them run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from insync.client.model import TopicPartition
from insync.logdir.files import NO_LIMIT, Replica, Segment, list_replicas, plan_segments_of
from insync.logdir.options import END, ReadOptions
from insync.pipeline.audit import findings as kinds
from insync.pipeline.audit.cluster_metadata import ClusterMetadata, find_compacted, load_metadata
from insync.pipeline.audit.compacted_records import compare_range, plan_compacted
from insync.pipeline.audit.compared_ranges import ComparedRange, find_damaged_checkpoints, list_compared_ranges
from insync.pipeline.audit.findings import AuditResult, Finding, ReplicaKey
from insync.pipeline.audit.inventory import NodeDirectory, read_nodes
from insync.pipeline.audit.log_ends import LogState, check_logs, key_of
from insync.pipeline.audit.log_matching import Member, Stretch, compare_stretch
from insync.pipeline.audit.placement import check_identities, check_placement, select_replicas
from insync.pipeline.audit.quorum_files import QuorumReplica, check_quorum_files, list_quorum_replicas
from insync.pipeline.audit.replica_files import ReplicaTask, check_replica_files
from insync.pipeline.audit.segments import STRETCH_BITS, Range, SegmentFacts, SegmentTask, check_segment
from insync.pipeline.executors import RunTasks, run_here
from insync.storage.checkpoints import RECOVERY_POINTS
from insync.wire.types import METADATA_TOPIC

Cell = tuple[str, int, int, int]
"""Topic, partition, interval between edges, stretch."""
MAX_STRETCHES = 20
"""Of one partition that are read again; if more differ, the first ones are enough."""


@dataclass
class LogAudit(AuditResult):
    replicas: int = 0
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    size: int = 0
    stretches: int = 0
    """Compared between replicas."""
    unmarked: int = 0
    """Replicas that were not compared because their high watermarks are unknown."""
    compacted: tuple[str, ...] = ()
    policies_known: bool = True
    """Whether there is a metadata log."""


def audit_logs(options: ReadOptions, also_compacted: Sequence[str] = (), run_tasks: RunTasks = run_here) -> LogAudit:
    named = list_all_replicas(options)
    nodes = read_nodes(options)
    metadata = load_metadata(nodes)
    placement = check_identities(nodes, metadata)
    check_placement(nodes, metadata, placement, options.topics)
    quorum = list_quorum_replicas(nodes, placement) if _includes_metadata(options) else []
    own = [replica for replica in select_replicas(named, nodes, placement) if replica.topic != METADATA_TOPIC]
    replicas = own + [replica.to_replica() for replica in quorum]
    topics = sorted({replica.topic for replica in replicas})
    compacted = find_compacted(nodes, metadata, topics) | {topic for topic in also_compacted if topic in topics}
    tasks = plan_tasks(options, replicas, compacted, nodes, metadata)
    size = sum(map(_size_of, tasks))
    facts = run_tasks(tasks, check_segment, what="segments", size=size)
    audited = LogAudit(
        replicas=len(replicas),
        partitions=len({(replica.topic, replica.partition) for replica in replicas}),
        segments=len(tasks),
        batches=sum(segment.batches for segment in facts),
        records=sum(segment.records for segment in facts),
        size=sum(segment.size for segment in facts),
        unmarked=count_uncompared(tasks, own),
        compacted=tuple(sorted(compacted)),
        policies_known=metadata.image is not None,
    )
    logs = check_logs(replicas, tasks, facts, nodes, metadata, {replica.broker: replica for replica in quorum})
    findings = [*placement.findings, *find_damaged_checkpoints(own)]
    findings += _list_segment_findings(logs)
    findings += [finding for log in logs for finding in log.findings]
    files = [_to_replica_task(log) for log in logs if os.path.isdir(log.replica.directory)]
    for more in run_tasks(files, check_replica_files, what="small files of replicas", size=0):
        findings += more
    findings += check_quorum_files(quorum, *_ends_of_quorum(quorum, logs))
    cells = sum_digests(tasks, facts)
    audited.stretches = len(cells)
    differing = list(limit_stretches(find_differing_stretches(tasks, replicas, cells, findings, logs)))
    wrong_epochs = {(*_place(finding), finding.offset) for finding in findings if finding.kind == kinds.EPOCH}
    for more in run_tasks(differing, compare_stretch, what="stretches that differ", size=0):
        findings += [finding for finding in more if (*_place(finding), finding.offset) not in wrong_epochs]
    ranges = plan_compacted(logs, compacted)
    for more in run_tasks(ranges, compare_range, what="records of compacted topics", size=size):
        findings += more
    audited.findings = sorted(findings, key=kinds.sort_key)
    return audited


def list_all_replicas(options: ReadOptions) -> list[Replica]:
    return list_replicas(_up_to_log_end(options))


def _list_segment_findings(logs: Sequence[LogState]) -> Iterator[Finding]:
    """An index is no finding of its own if it has entries for batches that are missing, or if its segment has another
    one's name."""
    for log in logs:
        for task, facts in log.segments:
            is_misnamed = facts.batches and facts.first != task.segment.base and not task.compacted
            for finding in facts.findings:
                is_explained = any(start <= finding.offset < end for start, end in log.explained)
                if finding.kind != kinds.INDEX or not (is_explained or is_misnamed):
                    yield finding


def _place(finding: Finding) -> tuple[int | None, str, int]:
    return finding.broker, finding.topic, finding.partition


def _includes_metadata(options: ReadOptions) -> bool:
    return not options.topics or METADATA_TOPIC in options.topics


def plan_tasks(
    options: ReadOptions,
    replicas: Sequence[Replica],
    compacted: Iterable[str],
    nodes: Sequence[NodeDirectory] = (),
    metadata: ClusterMetadata | None = None,
) -> list[SegmentTask]:
    edges: dict[TopicPartition, set[int]] = {}
    by_key = {(replica.broker, replica.topic, replica.partition): replica for replica in replicas}
    roots = {root.path: root for node in nodes for root in node.roots}
    segments = plan_segments_of(replicas, _up_to_log_end(options))
    for compared in list_compared_ranges(replicas, segments):
        edges.setdefault((compared.topic, compared.partition), set()).update((compared.start, compared.hwm))
    tasks = []
    for segment in segments:
        replica = by_key[segment.broker, segment.topic, segment.partition]
        root = roots.get(os.path.dirname(replica.directory))
        tasks.append(
            SegmentTask(
                segment,
                replica.log_start,
                replica.hwm or 0,
                tuple(sorted(edges[segment.topic, segment.partition])),
                segment.topic in compacted,
                None if root is None else root.offset(RECOVERY_POINTS, (segment.topic, segment.partition)),
                None if metadata is None else metadata.index_interval(segment.topic),
            )
        )
    return tasks


def count_uncompared(tasks: Sequence[SegmentTask], replicas: Sequence[Replica]) -> int:
    """Replicas that hold records, but have no high watermark up to which they could be compared."""
    nonempty = {key_of(task) for task in tasks if _size_of(task)}
    ranges = list_compared_ranges(replicas, [task.segment for task in tasks])
    hwms = {(compared.broker, compared.topic, compared.partition): compared.hwm for compared in ranges}
    unknown = [(replica.broker, replica.topic, replica.partition) for replica in replicas if replica.hwm is None]
    return sum(key in nonempty and not hwms[key] for key in unknown)


def _up_to_log_end(options: ReadOptions) -> ReadOptions:
    """Each log is checked up to its end; only the comparison stops at high watermarks."""
    return ReadOptions(paths=options.paths, brokers=options.brokers, topics=options.topics, bound=END)


def _to_replica_task(log: LogState) -> ReplicaTask:
    return ReplicaTask(
        *log.key,
        directory=log.replica.directory,
        segments=tuple(task.segment for task, _ in log.segments),
        start=log.start,
        end=log.end,
        is_intact=log.is_intact,
        was_synced=bool(log.recovery_point),
        stopped_cleanly=log.root.clean is not None,
        compacted=log.compacted,
    )


def _ends_of_quorum(quorum: Sequence[QuorumReplica], logs: Sequence[LogState]) -> tuple[dict[int, int], dict[int, int]]:
    intact = [log for log in logs if log.replica.topic == METADATA_TOPIC and log.is_intact and log.segments]
    return {log.replica.broker: log.end for log in intact}, {log.replica.broker: log.last_epoch for log in intact}


# --- comparing replicas ----------------------------------------------------------------------------------------------


def sum_digests(tasks: Sequence[SegmentTask], facts: Sequence[SegmentFacts]) -> dict[Cell, dict[int, tuple[int, int]]]:
    """By stretch and broker: (digest, batches), over all segments."""
    cells: dict[Cell, dict[int, tuple[int, int]]] = {}
    for task, checked in zip(tasks, facts, strict=True):
        segment = task.segment
        if task.compacted:
            continue
        for (interval, cell), (digest, count) in checked.stretches.items():
            brokers = cells.setdefault((segment.topic, segment.partition, interval, cell), {})
            old = brokers.get(segment.broker, (0, 0))
            brokers[segment.broker] = ((old[0] + digest) & ((1 << 64) - 1), old[1] + count)
    return cells


def find_differing_stretches(
    tasks: Sequence[SegmentTask],
    replicas: Sequence[Replica],
    cells: dict[Cell, dict[int, tuple[int, int]]],
    findings: Sequence[Finding] = (),
    logs: Sequence[LogState] = (),
) -> Iterator[Stretch]:
    """The stretches whose digests differ among the replicas that must hold them; their members most credible first."""
    segments: dict[ReplicaKey, list[Segment]] = {}
    edges: dict[TopicPartition, tuple[int, ...]] = {}
    for task in tasks:
        segments.setdefault(key_of(task), []).append(task.segment)
        edges[task.segment.topic, task.segment.partition] = task.edges
    holders: dict[TopicPartition, list[ComparedRange]] = {}
    for compared in list_compared_ranges(replicas, [task.segment for task in tasks]):
        holders.setdefault((compared.topic, compared.partition), []).append(compared)
    damage = _damage_by_replica(findings)
    states = {log.key: log for log in logs}
    for (topic, partition, interval, cell), brokers in sorted(cells.items()):
        start, end = _bounds(edges[topic, partition], interval, cell)
        members = [member for member in holders[topic, partition] if member.start <= start and member.hwm > start]
        digests = {member.broker: brokers.get(member.broker, (0, 0)) for member in members}
        if len(set(digests.values())) > 1:
            votes = Counter(digests.values())
            doubts = {
                member: (
                    _has_damage(damage, member, start, end),
                    not member.own_hwm,
                    -votes[digests[member.broker]],
                    -digests[member.broker][1],
                    member.broker,
                )
                for member in members
            }
            ordered = sorted(members, key=doubts.__getitem__)
            yield Stretch(
                topic, partition, start, end, tuple(_member(member, segments, states, start, end) for member in ordered)
            )


def limit_stretches(stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    counts: Counter[TopicPartition] = Counter()
    for stretch in stretches:
        counts[stretch.topic, stretch.partition] += 1
        if counts[stretch.topic, stretch.partition] <= MAX_STRETCHES:
            yield stretch


def _damage_by_replica(findings: Sequence[Finding]) -> dict[ReplicaKey, list[Finding]]:
    damage: dict[ReplicaKey, list[Finding]] = {}
    for finding in findings:
        if finding.broker is not None and finding.kind not in (kinds.INDEX, kinds.CHECKPOINT):
            damage.setdefault((finding.broker, finding.topic, finding.partition), []).append(finding)
    return damage


def _has_damage(damage: dict[ReplicaKey, list[Finding]], replica: ComparedRange, start: int, end: int) -> bool:
    """Whether the replica has other findings in the stretch. Unreadable bytes, or an early end, affect what follows."""
    own = damage.get((replica.broker, replica.topic, replica.partition), ())
    to_the_end = (kinds.SHORT, kinds.UNREADABLE)
    return any(finding.offset < end and (finding.offset >= start or finding.kind in to_the_end) for finding in own)


def _bounds(edges: tuple[int, ...], interval: int, cell: int) -> tuple[int, int]:
    low = edges[interval - 1] if interval else 0
    high = edges[interval] if interval < len(edges) else NO_LIMIT
    return max(low, cell << STRETCH_BITS), min(high, (cell + 1) << STRETCH_BITS)


def _member(
    replica: ComparedRange,
    segments: dict[ReplicaKey, list[Segment]],
    states: dict[ReplicaKey, LogState],
    start: int,
    end: int,
) -> Member:
    key = (replica.broker, replica.topic, replica.partition)
    own = segments.get(key, [])
    log = states.get(key)
    if log is None or not log.findings:  # else segments may not have what their names say: all are read
        following = [*(segment.base for segment in own[1:]), NO_LIMIT]
        own = [segment for segment, after in zip(own, following, strict=True) if after > start and segment.base < end]
    explained: tuple[Range, ...] = ()
    excluded: tuple[tuple[str, int], ...] = ()
    damaged: tuple[tuple[str, int, int], ...] = ()
    if log is not None:
        explained = tuple(part for part in log.explained if part[0] < end and part[1] > start)
        excluded = tuple((task.segment.path, place) for task, facts in log.segments for place in facts.excluded)
        damaged = tuple((task.segment.path, *part) for task, facts in log.segments for part in facts.damaged)
    return Member(replica.broker, replica.hwm, tuple(own), replica.own_hwm, explained, excluded, damaged)


def _size_of(task: SegmentTask) -> int:
    try:
        return os.path.getsize(task.segment.path)
    except OSError:
        return 0  # reading it reports why
