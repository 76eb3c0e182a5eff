"""Whether a cluster kept its word: the history of its clients, judged by the protocol's properties.

This holds for topics that nothing is deleted from, and that are never elected a leader uncleanly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from insync.history import history_file
from insync.history.history_file import Event
from insync.properties import recorded
from insync.properties.history import Acked, Failed, Fingerprint, ListedOffset, Read, Record, Sent
from insync.properties.recorded import KEY, Finding, Judge, LogRecord

UNREAD = "unread"
MEANINGS = {
    recorded.LOST: ("S9", "an acknowledged record is not in the log, or the log has a hole"),
    recorded.MOVED: ("S9", "an acknowledged record is in the log at another offset"),
    recorded.DUPLICATED: ("S13", "a record is in the log twice"),
    recorded.REORDERED: ("S11 S13", "records are not in the order in which they were sent"),
    recorded.INCONSISTENT: ("S8", "a consumer read what is not in the log there, or missed what is"),
    recorded.STALE: ("S6 S11", "who asked later for the end offset was told less"),
    recorded.UNANSWERED: ("L5", "a record was neither acknowledged nor refused"),
    UNREAD: ("", "nobody read the partition to its end"),
}
"""By kind of finding: the properties it speaks of, and what happened."""
SILENT = "silent"
"""The error of a `reset` with which a consumer was replaced because it had read nothing for long."""
ACKS_ALL = -1
UNKNOWN_HWM = -1


@dataclass(frozen=True, slots=True)
class PartitionVerdict:
    topic: str
    partition: int
    events: Counter[str]
    end: int
    """One past the last offset of the log."""
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    partitions: tuple[PartitionVerdict, ...]

    @property
    def ok(self) -> bool:
        return bool(self.partitions) and not any(each.findings for each in self.partitions)

    def count(self, kind: str) -> int:
        """Of all partitions: events of a kind of event, or findings of a kind of finding."""
        if kind in history_file.KINDS:
            return sum(each.events[kind] for each in self.partitions)
        return sum(finding.kind == kind for each in self.partitions for finding in each.findings)

    @property
    def silences(self) -> int:
        """How many partitions were read on by another consumer because the first had fallen silent."""
        return sum(partition.events[SILENT] for partition in self.partitions)

    def lines(self) -> Iterator[str]:
        """What is wrong, a line each."""
        for each in self.partitions:
            for kind, rule, offset, detail in each.findings:
                yield f"{kind} {each.topic}-{each.partition} offset {offset}: {detail}{f' ({rule})' if rule else ''}"


def judge(events: Iterable[Event]) -> Verdict:
    found = history_file.by_partition(events)
    return Verdict(tuple(judge_partition(topic, index, each) for (topic, index), each in found.items()))


def judge_partition(topic: str, partition: int, events: Sequence[Event], *, start: int = 0) -> PartitionVerdict:
    """`events` are those of one partition in the order of time: all of them, or all that speak of `start` and later."""
    counts = Counter(event.kind for event in events)
    counts[SILENT] = sum(event.kind == history_file.RESET and event.error == SILENT for event in events)
    ends = [event for event in events if event.kind == history_file.END]
    if not ends:
        unread = Finding(UNREAD, "", -1, "the log was not read to its end")
        return PartitionVerdict(topic, partition, counts, -1, (unread,))
    log = sorted(
        (_log_record(event) for event in events if event.kind == history_file.LOG), key=lambda each: each.offset
    )
    epochs = {record.offset: record.leader_epoch for record in log}
    court = Judge(log, end=ends[-1].offset, last_epoch=ends[-1].epoch, start=start)
    findings = tuple(court.findings(_records(events, epochs)))
    return PartitionVerdict(topic, partition, counts, ends[-1].offset, findings)


# --- lines as the properties know them -------------------------------------------------------------------------------


def _log_record(event: Event) -> LogRecord:
    return LogRecord(event.offset, event.epoch, event.crc, event.producer, event.sequence)


def _records(events: Sequence[Event], epochs: dict[int, int]) -> Iterator[Record]:
    """Writes are numbered in the order of their sending."""
    ops: dict[tuple[int, int], int] = {}
    for event in events:
        who = (event.producer, event.sequence)
        if event.kind == history_file.SEND:
            ops[who] = len(ops) + 1
            yield Sent(ops[who], event.time, KEY, ACKS_ALL, 1, event.crc, idempotent=True)
        elif event.kind == history_file.ACK:
            yield Acked(ops[who], event.time, event.offset)
        elif event.kind == history_file.FAIL:
            yield Failed(ops[who], event.time, event.error)
        elif event.kind == history_file.READ:
            yield _read(event, epochs)
        elif event.kind == history_file.LIST:
            yield ListedOffset(event.started, event.time, KEY, event.offset, event.epoch, event.client)


def _read(event: Event, epochs: dict[int, int]) -> Read:
    """A consumer that does not know in which epoch the record was written claims nothing about it."""
    epoch = event.epoch if event.epoch >= 0 else epochs.get(event.offset, -1)
    batch = Fingerprint(event.offset, event.offset, epoch, event.crc)
    return Read(event.started, event.time, KEY, event.offset, UNKNOWN_HWM, (batch,), reader=event.client)
