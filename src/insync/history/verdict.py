"""Whether a cluster kept its promises: the history of its clients, checked by the protocol's properties.

The check is valid for topics from which nothing is deleted and that never have an unclean election.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from insync.history import history_file
from insync.history.history_file import Event
from insync.properties import history_checker
from insync.properties.history import Acked, Failed, Fingerprint, ListedOffset, Read, Record, Sent
from insync.properties.history_checker import KEY, Finding, HistoryChecker, LogRecord

UNREAD = "unread"
MEANINGS = {
    history_checker.LOST: ("S9", "an acknowledged record is not in the log, or the log has a hole"),
    history_checker.MOVED: ("S9", "an acknowledged record is in the log at another offset"),
    history_checker.DUPLICATED: ("S13", "a record is in the log twice"),
    history_checker.REORDERED: ("S11 S13", "records are not in the order in which they were sent"),
    history_checker.INCONSISTENT: (
        "S8",
        "a consumer read a record that is not in the log at this offset, or missed one",
    ),
    history_checker.STALE: ("S6 S11", "a later ListOffsets answer was lower than an earlier one"),
    history_checker.UNANSWERED: ("L5", "a record was neither acknowledged nor refused"),
    UNREAD: ("", "the partition was not read to its end"),
}
"""Kinds of findings: the properties they violate, and what happened."""
SILENT = "silent"
"""The error of the `reset` with which a consumer was replaced because it had read nothing for a long time."""
ACKS_ALL = -1
UNKNOWN_HWM = -1


@dataclass(frozen=True, slots=True)
class PartitionVerdict:
    topic: str
    partition: int
    events: Counter[str]
    end: int
    """The log end offset."""
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    partitions: tuple[PartitionVerdict, ...]

    @property
    def ok(self) -> bool:
        return bool(self.partitions) and not any(partition.findings for partition in self.partitions)

    def count(self, kind: str) -> int:
        """How many events, or findings, of this kind all partitions have."""
        if kind in history_file.KINDS:
            return sum(partition.events[kind] for partition in self.partitions)
        return sum(finding.kind == kind for partition in self.partitions for finding in partition.findings)

    @property
    def silences(self) -> int:
        """How many partitions had a consumer that was replaced because it read nothing for a long time."""
        return sum(partition.events[SILENT] for partition in self.partitions)

    def lines(self) -> Iterator[str]:
        """One line per finding."""
        for partition in self.partitions:
            for kind, rule, offset, detail in partition.findings:
                where = f"{partition.topic}-{partition.partition} offset {offset}"
                yield f"{kind} {where}: {detail}{f' ({rule})' if rule else ''}"


def check_history(events: Iterable[Event]) -> Verdict:
    histories = history_file.by_partition(events)
    return Verdict(tuple(check_partition(topic, index, history) for (topic, index), history in histories.items()))


def check_partition(topic: str, partition: int, events: Sequence[Event], *, start: int = 0) -> PartitionVerdict:
    """`events` are those of one partition by time: all of them, or all that concern offset `start` and later."""
    counts = Counter(event.kind for event in events)
    counts[SILENT] = sum(event.kind == history_file.RESET and event.error == SILENT for event in events)
    ends = [event for event in events if event.kind == history_file.END]
    if not ends:
        unread = Finding(UNREAD, "", -1, "the log was not read to its end")
        return PartitionVerdict(topic, partition, counts, -1, (unread,))
    log = sorted(
        (_log_record(event) for event in events if event.kind == history_file.LOG), key=lambda record: record.offset
    )
    epochs = {record.offset: record.leader_epoch for record in log}
    checker = HistoryChecker(log, end=ends[-1].offset, last_epoch=ends[-1].epoch, start=start)
    findings = tuple(checker.findings(_records(events, epochs)))
    return PartitionVerdict(topic, partition, counts, ends[-1].offset, findings)


# --- events as the properties know them -------------------------------------------------------------------------------


def _log_record(event: Event) -> LogRecord:
    return LogRecord(event.offset, event.epoch, event.crc, event.producer, event.sequence)


def _records(events: Sequence[Event], epochs: dict[int, int]) -> Iterator[Record]:
    """Writes are numbered in the order in which they were sent."""
    ops: dict[tuple[int, int], int] = {}
    for event in events:
        sent = (event.producer, event.sequence)
        if event.kind == history_file.SEND:
            ops[sent] = len(ops) + 1
            yield Sent(ops[sent], event.time, KEY, ACKS_ALL, 1, event.crc, idempotent=True)
        elif event.kind == history_file.ACK:
            yield Acked(ops[sent], event.time, event.offset)
        elif event.kind == history_file.FAIL:
            yield Failed(ops[sent], event.time, event.error)
        elif event.kind == history_file.READ:
            yield _read(event, epochs)
        elif event.kind == history_file.LIST:
            yield ListedOffset(event.started, event.time, KEY, event.offset, event.epoch, event.client)


def _read(event: Event, epochs: dict[int, int]) -> Read:
    """A consumer that does not know the epoch of a record makes no claim about it: the log's epoch is used."""
    epoch = event.epoch if event.epoch >= 0 else epochs.get(event.offset, -1)
    batch = Fingerprint(event.offset, event.offset, epoch, event.crc)
    return Read(event.started, event.time, KEY, event.offset, UNKNOWN_HWM, (batch,), reader=event.client)
