"""Checks each replica's log as a whole: segments follow one another, and the log reaches as far as its broker's files
and the others say.

How far a log should reach is known from several sources: its high watermark, its recovery point, the record of a clean
stop, and, for a member of the ISR, the high watermark of the other replicas. If only one checkpoint contradicts a log
and all else agrees with it, the checkpoint is wrong and not the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from insync.logdir.files import NO_LIMIT, Replica
from insync.pipeline.audit import findings as kinds
from insync.pipeline.audit.cluster_metadata import ClusterMetadata
from insync.pipeline.audit.findings import Finding, ReplicaKey, make_replica_finding
from insync.pipeline.audit.inventory import NodeDirectory, Root
from insync.pipeline.audit.quorum_files import QuorumReplica
from insync.pipeline.audit.segments import Range, SegmentFacts, SegmentTask, read_epochs
from insync.quorum import offset_checkpoint
from insync.storage import clean_shutdown
from insync.storage.checkpoints import HIGH_WATERMARKS, LEADER_EPOCHS, LOG_STARTS, RECOVERY_POINTS
from insync.storage.clean_shutdown import LogEnd
from insync.wire.types import METADATA_TOPIC

_NO_ROOT = Root("", (), {}, (), None)


def key_of(task: SegmentTask) -> ReplicaKey:
    return task.segment.broker, task.segment.topic, task.segment.partition


@dataclass
class LogState:
    """One replica, its segments in the order of their first offsets, and where it begins and ends."""

    replica: Replica
    root: Root
    segments: list[tuple[SegmentTask, SegmentFacts]]
    start: int = 0
    end: int = 0
    end_is_known: bool = True
    torn: str = ""
    last_epoch: int = -1
    synced_end: int = 0
    """Of a metadata log: where it ended at least, by its own checkpoint."""
    findings: list[Finding] = field(default_factory=list)
    explained: list[Range] = field(default_factory=list)

    @property
    def key(self) -> ReplicaKey:
        return self.replica.broker, self.replica.topic, self.replica.partition

    @property
    def partition(self) -> tuple[str, int]:
        return self.replica.topic, self.replica.partition

    @property
    def recovery_point(self) -> int | None:
        return self.root.offset(RECOVERY_POINTS, self.partition)

    @property
    def compacted(self) -> bool:
        return any(task.compacted for task, _ in self.segments)

    @property
    def is_intact(self) -> bool:
        own = [finding for _, facts in self.segments for finding in facts.findings if finding.kind != kinds.INDEX]
        return self.end_is_known and not own and not self.findings

    def add(self, kind: str, offset: int, file: str, detail: str, position: int | None = None) -> None:
        finding = make_replica_finding(kind, self.key, file, detail, offset=offset, position=position)
        self.findings.append(finding)

    def explain(self, start: int, end: int) -> None:
        self.explained.append((start, end))


def check_logs(
    replicas: Sequence[Replica],
    tasks: Sequence[SegmentTask],
    facts: Sequence[SegmentFacts],
    nodes: Sequence[NodeDirectory] = (),
    metadata: ClusterMetadata | None = None,
    quorum: Mapping[int, QuorumReplica] = MappingProxyType({}),
) -> list[LogState]:
    """`quorum`: by broker, the replica of the metadata log."""
    roots = {root.path: root for node in nodes for root in node.roots}
    segments: dict[ReplicaKey, list[tuple[SegmentTask, SegmentFacts]]] = {}
    for task, segment_facts in zip(tasks, facts, strict=True):
        segments.setdefault(key_of(task), []).append((task, segment_facts))
    logs = []
    for replica in replicas:
        own = segments.get((replica.broker, replica.topic, replica.partition), [])
        own = sorted(own, key=lambda pair: pair[1].first if pair[1].batches else pair[0].segment.base)
        root = roots.get(os.path.dirname(replica.directory), _NO_ROOT)
        log = LogState(replica, root, own)
        if replica.topic == METADATA_TOPIC and replica.broker in quorum:
            log.synced_end = quorum[replica.broker].synced_end
        logs.append(log)
    for log in logs:
        _check_segment_order(log)
        _check_start(log)
    partitions: dict[tuple[str, int], list[LogState]] = {}
    for log in logs:
        partitions.setdefault(log.partition, []).append(log)
    for log in logs:
        _check_end(log, [other for other in partitions[log.partition] if other is not log], metadata)
    return logs


# --- segments --------------------------------------------------------------------------------------------------------


def _check_segment_order(log: LogState) -> None:
    """A segment begins where the one before it ended."""
    before: tuple[SegmentTask, SegmentFacts] | None = None
    for task, facts in log.segments:
        base = task.segment.base
        first = facts.first if facts.batches else base
        log.explained += facts.explained
        if before is None:
            log.start = min(base, first)
            if facts.batches and first != base and not task.compacted:
                _check_first_offset(log, task, first, base if first > base else None)
        else:
            _check_boundary(log, before, task, facts, first)
        if facts.batches and facts.first_epoch < log.last_epoch:
            detail = f"the segment starts in epoch {facts.first_epoch} after epoch {log.last_epoch}"
            log.add(kinds.EPOCH, facts.first, task.segment.path, detail)
        log.last_epoch = facts.last_epoch if facts.batches else log.last_epoch
        log.end = max(log.end, facts.next, base)
        before = task, facts
    if before is not None:
        log.end_is_known = not before[1].ends_in_damage
        log.torn = before[1].torn[1] if before[1].torn is not None else ""


def _check_first_offset(log: LogState, task: SegmentTask, first: int, end: int | None) -> None:
    """A file that begins with another offset than its name says. `end`: where the log before it ended, if known."""
    base, path = task.segment.base, task.segment.path
    if end == base and first > base:
        log.add(kinds.GAP, base, path, f"offsets {base} to {first - 1} are missing", 0)
        log.explain(base, first)
    else:
        log.add(kinds.ORDER, first, path, f"the segment is named after offset {base}, its first batch has {first}", 0)


def _check_boundary(
    log: LogState,
    before: tuple[SegmentTask, SegmentFacts],
    task: SegmentTask,
    facts: SegmentFacts,
    first: int,
) -> None:
    base, end, path = task.segment.base, log.end, task.segment.path
    torn = before[1].torn
    if before[1].ends_in_damage:
        return  # reported with the damage
    if torn is not None:
        place, detail = before[0].segment.path, torn[1]
        if first > end and not task.compacted:
            log.add(kinds.GAP, end, place, f"offsets {end} to {first - 1} are missing: {detail}", torn[0])
        else:
            log.add(kinds.UNREADABLE, end, place, detail, torn[0])
        log.explain(end, max(first, end + 1))
    elif facts.batches and first != base and not (task.compacted and first > base):
        _check_first_offset(log, task, first, end)
    elif first > end and not task.compacted:
        log.add(kinds.GAP, end, path, f"offsets {end} to {first - 1} are missing before this segment")
        log.explain(end, first)
    elif first < end:
        log.add(kinds.ORDER, first, path, f"the segment starts at {first}, the one before ends at {end}")
        log.explain(first, end)


def _check_start(log: LogState) -> None:
    """D1: before segments are deleted, the first epoch's start is raised to what remains."""
    if not log.segments or log.compacted or log.replica.topic == METADATA_TOPIC or log.findings:
        return
    path = os.path.join(log.replica.directory, LEADER_EPOCHS)
    entries = read_epochs(path)
    first = log.segments[0][0].segment.base
    if entries and entries[0][1] < first and log.replica.log_start < first:
        start = max(entries[0][1], log.replica.log_start)
        detail = f"offsets {start} to {first - 1} are missing: the log begins there by its {LEADER_EPOCHS}"
        log.add(kinds.GAP, start, log.segments[0][0].segment.path, detail)
        log.explain(start, first)


