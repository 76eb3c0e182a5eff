"""The replicas' logs of a cluster, checked: each by itself, and all of a partition against each other.

One Spark job reads every segment once (`audit_segments`), a task each. What it leaves behind is small: digests of
stretches, the ends of segments, findings. Here the pieces are put together: segments must follow one another, logs
must reach their high watermarks, and stretches with different digests are read again by a second job
(`audit_matching`). Replicas of compacted topics drop records each in its own time, so there only records at the same
offset are compared (`audit_compacted`).
"""

from __future__ import annotations

import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from insync.logdir.files import NO_LIMIT, Replica, Segment, list_replicas, plan_segments
from insync.logdir.options import END, ReadOptions
from insync.pipeline.audit import compacted as audit_compacted
from insync.pipeline.audit import compared_ranges as audit_marks
from insync.pipeline.audit import findings as kinds
from insync.pipeline.audit import log_matching as audit_matching
from insync.pipeline.audit import segments as audit_segments
from insync.pipeline.audit import topics as audit_topics
from insync.pipeline.audit.compared_ranges import Compared
from insync.pipeline.audit.findings import MEANINGS, Finding
from insync.pipeline.audit.log_matching import Member, Stretch
from insync.pipeline.audit.segments import STRETCH_BITS, Facts, Task
from insync.pipeline.report import progress as report_watch

Key = tuple[str, int]
Cell = tuple[str, int, int, int]
"""Topic, partition, interval between edges, stretch."""
TASKS_PER_CORE = 4
BYTES_PER_TASK = 256 << 20
MOST_STRETCHES = 2_000
"""That are read again; where more differ, the first ones tell enough."""


@dataclass
class LogAudit:
    findings: list[Finding] = field(default_factory=list)
    replicas: int = 0
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    size: int = 0
    stretches: int = 0
    """Compared between replicas."""
    unmarked: int = 0
    """Replicas of which no high watermark was written down, so that they are compared to nothing."""
    compacted: tuple[str, ...] = ()
    policies_known: bool = True


def audit(
    spark: SparkSession,
    options: ReadOptions,
    also_compacted: Sequence[str] = (),
    tell: report_watch.Tell = report_watch.silent,
) -> LogAudit:
    replicas = replicas_of(options)
    topics = sorted({each.topic for each in replicas})
    compacted, known = audit_topics.compacted(options.paths, topics)
    compacted |= {topic for topic in also_compacted if topic in topics}
    tasks = plan(options, replicas, compacted)
    facts = _check_all(spark, tasks, tell)
    found = LogAudit(
        replicas=len(replicas),
        partitions=len({(each.topic, each.partition) for each in replicas}),
        segments=len(tasks),
        batches=sum(each.batches for each in facts),
        records=sum(each.records for each in facts),
        size=sum(each.size for each in facts),
        unmarked=unmarked(tasks, replicas),
        compacted=tuple(sorted(compacted)),
        policies_known=known,
    )
    found.findings += audit_marks.damaged(replicas)
    found.findings += [finding for each in facts for finding in each.findings]
    found.findings += between_segments(tasks, facts)
    cells = digests(tasks, facts)
    found.stretches = len(cells)
    stretches = list(suspects(tasks, replicas, cells, found.findings))[:MOST_STRETCHES]
    found.findings += _compare_all(spark, stretches, tell)
    if compacted:
        found.findings += audit_compacted.compare(spark, options, replicas, sorted(compacted), tell)
    found.findings.sort(key=kinds.order)
    return found


def replicas_of(options: ReadOptions) -> list[Replica]:
    return list_replicas(_to_the_end(options))


def plan(options: ReadOptions, replicas: Sequence[Replica], compacted: Iterable[str]) -> list[Task]:
    edges: dict[Key, set[int]] = {}
    own = {(each.broker, each.topic, each.partition): each for each in replicas}
    segments = plan_segments(_to_the_end(options))
    for each in audit_marks.compared(replicas, segments):
        edges.setdefault((each.topic, each.partition), set()).update((each.start, each.hwm))
    tasks = []
    for segment in segments:
        replica = own[segment.broker, segment.topic, segment.partition]
        borders = tuple(sorted(edges[segment.topic, segment.partition]))
        tasks.append(Task(segment, replica.log_start, replica.hwm or 0, borders, segment.topic in compacted))
    return tasks


