"""A large partition's history in parts, so that an executor needs memory for one part and not for the partition.

A part has the events about a range of offsets: the records there in the log, their sends, answers and reads, and
answers to ListOffsets that returned an offset of the range. A send has no offset; it goes with its acknowledgement.
Events about records without a known offset are in parts of their own, divided by record.

The checks of one part are those of a whole partition. What spans parts follows from a summary of each (`stitch`): since
parts are ranges of offsets, an earlier acknowledgement of a higher offset is one in a later part, and the earliest of
each part is enough to know it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from insync.pipeline.audit.prefilter import ACK, LIST, LOG, READ, SEND, UNKNOWN, Bounds, Events
from insync.properties import history_checker

FindingRow = tuple[str, str, int, str]
"""Kind, property, offset, detail."""
NEVER = 1 << 62
MAX_REPEATS = 10_000

TimeAndOffset = tuple[int, int]


@dataclass
class PartSummary:
    """What the checks that span parts need of one."""

    part: int
    """Its number; negative for records without a known offset."""
    first_ack: TimeAndOffset = (NEVER, -1)
    last_send: TimeAndOffset = (-1, -1)
    """Of acknowledged records: when it was sent, and its offset."""
    first_lists: dict[int, TimeAndOffset] = field(default_factory=dict)
    """By leader epoch: when the first answer came, and the offset in it."""
    last_lists: dict[int, TimeAndOffset] = field(default_factory=dict)
    """By leader epoch: when the last request was sent, and the offset that it returned."""
    producers: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    """By producer, in the log: first sequence, its offset, last sequence, highest sequence."""
    readers: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """By client: time of its first read, its highest offset, time of that."""
    repeats: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By offset in the log: producer and sequence of records that do not follow the one before."""


def summarize(events: Events, names: Sequence[str], part: int) -> PartSummary:
    """`events` are in the order of time."""
    summary = PartSummary(part)
    acks = events.of_kind(ACK)
    acks = acks.select(acks.offset != UNKNOWN)
    if len(acks):
        at = int(np.argmin(acks.time))
        summary.first_ack = (int(acks.time[at]), int(acks.offset[at]))
        sends = events.of_kind(SEND)
        sends = sends.select(np.isin(sends.id, acks.id))
        if len(sends):
            last = int(np.argmax(sends.time))
            offset = acks.offset[acks.id == sends.id[last]][0]
            summary.last_send = (int(sends.time[last]), int(offset))
    _summarize_lists(events.of_kind(LIST), summary)
    _summarize_log(events.of_kind(LOG), summary)
    reads = events.of_kind(READ)
    for client in np.unique(reads.client):
        own = reads.select(reads.client == client)
        top = int(np.argmax(own.offset))
        summary.readers[names[int(client)]] = (int(own.time[0]), int(own.offset[top]), int(own.time[top]))
    return summary


def _summarize_lists(lists: Events, summary: PartSummary) -> None:
    for epoch in np.unique(lists.epoch[lists.epoch >= 0]):
        own = lists.select(lists.epoch == epoch)
        first, last = int(np.argmin(own.time)), int(np.argmax(own.started))
        summary.first_lists[int(epoch)] = (int(own.time[first]), int(own.offset[first]))
        summary.last_lists[int(epoch)] = (int(own.started[last]), int(own.offset[last]))


def _summarize_log(log: Events, summary: PartSummary) -> None:
    known = log.select((log.producer >= 0) & (log.sequence >= 0))
    known = known.select(np.argsort(known.offset, kind="stable"))
    for producer in np.unique(known.producer):
        own = known.select(known.producer == producer)
        sequence = own.sequence
        highest = int(sequence.max())
        summary.producers[int(producer)] = (int(sequence[0]), int(own.offset[0]), int(sequence[-1]), highest)
        for i in (np.flatnonzero(np.diff(sequence) <= 0) + 1)[:MAX_REPEATS]:
            summary.repeats[int(own.offset[i])] = (int(producer), int(sequence[i]))


# --- on the driver ---------------------------------------------------------------------------------------------------


def bounds_of(part: int, size: int, end: int, epoch: int) -> Bounds:
    """The offsets that a part has: the last one up to the log's end."""
    return Bounds(part * size, min((part + 1) * size, max(end, part * size)), end, epoch)