# --- the end ---------------------------------------------------------------------------------------------------------


def _check_end(log: LogState, others: Sequence[LogState], metadata: ClusterMetadata | None) -> None:
    replica, end = log.replica, log.end
    clean = log.root.clean_end(log.partition)
    hwm, recovery_point = replica.hwm or 0, log.recovery_point or 0
    claims = list(_list_claims(log, others, metadata, clean))
    if not log.segments:
        if claims:
            log.add(kinds.MISSING, -1, replica.directory, f"there are no segments in it: {claims[0][1]}")
            log.explain(0, NO_LIMIT)
        return
    if not log.end_is_known:
        return
    file = log.segments[-1][0].segment.path
    above = [(offset, text) for offset, text in claims if offset > end]
    if above:
        torn = f": {log.torn}" if log.torn else ""
        wrong = _find_wrong_checkpoint(log, others, hwm, recovery_point, clean)
        if wrong and not torn:
            path = os.path.join(log.root.path, wrong)
            detail = f"has {_offset_in(log, wrong)}, the log ends at {end} and nothing else says that it was longer"
            log.add(kinds.CHECKPOINT, end, path, detail)
        else:
            log.add(kinds.SHORT, end, file, f"the log ends at offset {end}, {above[0][1]}{torn}")
            log.explain(end, NO_LIMIT)
    elif log.is_intact:
        _check_checkpoints(log, clean)


