"""Compares replicas of compacted topics. Each drops superseded records in its own time, but a record that two replicas
have at the same offset must be the same. This is the only comparison that reads every record.

A task reads one range of offsets of one partition on all replicas: about RANGE_BYTES of each.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from insync.logdir.files import NO_LIMIT, Segment
from insync.logdir.options import ROWS
from insync.logdir.rows import read_segment
from insync.pipeline.audit import findings as kinds
from insync.pipeline.audit.findings import Finding, make_finding
from insync.pipeline.audit.log_ends import LogState

COLUMNS = ("offset", "leader_epoch", "key", "value", "batch_position", "error")
_COMPARED = ("leader_epoch", "key", "value")
RANGE_BYTES = 32 << 20
MAX_FINDINGS = 100
"""Of one range."""


@dataclass(frozen=True)
class RangeMember:
    broker: int
    end: int
    """Its high watermark."""
    segments: tuple[Segment, ...]
    explained: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class CompactedRange:
    topic: str
    partition: int
    start: int
    end: int
    members: tuple[RangeMember, ...]


def plan_compacted(logs: Sequence[LogState], compacted: Collection[str]) -> list[CompactedRange]:
    """Without replicas whose high watermarks, and so the committed records, are unknown."""
    partitions: dict[tuple[str, int], list[LogState]] = {}
    for log in logs:
        if log.replica.topic in compacted and log.replica.hwm and log.segments:
            partitions.setdefault(log.partition, []).append(log)
    return [
        CompactedRange(topic, partition, start, end, tuple(_member(log, start, end) for log in replicas))
        for (topic, partition), replicas in sorted(partitions.items())
        if len(replicas) > 1
        for start, end in pairwise(_list_edges(replicas[0]))
    ]


def _list_edges(log: LogState) -> list[int]:
    edges, size = [0], 0
    for task, _ in log.segments[1:]:
        size += os.path.getsize(task.segment.path) if os.path.exists(task.segment.path) else 0
        if size >= RANGE_BYTES:
            edges.append(task.segment.base)
            size = 0
    return [*edges, NO_LIMIT]


def _member(log: LogState, start: int, end: int) -> RangeMember:
    own = [task.segment for task, _ in log.segments]
    following = [*(segment.base for segment in own[1:]), NO_LIMIT]
    chosen = [segment for segment, after in zip(own, following, strict=True) if after > start and segment.base < end]
    return RangeMember(log.replica.broker, log.replica.hwm or 0, tuple(chosen), tuple(log.explained))


def compare_range(task: CompactedRange) -> list[Finding]:
    tables = [_read(task, member) for member in task.members]
    differing: dict[int, None] = {}
    for one, other in combinations(tables, 2):
        differing.update(dict.fromkeys(_find_differences(one, other).tolist()))
    findings = []
    for offset in sorted(differing):
        copies = [(member, *_row_at(table, offset)) for member, table in zip(task.members, tables, strict=True)]
        held = [(member, content, place) for member, content, place in copies if content is not None]
        findings.append(_make_finding(task, offset, held))
    if len(findings) > MAX_FINDINGS:
        more = len(findings) - MAX_FINDINGS
        findings[MAX_FINDINGS - 1 :] = [findings[MAX_FINDINGS - 1]._replace(places=1 + more)]
    return findings


def _read(task: CompactedRange, member: RangeMember) -> pa.Table:
    return pa.Table.from_batches(
        [batch for segment in member.segments for batch in _read_records(task, member, segment)], _SCHEMA
    )


_SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("batch_position", pa.int64()),
        ("segment", pa.string()),
    ]
)


def _read_records(task: CompactedRange, member: RangeMember, segment: Segment) -> Iterator[pa.RecordBatch]:
    end = min(task.end, member.end)
    start = max(task.start, segment.start)
    if start >= end:
        return
    wanted = replace(segment, start=start, end=end, required_end=-1, corrupt=ROWS, include_control=True)
    for batch in read_segment(wanted, COLUMNS):
        good = batch.filter(pc.is_null(batch.column("error")))
        offsets = np.asarray(good.column("offset"))
        explained = np.zeros(len(offsets), bool)
        for low, high in member.explained:
            explained |= (offsets >= low) & (offsets < high)
        good = good.filter(pa.array(~explained))
        columns = [good.column(name).cast(_SCHEMA.field(name).type) for name in COLUMNS[:-1]]
        yield pa.RecordBatch.from_arrays([*columns, pa.repeat(segment.path, good.num_rows)], schema=_SCHEMA)


def _find_differences(one: pa.Table, other: pa.Table) -> Any:
    """The offsets that both have with different content."""
    columns = (np.asarray(one["offset"]), np.asarray(other["offset"]))
    common, mine, theirs = np.intersect1d(*columns, return_indices=True)
    if not len(common):
        return common
    different = np.zeros(len(common), bool)
    for name in _COMPARED:
        a, b = one[name].take(pa.array(mine)), other[name].take(pa.array(theirs))
        different |= np.asarray(pc.fill_null(pc.not_equal(a, b), False))
        different |= np.asarray(pc.not_equal(pc.is_null(a), pc.is_null(b)))
    return common[different]


def _row_at(table: pa.Table, offset: int) -> tuple[tuple[Any, ...] | None, tuple[str, int | None]]:
    rows = np.flatnonzero(np.asarray(table["offset"]) == offset)
    if not len(rows):
        return None, ("", None)
    row = table.slice(int(rows[0]), 1).to_pylist()[0]
    return tuple(row[name] for name in _COMPARED), (row["segment"], row["batch_position"])


def _make_finding(task: CompactedRange, offset: int, copies: Sequence[tuple[RangeMember, Any, Any]]) -> Finding:
    """The replica with the rarest content is taken to be wrong."""
    contents = [content for _, content, _ in copies]
    member, wrong, place = min(copies, key=lambda copy: (contents.count(copy[1]), -copy[0].broker))
    others = [str(other.broker) for other, content, _ in copies if content != wrong]
    detail = f"holds another record than broker{'s' if len(others) > 1 else ''} {', '.join(others)} (compacted topic)"
    return make_finding(
        kinds.DIVERGED,
        broker=member.broker,
        topic=task.topic,
        partition=task.partition,
        offset=offset,
        file=place[0],
        position=place[1],
        detail=detail,
    )
