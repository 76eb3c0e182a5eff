"""Finds where in one partition's history something may be wrong, on whole columns at once.

It decides nothing: `properties.history_checker.HistoryChecker` does, which needs a Python object per event. What
passes the prefilter would pass the checker. Each check below corresponds to one of the checker's; at worst it makes the
checker look at events that are correct.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from insync.history import history_file

CODES = {kind: code for code, kind in enumerate(history_file.KINDS)}
SEND, ACK, FAIL, READ, LIST = (CODES[kind] for kind in history_file.KINDS[:5])
LOG, END = CODES[history_file.LOG], CODES[history_file.END]
UNKNOWN = -1


@dataclass(frozen=True)
class Events:
    """The columns of `insync.history.history_file`, of one partition. `client` is a code, `id` stands for (producer,
    sequence)."""

    kind: Any
    time: Any
    offset: Any
    epoch: Any
    producer: Any
    sequence: Any
    crc: Any
    started: Any
    client: Any
    id: Any

    def __len__(self) -> int:
        return len(self.kind)

    def select(self, mask: Any) -> Events:
        return Events(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))

    def of_kind(self, kind: int) -> Events:
        return self.select(self.kind == kind)


@dataclass
class Suspects:
    """What the checker has to look at."""

    offsets: dict[int, None] = field(default_factory=dict)
    """Records at these offsets may be wrong."""
    ordered: dict[int, None] = field(default_factory=dict)
    """The order of these may be wrong; they may be far from each other."""
    ids: dict[int, None] = field(default_factory=dict)
    """Records without an offset."""
    lists: bool = False
    """Reported log ends may be wrong."""
    unread: bool = False
    """The history does not contain the log."""

    def __bool__(self) -> bool:
        return bool(self.offsets or self.ordered or self.ids or self.lists or self.unread)

    def add_offsets(self, offsets: Any) -> None:
        self.offsets.update(dict.fromkeys(np.asarray(offsets).tolist()))

    def add_ordered(self, offsets: Any) -> None:
        self.ordered.update(dict.fromkeys(np.asarray(offsets).tolist()))

    def add_ids(self, ids: Any) -> None:
        self.ids.update(dict.fromkeys(np.asarray(ids).tolist()))


def number_records(producer: Any, sequence: Any) -> Any:
    """One number for each (producer, sequence)."""
    _, producers = np.unique(producer, return_inverse=True)
    low = int(sequence.min(initial=0))
    width = int(sequence.max(initial=0)) - low + 1
    return producers.astype(np.int64) * width + (sequence - low)


@dataclass(frozen=True)
class Bounds:
    """Which offsets the events are about, if they are only a part of a partition's."""

    start: int
    end: int
    log_end: int
    """Of the partition."""
    epoch: int
    """The leader epoch in which the log was read."""


def find_suspects(events: Events, bounds: Bounds | None = None) -> Suspects:
    """`events` are in the order of time; of simultaneous ones, sends come first."""
    suspects = Suspects()
    ends = events.of_kind(END)
    if bounds is None:
        if not len(ends):
            suspects.unread = True
            return suspects
        end = int(ends.offset[-1])
        bounds = Bounds(0, end, end, int(ends.epoch[-1]))
    log = events.of_kind(LOG)
    log = log.select(np.argsort(log.offset, kind="stable"))
    _check_log(log, bounds, suspects)
    _check_writes(events, log, suspects)
    _check_reads(events.of_kind(READ), log, bounds.start, suspects)
    _check_lists(events, bounds.log_end, bounds.epoch, suspects)
    return suspects


def _check_log(log: Events, bounds: Bounds, suspects: Suspects) -> None:
    """S9: no holes. S13: each producer's records once, in the order of sending."""
    expected = np.concatenate(([bounds.start], log.offset[:-1] + 1))[: len(log)]
    suspects.add_offsets(log.offset[log.offset != expected])
    if (int(log.offset[-1]) + 1 if len(log) else bounds.start) < bounds.end:
        suspects.add_offsets([bounds.end - 1])
    known = log.select((log.producer >= 0) & (log.sequence >= 0))
    known = known.select(np.argsort(known.producer, kind="stable"))
    same = known.producer[1:] == known.producer[:-1]
    again = same & (known.sequence[1:] <= known.sequence[:-1])
    if again.any():
        suspects.add_ordered(known.offset[:-1][again])
        suspects.add_ordered(known.offset[np.isin(known.id, known.id[1:][again])])


