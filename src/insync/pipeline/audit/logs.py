"""Checks the replicas' logs of a cluster: each by itself, and the replicas of a partition against each other.

One Spark job reads every segment once (`segments`), one task per segment. Its results are small: digests of stretches,
the ends of segments, findings. The driver puts them together: segments must follow one another, logs must reach their
high watermarks, and stretches with different digests are read again by a second job (`log_matching`). Replicas of
compacted topics drop records at different times, so only records at the same offset are compared there
(`compacted_records`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from insync.client.model import TopicPartition
from insync.logdir.files import NO_LIMIT, Replica, Segment, list_replicas, plan_segments
from insync.logdir.options import END, ReadOptions
from insync.pipeline.audit import findings as kinds
from insync.pipeline.audit.cleanup_policies import find_compacted
from insync.pipeline.audit.compacted_records import compare_compacted
from insync.pipeline.audit.compared_ranges import ComparedRange, find_damaged_checkpoints, list_compared_ranges
from insync.pipeline.audit.findings import MEANINGS, AuditResult, Finding
from insync.pipeline.audit.log_matching import Member, Stretch, compare_stretch
from insync.pipeline.audit.segments import STRETCH_BITS, SegmentFacts, SegmentTask, check_segment
from insync.pipeline.executors import run_tasks
from insync.pipeline.report.progress import OnProgress, ignore_progress

Cell = tuple[str, int, int, int]
"""Topic, partition, interval between edges, stretch."""
ReplicaKey = tuple[int, str, int]
"""Broker, topic, partition."""
TASKS_PER_CORE = 4
BYTES_PER_TASK = 256 << 20
MAX_STRETCHES = 2_000
"""That are read again; if more differ, the first ones are enough."""


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


def audit_logs(
    spark: SparkSession,
    options: ReadOptions,
    also_compacted: Sequence[str] = (),
    on_progress: OnProgress = ignore_progress,
) -> LogAudit:
    replicas = list_all_replicas(options)
    topics = sorted({replica.topic for replica in replicas})
    compacted, policies_known = find_compacted(options.paths, topics)
    compacted |= {topic for topic in also_compacted if topic in topics}
    tasks = plan_tasks(options, replicas, compacted)
    facts = _check_segments(spark, tasks, on_progress)
    audited = LogAudit(
        replicas=len(replicas),
        partitions=len({(replica.topic, replica.partition) for replica in replicas}),
        segments=len(tasks),
        batches=sum(segment.batches for segment in facts),
        records=sum(segment.records for segment in facts),
        size=sum(segment.size for segment in facts),
        unmarked=count_uncompared(tasks, replicas),
        compacted=tuple(sorted(compacted)),
        policies_known=policies_known,
    )
    audited.findings += find_damaged_checkpoints(replicas)
    audited.findings += [finding for segment in facts for finding in segment.findings]
    audited.findings += check_segment_order(tasks, facts)
    cells = sum_digests(tasks, facts)
    audited.stretches = len(cells)
    stretches = list(find_differing_stretches(tasks, replicas, cells, audited.findings))[:MAX_STRETCHES]
    audited.findings += _compare_stretches(spark, stretches, on_progress)
    if compacted:
        audited.findings += compare_compacted(spark, options, replicas, sorted(compacted), on_progress)
    audited.findings.sort(key=kinds.sort_key)
    return audited


def list_all_replicas(options: ReadOptions) -> list[Replica]:
    return list_replicas(_up_to_log_end(options))


def plan_tasks(options: ReadOptions, replicas: Sequence[Replica], compacted: Iterable[str]) -> list[SegmentTask]:
    edges: dict[TopicPartition, set[int]] = {}
    by_key = {(replica.broker, replica.topic, replica.partition): replica for replica in replicas}
    segments = plan_segments(_up_to_log_end(options))
    for compared in list_compared_ranges(replicas, segments):
        edges.setdefault((compared.topic, compared.partition), set()).update((compared.start, compared.hwm))
    tasks = []
    for segment in segments:
        replica = by_key[segment.broker, segment.topic, segment.partition]
        own_edges = tuple(sorted(edges[segment.topic, segment.partition]))
        tasks.append(SegmentTask(segment, replica.log_start, replica.hwm or 0, own_edges, segment.topic in compacted))
    return tasks


def count_uncompared(tasks: Sequence[SegmentTask], replicas: Sequence[Replica]) -> int:
    """Replicas that hold records, but have no high watermark up to which they could be compared."""
    nonempty = {_replica_of(task) for task in tasks if _size_of(task)}
    ranges = list_compared_ranges(replicas, [task.segment for task in tasks])
    hwms = {(compared.broker, compared.topic, compared.partition): compared.hwm for compared in ranges}
    unknown = [(replica.broker, replica.topic, replica.partition) for replica in replicas if replica.hwm is None]
    return sum(key in nonempty and not hwms[key] for key in unknown)


def _replica_of(task: SegmentTask) -> ReplicaKey:
    return task.segment.broker, task.segment.topic, task.segment.partition


def _up_to_log_end(options: ReadOptions) -> ReadOptions:
    """Each log is checked up to its end; only the comparison stops at high watermarks."""
    return ReadOptions(paths=options.paths, brokers=options.brokers, topics=options.topics, bound=END)


# --- one log ---------------------------------------------------------------------------------------------------------


def check_segment_order(tasks: Sequence[SegmentTask], facts: Sequence[SegmentFacts]) -> Iterator[Finding]:
    """A segment begins where the one before it ended, and a log reaches its high watermark."""
    ends: dict[ReplicaKey, tuple[SegmentTask, int, int]] = {}
    for task, segment in zip(tasks, facts, strict=True):
        before = ends.get(_replica_of(task))
        if before is not None:
            yield from _check_boundary(task, segment, before[1], before[2])
        epoch = segment.last_epoch if segment.batches else (before[2] if before else -1)
        ends[_replica_of(task)] = (task, max(segment.next, task.segment.base), epoch)
    for task, end, _ in ends.values():
        if end < task.hwm:
            yield _finding(kinds.SHORT, task, end, f"the log ends at offset {end}, its high watermark is {task.hwm}")


def _check_boundary(task: SegmentTask, facts: SegmentFacts, end: int, epoch: int) -> Iterator[Finding]:
    base = task.segment.base
    if base > end and not task.compacted:
        yield _finding(kinds.GAP, task, end, f"offsets {end} to {base - 1} are missing before this segment")
    if base < end:
        yield _finding(kinds.ORDER, task, base, f"the segment starts at {base}, the one before ends at {end}")
    if facts.batches and facts.first_epoch < epoch:
        detail = f"the segment starts in epoch {facts.first_epoch} after epoch {epoch}"
        yield _finding(kinds.EPOCH, task, facts.first, detail)


def _finding(kind: str, task: SegmentTask, offset: int, detail: str) -> Finding:
    segment = task.segment
    where = (segment.broker, segment.topic, segment.partition, offset, segment.path, None)
    return Finding(kind, MEANINGS[kind][0], *where, detail)


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
) -> Iterator[Stretch]:
    """The stretches whose digests differ among the replicas that must hold them; their members most credible first."""
    segments: dict[ReplicaKey, list[Segment]] = {}
    edges: dict[TopicPartition, tuple[int, ...]] = {}
    for task in tasks:
        segments.setdefault(_replica_of(task), []).append(task.segment)
        edges[task.segment.topic, task.segment.partition] = task.edges
    holders: dict[TopicPartition, list[ComparedRange]] = {}
    for compared in list_compared_ranges(replicas, [task.segment for task in tasks]):
        holders.setdefault((compared.topic, compared.partition), []).append(compared)
    damage = _damage_by_replica(findings)
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
                topic, partition, start, end, tuple(_member(member, segments, start, end) for member in ordered)
            )


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


def _member(replica: ComparedRange, segments: dict[ReplicaKey, list[Segment]], start: int, end: int) -> Member:
    own = segments.get((replica.broker, replica.topic, replica.partition), [])
    following = [*(segment.base for segment in own[1:]), NO_LIMIT]
    chosen = [segment for segment, after in zip(own, following, strict=True) if after > start and segment.base < end]
    return Member(replica.broker, replica.hwm, tuple(chosen), replica.own_hwm)


# --- jobs ------------------------------------------------------------------------------------------------------------


def _check_segments(spark: SparkSession, tasks: Sequence[SegmentTask], on_progress: OnProgress) -> list[SegmentFacts]:
    partitions = max(sum(map(_size_of, tasks)) // BYTES_PER_TASK, _task_slots(spark))
    return run_tasks(
        spark,
        tasks,
        check_segment,
        what="segments",
        on_progress=on_progress,
        partitions=min(len(tasks), partitions),
    )


def _compare_stretches(spark: SparkSession, stretches: Sequence[Stretch], on_progress: OnProgress) -> list[Finding]:
    findings = run_tasks(
        spark,
        stretches,
        compare_stretch,
        what="stretches that differ",
        on_progress=on_progress,
        partitions=min(len(stretches), _task_slots(spark)),
    )
    return [finding for of_stretch in findings for finding in of_stretch]


def _task_slots(spark: SparkSession) -> int:
    return TASKS_PER_CORE * spark.sparkContext.defaultParallelism


def _size_of(task: SegmentTask) -> int:
    try:
        return os.path.getsize(task.segment.path)
    except OSError:
        return 0  # reading it reports why