def stitch(summaries: Sequence[PartSummary], size: int, end: int, last_epoch: int) -> Iterator[FindingRow]:
    """Findings that no part shows by itself. `size`: offsets of a part; `end`: the log's end offset."""
    parts = sorted((summary for summary in summaries if summary.part >= 0), key=lambda summary: summary.part)
    present = {summary.part for summary in parts}
    for missing in range(-(-end // size)):
        if missing not in present:
            start = missing * size
            yield (history_checker.LOST, "S9", start, f"no event has an offset from {start} to {start + size - 1}")
    yield from _stitch_writes(parts)
    yield from _stitch_lists(parts, last_epoch)
    yield from _stitch_log(parts)
    yield from _stitch_readers(parts, size)


def _stitch_writes(parts: Sequence[PartSummary]) -> Iterator[FindingRow]:
    """S11: a record that was sent after the acknowledgement of another one follows it in the log."""
    earliest: TimeAndOffset = (NEVER, -1)
    for summary in reversed(parts):
        sent, offset = summary.last_send
        if sent > earliest[0]:
            detail = f"sent at {sent}, after offset {earliest[1]} was acknowledged at {earliest[0]}"
            yield (history_checker.REORDERED, "S11", offset, detail)
        earliest = min(earliest, summary.first_ack)


def _stitch_lists(parts: Sequence[PartSummary], last_epoch: int) -> Iterator[FindingRow]:
    """S6 and S11: the log end that is reported does not go back."""
    first_ack: TimeAndOffset = (NEVER, -1)
    first_lists: dict[int, TimeAndOffset] = {}
    for summary in reversed(parts):
        for epoch, (started, offset) in summary.last_lists.items():
            known = [(time, listed) for other, (time, listed) in first_lists.items() if other <= epoch]
            time, listed = min(known, default=(NEVER, -1))
            if time < started:
                detail = f"the log end {offset} was returned to a request after the answer {listed} at {time}"
                yield (history_checker.STALE, "S6", offset, detail)
            if epoch >= last_epoch and first_ack[0] < started:
                detail = f"the log end {offset} was returned to a request after offset {first_ack[1]} was acknowledged"
                yield (history_checker.STALE, "S11", offset, detail)
        first_ack = min(first_ack, summary.first_ack)
        for epoch, first in summary.first_lists.items():
            first_lists[epoch] = min(first_lists.get(epoch, (NEVER, -1)), first)


def _stitch_log(parts: Sequence[PartSummary]) -> Iterator[FindingRow]:
    """S13: every producer's records are in the log once, in the order of sending."""
    last: dict[int, tuple[int, int]] = {}
    for summary in parts:
        for producer, (first, offset, final, highest) in summary.producers.items():
            known = last.get(producer)
            if known is not None and first <= known[0]:
                kind = history_checker.DUPLICATED if first <= known[1] else history_checker.REORDERED
                detail = f"sequence {first} of producer {producer} is at {offset}, the last one before was {known[0]}"
                yield (kind, "S13", offset, detail)
            last[producer] = (final, max(highest, -1 if known is None else known[1]))


def _stitch_readers(parts: Sequence[PartSummary], size: int) -> Iterator[FindingRow]:
    """S8: no reader skipped anything."""
    clients = dict.fromkeys(client for summary in parts for client in summary.readers)
    for client in clients:
        expected, reached = 0, -1
        for summary in parts:
            if client not in summary.readers:
                continue
            time, highest, at = summary.readers[client]
            start = summary.part * size
            if expected < start or time < reached:
                detail = f"reader {client} continued at {start} before it had read offset {expected}"
                yield (history_checker.INCONSISTENT, "S8", expected, detail)
            expected, reached = highest + 1, at


def rename_repeats(findings: Sequence[FindingRow], summaries: Sequence[PartSummary]) -> list[FindingRow]:
    """A part does not know that an earlier one has the same record: then it is duplicated and not reordered."""
    repeats: Mapping[int, tuple[int, int]] = {
        offset: record for summary in summaries for offset, record in summary.repeats.items()
    }
    ordered = sorted((summary for summary in summaries if summary.part >= 0), key=lambda summary: summary.part)
    renamed = []
    for kind, rule, offset, detail in findings:
        record = repeats.get(offset) if (kind, rule) == (history_checker.REORDERED, "S13") else None
        if record is not None and _is_covered(ordered, *record, offset):
            kind = history_checker.DUPLICATED
        renamed.append((kind, rule, offset, detail))
    return renamed


def _is_covered(parts: Sequence[PartSummary], producer: int, sequence: int, offset: int) -> bool:
    for summary in parts:
        known: Any = summary.producers.get(producer)
        if known is not None and known[1] < offset and known[0] <= sequence <= known[3]:
            return True
    return False