def unmarked(tasks: Sequence[Task], replicas: Sequence[Replica]) -> int:
    held = {(each.segment.broker, each.segment.topic, each.segment.partition) for each in tasks if _bytes_of(each)}
    segments = [each.segment for each in tasks]
    compared = {(each.broker, each.topic, each.partition): each for each in audit_marks.compared(replicas, segments)}
    unknown = [(each.broker, each.topic, each.partition) for each in replicas if each.hwm is None]
    return sum(who in held and not compared[who].hwm for who in unknown)


def _to_the_end(options: ReadOptions) -> ReadOptions:
    """Each log by itself is checked to its end; only the comparison stops at high watermarks."""
    return ReadOptions(paths=options.paths, brokers=options.brokers, topics=options.topics, bound=END)


# --- one log ---------------------------------------------------------------------------------------------------------


def between_segments(tasks: Sequence[Task], facts: Sequence[Facts]) -> Iterator[Finding]:
    """A segment goes on where the one before it ended, and a log reaches its high watermark."""
    ends: dict[tuple[int, str, int], tuple[Task, int, int]] = {}
    for task, each in zip(tasks, facts, strict=True):
        segment = task.segment
        who = (segment.broker, segment.topic, segment.partition)
        before = ends.get(who)
        if before is not None:
            yield from _joint(task, each, before[1], before[2])
        epoch = each.last_epoch if each.batches else (before[2] if before else -1)
        ends[who] = (task, max(each.next, segment.base), epoch)
    for task, end, _ in ends.values():
        if end < task.hwm:
            yield _finding(kinds.SHORT, task, end, f"the log ends at offset {end}, its high watermark is {task.hwm}")


def _joint(task: Task, facts: Facts, end: int, epoch: int) -> Iterator[Finding]:
    base = task.segment.base
    if base > end and not task.compacted:
        yield _finding(kinds.GAP, task, end, f"offsets {end} to {base - 1} are missing before this segment")
    if base < end:
        yield _finding(kinds.ORDER, task, base, f"the segment starts at {base}, the one before ends at {end}")
    if facts.batches and facts.first_epoch < epoch:
        detail = f"the segment starts in epoch {facts.first_epoch} after epoch {epoch}"
        yield _finding(kinds.EPOCH, task, facts.first, detail)


def _finding(kind: str, task: Task, offset: int, detail: str) -> Finding:
    segment = task.segment
    where = (segment.broker, segment.topic, segment.partition, offset, segment.path, None)
    return Finding(kind, MEANINGS[kind][0], *where, detail)


# --- replicas against each other -------------------------------------------------------------------------------------


def digests(tasks: Sequence[Task], facts: Sequence[Facts]) -> dict[Cell, dict[int, tuple[int, int]]]:
    """By stretch and broker: (digest, batches), of all segments together."""
    found: dict[Cell, dict[int, tuple[int, int]]] = {}
    for task, each in zip(tasks, facts, strict=True):
        segment = task.segment
        if task.compacted:
            continue
        for (interval, cell), (digest, count) in each.stretches.items():
            brokers = found.setdefault((segment.topic, segment.partition, interval, cell), {})
            old = brokers.get(segment.broker, (0, 0))
            brokers[segment.broker] = ((old[0] + digest) & ((1 << 64) - 1), old[1] + count)
    return found


