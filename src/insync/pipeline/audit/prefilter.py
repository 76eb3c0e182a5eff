"""Where in one partition's history something may be wrong, found in whole columns at once.

This decides nothing: `properties.recorded.Judge` does. It is a sieve in front of the judge, who needs a Python object
per event: what passes here would pass there. Each check below is the complement of one of the judge's, and at worst
asks it to look at something that is in order.
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
    """The columns of `testing.history`, of one partition. `client` is a code, `id` one of (producer, sequence)."""

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

    def where(self, mask: Any) -> Events:
        return Events(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))

    def of(self, kind: int) -> Events:
        return self.where(self.kind == kind)


@dataclass
class Suspects:
    """What the judge should see."""

    offsets: dict[int, None] = field(default_factory=dict)
    """Something is wrong with what is there."""
    ordered: dict[int, None] = field(default_factory=dict)
    """Something is wrong with the order of these; they may be far from each other."""
    ids: dict[int, None] = field(default_factory=dict)
    """Records that have no offset."""
    lists: bool = False
    unread: bool = False

    def __bool__(self) -> bool:
        return bool(self.offsets or self.ordered or self.ids or self.lists or self.unread)

    def at(self, offsets: Any) -> None:
        self.offsets.update(dict.fromkeys(np.asarray(offsets).tolist()))

    def order(self, offsets: Any) -> None:
        self.ordered.update(dict.fromkeys(np.asarray(offsets).tolist()))

    def records(self, ids: Any) -> None:
        self.ids.update(dict.fromkeys(np.asarray(ids).tolist()))


def numbered(producer: Any, sequence: Any) -> Any:
    """One number for each (producer, sequence)."""
    _, who = np.unique(producer, return_inverse=True)
    low = int(sequence.min(initial=0))
    width = int(sequence.max(initial=0)) - low + 1
    return who.astype(np.int64) * width + (sequence - low)


def suspects(events: Events) -> Suspects:
    """`events` in the order of time, of what happened at once, sends first."""
    found = Suspects()
    ends = events.of(END)
    if not len(ends):
        found.unread = True
        return found
    log = events.of(LOG)
    log = log.where(np.argsort(log.offset, kind="stable"))
    _log(log, int(ends.offset[-1]), found)
    _writes(events, log, found)
    _reads(events.of(READ), log, found)
    _lists(events, int(ends.offset[-1]), int(ends.epoch[-1]), found)
    return found


def _log(log: Events, end: int, found: Suspects) -> None:
    """S9: no holes. S13: each producer's records once, in the order of sending."""
    expected = np.concatenate(([0], log.offset[:-1] + 1))[: len(log)]
    found.at(log.offset[log.offset != expected])
    if (int(log.offset[-1]) + 1 if len(log) else 0) < end:
        found.at([end - 1])
    known = log.where((log.producer >= 0) & (log.sequence >= 0))
    known = known.where(np.argsort(known.producer, kind="stable"))
    same = known.producer[1:] == known.producer[:-1]
    again = same & (known.sequence[1:] <= known.sequence[:-1])
    if again.any():
        found.order(known.offset[:-1][again])
        found.order(known.offset[np.isin(known.id, known.id[1:][again])])


def _writes(events: Events, log: Events, found: Suspects) -> None:
    """S9: what was acknowledged is where it was said to be. S11: later writes are behind earlier ones. L5."""
    sends, acks = events.of(SEND), events.of(ACK)
    answered = np.concatenate((acks.id, events.of(FAIL).id))
    found.records(np.setdiff1d(sends.id, answered))
    if not len(acks):
        return
    by_id = np.argsort(sends.id, kind="stable")
    at = _find(sends.id[by_id], acks.id)
    found.records(acks.id[at < 0])  # answered, and never sent
    acks, at = acks.where(at >= 0), by_id[at[at >= 0]]
    sent_crc = sends.crc[at]
    placed = acks.offset != UNKNOWN
    row = _find(log.offset, acks.offset)
    there = (row >= 0) & ((sent_crc < 0) | (log.crc[np.clip(row, 0, None)] == sent_crc) if len(log) else row >= 0)
    found.at(acks.offset[placed & ~there])
    found.records(acks.id[~placed & ~np.isin(sent_crc, log.crc)])
    _order_of_writes(events, acks, at, found)


def _order_of_writes(events: Events, acks: Events, sent: Any, found: Suspects) -> None:
    """`sent`: for each of `acks`, which send it answers."""
    ends = np.where(events.kind == ACK, events.offset + 1, 0)
    floors = np.maximum.accumulate(ends)[events.kind == SEND][sent]
    early = (acks.offset != UNKNOWN) & (acks.offset < floors)
    found.order(acks.offset[early])
    found.order(floors[early] - 1)


def _reads(reads: Events, log: Events, found: Suspects) -> None:
    """S8: what was read is in the log there, and no reader passed anything over."""
    if not len(reads):
        return
    row = _find(log.offset, reads.offset)
    if len(log):
        same = (log.crc[row] == reads.crc) & ((reads.epoch < 0) | (log.epoch[row] == reads.epoch))
        found.at(reads.offset[(row < 0) | ~same])
    else:
        found.at(reads.offset)
    for client in np.unique(reads.client):
        own = reads.offset[reads.client == client]
        expected = np.concatenate(([0], np.maximum.accumulate(own)[:-1] + 1))
        found.at(own[own > expected])


def _lists(events: Events, end: int, last_epoch: int, found: Suspects) -> None:
    """S6 and S11: who asks later for the end is not told less."""
    lists, acks = events.of(LIST), events.of(ACK)
    lists = lists.where(lists.epoch >= 0)
    if not len(lists):
        return
    found.lists = bool((lists.offset > end).any())
    for epoch in np.unique(lists.epoch):
        own, earlier = lists.where(lists.epoch == epoch), lists.where(lists.epoch <= epoch)
        found.lists |= bool((own.offset < _known(earlier.time, earlier.offset, own.started)).any())
        if epoch >= last_epoch and len(acks):
            known = _known(acks.time, acks.offset + 1, own.started)
            stale = own.offset < known
            found.lists |= bool(stale.any())
            found.order(known[stale] - 1)


def _known(times: Any, values: Any, asked: Any) -> Any:
    """The largest of `values` strictly before each time in `asked`; -1 if there is none."""
    highest = np.maximum.accumulate(values)
    at = np.searchsorted(times, asked, side="left") - 1
    return np.where(at >= 0, highest[np.clip(at, 0, None)], -1)


def _find(known: Any, wanted: Any) -> Any:
    """The index of each of `wanted` in the sorted `known`; -1 where it is not."""
    if not len(known):
        return np.full(len(wanted), -1, np.int64)
    at = np.clip(np.searchsorted(known, wanted), 0, len(known) - 1)
    return np.where(known[at] == wanted, at, -1)
