"""Checks one partition after the fact: the history of its clients against the log that they left behind.

The simulator observes a partition while it runs. Here only the history is known, and the log, read from start to end
after all clients had finished. The log counts as committed, record by record, and the history is replayed against it in
the order of time, through the checks that the simulator uses. This is a pure function of one partition's records, so
partitions can be checked in parallel.

The epoch in which a record became committed is not known. It was at latest the last one, so acknowledged records bound
readers of the last epoch; what was listed in an epoch bounds later requests in it and in higher ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

from insync.metadata.partition import Partition, PartitionKey
from insync.properties import read_consistency
from insync.properties.clients import ClientChecks
from insync.properties.committed_log import CommittedLog
from insync.properties.ghost import PartitionGhost
from insync.properties.history import (
    UNKNOWN_CRC,
    UNKNOWN_OFFSET,
    Acked,
    Failed,
    Fingerprint,
    History,
    ListedOffset,
    Read,
    Record,
    Sent,
)
from insync.properties.liveness import check_answered

LOST, MOVED, DUPLICATED, REORDERED = "lost", "moved", "duplicated", "reordered"
INCONSISTENT, STALE, UNANSWERED = "inconsistent", "stale", "unanswered"

KEY: PartitionKey = (UUID(int=0), 0)
"""The partition of every record of a history that is checked."""


class Finding(NamedTuple):
    """A violation; `offset` is -1 if it has none."""

    kind: str
    property: str
    offset: int
    detail: str


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of the log; `crc` is that of its value, `sequence` numbers what its producer sent to the partition."""

    offset: int
    leader_epoch: int
    crc: int
    producer: int
    sequence: int

    @property
    def base_offset(self) -> int:
        return self.offset

    @property
    def producer_id(self) -> int:
        return self.producer

    @property
    def producer_epoch(self) -> int:
        return 0

    @property
    def base_sequence(self) -> int:
        return self.sequence


class HistoryChecker:
    """`log` is in the order of offsets, from `start` up to `end`, read in the leader epoch `last_epoch`."""

    def __init__(self, log: Sequence[LogRecord], *, end: int, last_epoch: int, start: int = 0) -> None:
        self._log = log
        self._start = start
        self._end = end
        self._last_epoch = last_epoch
        self._ghost = PartitionGhost(_partition(last_epoch), 1)
        self._ghost.committed = CommittedLog(keep=len(log) + 1)
        self._violations: list[tuple[str, str]] = []
        self._sent: dict[int, int] = {}
        self._next: dict[str, int] = {}

    def findings(self, history: Iterable[Record]) -> Iterator[Finding]:
        """`history` is in the order of time, all of it about `KEY`."""
        yield from self._walk_log()
        yield from self._replay(history)

    # --- the log by itself -------------------------------------------------------------------------------------------

    def _walk_log(self) -> Iterator[Finding]:
        """S9: offsets have no gaps. S13: every producer's records are in it once, in the order of sending."""
        committed = self._ghost.committed
        for record in self._log:
            end = committed.end if committed.batches else self._start
            if record.offset != end:
                yield Finding(LOST, "S9", end, f"the log continues at {record.offset} after {end - 1}")
            wrong = self._ghost.sequences.committed(record)
            if wrong:
                yield Finding(self._classify_repeat(record), "S13", record.offset, wrong)
            batch = Fingerprint(record.offset, record.offset, record.leader_epoch, record.crc)
            committed.extend(batch, self._last_epoch)
        if committed.end < self._end:
            yield Finding(LOST, "S9", committed.end, f"the log ends at {committed.end}, but {self._end} was listed")
        committed.start = self._start

    def _classify_repeat(self, record: LogRecord) -> str:
        first = self._first_of[record.producer, record.sequence]
        return DUPLICATED if first < record.offset else REORDERED

    @cached_property
    def _first_of(self) -> dict[tuple[int, int], int]:
        """The first offset of each record; built only if something is wrong."""
        return {(record.producer, record.sequence): record.offset for record in reversed(self._log)}

    # --- the clients against the log ---------------------------------------------------------------------------------

    def _replay(self, history: Iterable[Record]) -> Iterator[Finding]:
        """S6, S8, S9 and S11, one record at a time, so that each violation belongs to a record; L5 at the end."""
        seen = History()
        checks = ClientChecks(seen, {KEY: self._ghost}, lambda rule, wrong, _: self._violations.append((rule, wrong)))
        for record in history:
            value = self._value_of(record)
            if isinstance(record, Acked) and record.base_offset == UNKNOWN_OFFSET and value not in self._values:
                yield Finding(LOST, "S9", UNKNOWN_OFFSET, f"write {record.op} was acknowledged and is not in the log")
            if isinstance(record, Read):
                self._check_next(record)
            seen.append(record)
            checks.check()
            for rule, wrong in self._violations:
                yield self._finding(record, value, rule, wrong)
            self._violations.clear()
        unanswered = check_answered(checks.waiting())
        if unanswered:
            yield Finding(UNANSWERED, "L5", -1, unanswered)

    def _check_next(self, read: Read) -> None:
        """S8, for logs without gaps."""
        expected = self._next.get(read.reader, self._start)
        wrong = read_consistency.check_next(read, expected)
        if wrong:
            self._violations.append(("S8", wrong))
        self._next[read.reader] = max(expected, *(batch.last_offset + 1 for batch in read.batches))

    def _value_of(self, record: Record) -> int:
        """What the write that ends with `record` wrote."""
        if isinstance(record, Sent):
            self._sent[record.op] = record.crc
        elif isinstance(record, Acked | Failed):
            return self._sent.pop(record.op, UNKNOWN_CRC)
        return UNKNOWN_CRC

    def _finding(self, record: Record, value: int, rule: str, wrong: str) -> Finding:
        if isinstance(record, Acked):
            kind = REORDERED if rule == "S11" else MOVED if value in self._values else LOST
            return Finding(kind, rule, record.base_offset, wrong)
        if isinstance(record, Read):
            return Finding(INCONSISTENT if rule == "S8" else STALE, rule, record.offset, wrong)
        return Finding(STALE, rule, record.offset if isinstance(record, ListedOffset) else -1, wrong)

    @cached_property
    def _values(self) -> dict[int, int]:
        return {record.crc: record.offset for record in self._log}


def _partition(leader_epoch: int) -> Partition:
    topic_id, index = KEY
    return Partition(
        topic_id=topic_id,
        topic="",
        index=index,
        replicas=(),
        isr=(),
        leader=-1,
        leader_epoch=leader_epoch,
        partition_epoch=-1,
    )