def _list_claims(
    log: LogState, others: Sequence[LogState], metadata: ClusterMetadata | None, clean: LogEnd | None
) -> Iterator[tuple[int, str]]:
    """(offset that the log should reach, the reason)."""
    if log.replica.topic == METADATA_TOPIC:
        if log.synced_end:
            yield log.synced_end, f"{offset_checkpoint.FILE_NAME} says that it reached {log.synced_end}"
        return
    if log.replica.hwm:
        yield log.replica.hwm, f"its high watermark is {log.replica.hwm}"
    if log.recovery_point:
        yield log.recovery_point, f"its recovery point is {log.recovery_point}"
    if clean is not None and clean.end_offset > 0:
        yield clean.end_offset, f"the clean stop recorded {clean.end_offset}"
    if metadata is not None and metadata.image is not None and others:
        image = metadata.image
        topic_id = image.topic_ids.get(log.replica.topic)
        partition = None if topic_id is None else image.partition((topic_id, log.replica.partition))
        known = max(others, key=lambda other: other.replica.hwm or 0)
        hwm = known.replica.hwm or 0
        if partition is not None and log.replica.broker in partition.isr and 0 < hwm <= known.end:
            holder = known.replica.broker
            yield hwm, f"it is in the ISR, and the high watermark on broker {holder} is {hwm}"


def _find_wrong_checkpoint(
    log: LogState, others: Sequence[LogState], hwm: int, recovery_point: int, clean: LogEnd | None
) -> str:
    """The checkpoint that alone says that the log was longer; empty if more than one thing does, or nothing denies it.

    Of the high watermark, a recovery point that a clean stop left denies it, or that no other replica is longer.
    """
    end = log.end
    if log.replica.topic == METADATA_TOPIC or (clean is not None and clean.end_offset > end):
        return ""
    if any(other.end > end for other in others):
        return ""
    if hwm > end >= recovery_point:
        denied = bool(others) or (log.root.clean is not None and recovery_point == end)
        return HIGH_WATERMARKS if denied else ""
    if recovery_point > end >= hwm:
        return RECOVERY_POINTS
    return ""


def _offset_in(log: LogState, checkpoint: str) -> int | None:
    return log.root.offset(checkpoint, log.partition)


def _check_checkpoints(log: LogState, clean: LogEnd | None) -> None:
    """Checkpoints of an intact log. Only after a clean stop they are exact."""
    end, root = log.end, log.root
    log_start = _offset_in(log, LOG_STARTS) or 0
    if log_start > end:
        path = os.path.join(root.path, LOG_STARTS)
        log.add(kinds.CHECKPOINT, end, path, f"has {log_start}, the log ends at {end}")
        return
    if root.clean is None:
        return
    if clean is not None and clean.end_offset < end:
        path = os.path.join(root.path, clean_shutdown.FILE)
        detail = f"says that the log ends at {clean.end_offset}, it ends at {end}: an old copy"
        log.add(kinds.CHECKPOINT, clean.end_offset, path, detail)
        return
    recorded = {RECOVERY_POINTS: end}
    if clean is not None:
        recorded[HIGH_WATERMARKS] = clean.hwm
        first = log.segments[0][0].segment.base
        if max(log_start, first) != clean.log_start:
            path = os.path.join(root.path, LOG_STARTS)
            log.add(kinds.CHECKPOINT, log_start, path, f"has {log_start}, the clean stop recorded {clean.log_start}")
    for name, expected in recorded.items():
        offset = _offset_in(log, name)
        if name in root.damaged or (offset is None and expected == 0):
            continue
        if offset is None and name in root.checkpoints:
            continue  # added since; a broker lists what it has
        if offset != expected:
            detail = f"has {offset}, " if offset is not None else "is missing, "
            path = os.path.join(root.path, name)
            log.add(kinds.CHECKPOINT, offset or 0, path, f"{detail}the clean stop left {expected}")