def _check_writes(events: Events, log: Events, suspects: Suspects) -> None:
    """S9: acknowledged records are at their offsets. S11: later writes follow earlier ones. L5: all are answered."""
    sends, acks = events.of_kind(SEND), events.of_kind(ACK)
    answered = np.concatenate((acks.id, events.of_kind(FAIL).id))
    suspects.add_ids(np.setdiff1d(sends.id, answered))
    if not len(acks):
        return
    by_id = np.argsort(sends.id, kind="stable")
    at = _index_of(sends.id[by_id], acks.id)
    suspects.add_ids(acks.id[at < 0])  # answered, but never sent
    acks, at = acks.select(at >= 0), by_id[at[at >= 0]]
    sent_crc = sends.crc[at]
    placed = acks.offset != UNKNOWN
    row = _index_of(log.offset, acks.offset)
    there = (row >= 0) & ((sent_crc < 0) | (log.crc[np.clip(row, 0, None)] == sent_crc) if len(log) else row >= 0)
    suspects.add_offsets(acks.offset[placed & ~there])
    suspects.add_ids(acks.id[~placed & ~np.isin(sent_crc, log.crc)])
    _check_write_order(events, acks, at, suspects)


def _check_write_order(events: Events, acks: Events, sent: Any, suspects: Suspects) -> None:
    """`sent` has the index of the send that each of `acks` answers."""
    ends = np.where(events.kind == ACK, events.offset + 1, 0)
    floors = np.maximum.accumulate(ends)[events.kind == SEND][sent]
    early = (acks.offset != UNKNOWN) & (acks.offset < floors)
    suspects.add_ordered(acks.offset[early])
    suspects.add_ordered(floors[early] - 1)


def _check_reads(reads: Events, log: Events, start: int, suspects: Suspects) -> None:
    """S8: what was read is in the log at that offset, and no reader skipped anything."""
    if not len(reads):
        return
    row = _index_of(log.offset, reads.offset)
    if len(log):
        same = (log.crc[row] == reads.crc) & ((reads.epoch < 0) | (log.epoch[row] == reads.epoch))
        suspects.add_offsets(reads.offset[(row < 0) | ~same])
    else:
        suspects.add_offsets(reads.offset)
    for client in np.unique(reads.client):
        own = reads.offset[reads.client == client]
        expected = np.concatenate(([start], np.maximum.accumulate(own)[:-1] + 1))
        suspects.add_offsets(own[own > expected])


def _check_lists(events: Events, end: int, last_epoch: int, suspects: Suspects) -> None:
    """S6 and S11: the log end that is reported does not go back."""
    lists, acks = events.of_kind(LIST), events.of_kind(ACK)
    lists = lists.select(lists.epoch >= 0)
    if not len(lists):
        return
    suspects.lists = bool((lists.offset > end).any())
    for epoch in np.unique(lists.epoch):
        own, earlier = lists.select(lists.epoch == epoch), lists.select(lists.epoch <= epoch)
        suspects.lists |= bool((own.offset < _highest_before(earlier.time, earlier.offset, own.started)).any())
        if epoch >= last_epoch and len(acks):
            known = _highest_before(acks.time, acks.offset + 1, own.started)
            stale = own.offset < known
            suspects.lists |= bool(stale.any())
            suspects.add_ordered(known[stale] - 1)


def _highest_before(times: Any, values: Any, asked: Any) -> Any:
    """The largest of `values` strictly before each time in `asked`; -1 if there is none."""
    highest = np.maximum.accumulate(values)
    at = np.searchsorted(times, asked, side="left") - 1
    return np.where(at >= 0, highest[np.clip(at, 0, None)], -1)


def _index_of(known: Any, wanted: Any) -> Any:
    """The index of each of `wanted` in the sorted `known`; -1 if it is not there."""
    if not len(known):
        return np.full(len(wanted), -1, np.int64)
    at = np.clip(np.searchsorted(known, wanted), 0, len(known) - 1)
    return np.where(known[at] == wanted, at, -1)