def suspects(
    tasks: Sequence[Task],
    replicas: Sequence[Replica],
    cells: dict[Cell, dict[int, tuple[int, int]]],
    findings: Sequence[Finding] = (),
) -> Iterator[Stretch]:
    """The stretches that not all who must hold them hold alike. Of their members, the most credible ones come first."""
    segments: dict[tuple[int, str, int], list[Segment]] = {}
    edges: dict[Key, tuple[int, ...]] = {}
    for task in tasks:
        each = task.segment
        segments.setdefault((each.broker, each.topic, each.partition), []).append(each)
        edges[each.topic, each.partition] = task.edges
    holders: dict[Key, list[Compared]] = {}
    for replica in audit_marks.compared(replicas, [task.segment for task in tasks]):
        holders.setdefault((replica.topic, replica.partition), []).append(replica)
    damages = _damages(findings)
    for (topic, partition, interval, cell), brokers in sorted(cells.items()):
        start, end = _bounds(edges[topic, partition], interval, cell)
        members = [each for each in holders[topic, partition] if each.start <= start and each.hwm > start]
        values = {each.broker: brokers.get(each.broker, (0, 0)) for each in members}
        if len(set(values.values())) > 1:
            usual = Counter(values.values())
            doubts = [
                (_touched(damages, each, start, end), not each.marked, -usual[value], -value[1], each.broker, each)
                for each, value in zip(members, values.values(), strict=True)
            ]
            order = [each for *_, each in sorted(doubts, key=lambda doubt: doubt[:-1])]
            yield Stretch(topic, partition, start, end, tuple(_member(each, segments, start, end) for each in order))


def _damages(findings: Sequence[Finding]) -> dict[tuple[int, str, int], list[Finding]]:
    found: dict[tuple[int, str, int], list[Finding]] = {}
    for each in findings:
        if each.broker is not None and each.kind not in (kinds.INDEX, kinds.CHECKPOINT):
            found.setdefault((each.broker, each.topic, each.partition), []).append(each)
    return found


def _touched(damages: dict[tuple[int, str, int], list[Finding]], replica: Compared, start: int, end: int) -> bool:
    """Whether something else is wrong with its log there: what is behind the end of a log, or of a file, is gone."""
    own = damages.get((replica.broker, replica.topic, replica.partition), ())
    to_the_end = (kinds.SHORT, kinds.UNREADABLE)
    return any(each.offset < end and (each.offset >= start or each.kind in to_the_end) for each in own)


def _bounds(edges: tuple[int, ...], interval: int, cell: int) -> tuple[int, int]:
    low = edges[interval - 1] if interval else 0
    high = edges[interval] if interval < len(edges) else NO_LIMIT
    return max(low, cell << STRETCH_BITS), min(high, (cell + 1) << STRETCH_BITS)


def _member(replica: Compared, segments: dict[tuple[int, str, int], list[Segment]], start: int, end: int) -> Member:
    own = segments.get((replica.broker, replica.topic, replica.partition), [])
    following = [*(each.base for each in own[1:]), NO_LIMIT]
    chosen = [each for each, after in zip(own, following, strict=True) if after > start and each.base < end]
    return Member(replica.broker, replica.hwm, tuple(chosen), replica.marked)


# --- jobs ------------------------------------------------------------------------------------------------------------

_FACTS = "number bigint, facts binary"


def _check_all(spark: SparkSession, tasks: Sequence[Task], tell: report_watch.Tell) -> list[Facts]:
    size = sum(map(_bytes_of, tasks))
    return _each(spark, "segments", tasks, audit_segments.check, tell, at_least=size // BYTES_PER_TASK)


def _bytes_of(task: Task) -> int:
    try:
        return os.path.getsize(task.segment.path)
    except OSError:
        return 0  # whoever reads it says why it cannot


def _compare_all(spark: SparkSession, stretches: Sequence[Stretch], tell: report_watch.Tell) -> list[Finding]:
    found = _each(spark, "stretches that differ", stretches, audit_matching.compare, tell)
    return [finding for each in found for finding in each]


def _each(
    spark: SparkSession,
    what: str,
    items: Sequence[Any],
    work: Callable[[Any], Any],
    tell: report_watch.Tell,
    *,
    at_least: int = 0,
) -> list[Any]:
    """`work` of every item, on executors; the results in the order of the items. Small items share a task."""
    if not items:
        return []
    tasks = min(len(items), max(at_least, TASKS_PER_CORE * spark.sparkContext.defaultParallelism))

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                done = pickle.dumps(work(items[number]))
                yield pa.RecordBatch.from_pydict({"number": [number], "facts": pa.array([done], pa.binary())})

    frame: DataFrame = spark.range(0, len(items), 1, tasks).mapInArrow(run, _FACTS)
    rows = report_watch.watched(spark, what, frame.collect, tell)
    return [pickle.loads(bytes(row["facts"])) for row in sorted(rows, key=lambda row: row["number"])]
