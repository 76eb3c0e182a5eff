"""The findings of an audit: their kinds, what they mean, and how they are grouped by cause.

A `Finding` is one place. One cause has often many: a wrong line in an epoch checkpoint contradicts every batch of that
epoch. `group_by_cause` makes one `Cause` of the findings of one kind in one replica (or in one file that concerns no
single partition), with the first place as the example, worst first. `condense` joins causes of one kind until they fit
a limit, so that a limit shortens the list but hides no kind and no broker that has it alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from insync.findings import CRITICAL, WARNING
from insync.history import verdict

DIVERGED, CRC, UNREADABLE, GAP, SHORT, MISSING = "diverged", "crc", "unreadable", "gap", "short", "missing"
ORDER, DUPLICATED, EPOCH = "order", "duplicated", "epoch"
QUORUM, IDENTITY, MISPLACED = "quorum", "identity", "misplaced"
STRAY, CHECKPOINT, SNAPSHOT, PRODUCERS, INDEX = "stray", "checkpoint", "snapshot", "producers", "index"
MALFORMED, EMPTY = "malformed", "empty"


class Meaning(NamedTuple):
    property: str
    """The violated property, or the rule that the file serves; empty if there is none."""
    text: str
    severity: str


_LOG_MEANINGS = {
    MISSING: Meaning("S9", "the metadata or a checkpoint names a replica whose files are not there", CRITICAL),
    SHORT: Meaning("S9", "a log ends below its high watermark, or below what was synced", CRITICAL),
    DIVERGED: Meaning("S2", "replicas hold different batches below their high watermarks", CRITICAL),
    CRC: Meaning("S2", "a batch does not match its checksum", CRITICAL),
    UNREADABLE: Meaning("S2", "a file holds something other than batches", CRITICAL),
    GAP: Meaning("S9", "offsets are missing, in a topic that is not compacted", CRITICAL),
    ORDER: Meaning("S9", "a batch or a segment has offsets that do not belong there", CRITICAL),
    DUPLICATED: Meaning("S13", "a batch or a record is in the log twice", CRITICAL),
    EPOCH: Meaning("S2", "leader epochs decrease, or differ from the epoch checkpoint", CRITICAL),
    QUORUM: Meaning("Q4", "a file with the votes or the progress of the quorum is damaged or old", CRITICAL),
    IDENTITY: Meaning("B9", "a directory belongs to another node or cluster than its meta.properties say", CRITICAL),
    MISPLACED: Meaning("B9", "a directory holds the log of another partition, or has a wrong name", CRITICAL),
    SNAPSHOT: Meaning("Q6", "a snapshot of the metadata is damaged, or is not part of the log", WARNING),
    CHECKPOINT: Meaning("", "a checkpoint file of offsets is damaged, or contradicts the logs", WARNING),
    STRAY: Meaning("B9", "files that no partition of this broker uses", WARNING),
    PRODUCERS: Meaning("P4", "a snapshot of producers is damaged, or contradicts the log", WARNING),
    INDEX: Meaning("", "an index does not match its segment", WARNING),
}
_HISTORY_MEANINGS = {
    kind: Meaning(*meaning, WARNING if kind in (verdict.UNREAD, "unanswered") else CRITICAL)
    for kind, meaning in verdict.MEANINGS.items()
} | {
    MALFORMED: Meaning("", "a history holds something other than events, or a response without a request", WARNING),
    EMPTY: Meaning("", "a history holds no events", WARNING),
}
MEANINGS: dict[str, Meaning] = _HISTORY_MEANINGS | _LOG_MEANINGS
"""All kinds of findings, those of logs and of histories."""
_RANKS = {
    kind: (MEANINGS[kind].severity != CRITICAL, rank) for rank, kind in enumerate((*_HISTORY_MEANINGS, *_LOG_MEANINGS))
}
DDL = (
    "kind string, property string, broker int, topic string, partition int, offset bigint, file string, "
    "position bigint, detail string, places bigint"
)


ReplicaKey = tuple[int, str, int]
"""Broker, topic and partition."""


class Finding(NamedTuple):
    kind: str
    property: str
    broker: int | None
    """None for a client's history."""
    topic: str
    partition: int
    offset: int
    """-1 if the finding has no offset."""
    file: str
    position: int | None
    detail: str
    places: int = 1
    """For how many it stands: of many equal ones, only the first are listed."""

    def __str__(self) -> str:
        return _describe(self, self._where())

    def _where(self) -> str:
        offset = f"offset {self.offset}" if self.offset >= 0 else ""
        return " ".join(part for part in (_name_replica(self), offset) if part)


def _name_replica(finding: Finding) -> str:
    broker = f"broker {finding.broker}" if finding.broker is not None else ""
    partition = f"{finding.topic}-{finding.partition}" if finding.topic else ""
    return " ".join(part for part in (broker, partition) if part)


def _describe(finding: Finding, where: str) -> str:
    position = "" if finding.position is None else f" at {finding.position}"
    file = f" ({finding.file}{position})" if finding.file else ""
    return ": ".join(part for part in (finding.kind, where, finding.detail) if part) + file


def make_finding(
    kind: str,
    *,
    broker: int | None,
    detail: str,
    topic: str = "",
    partition: int = -1,
    offset: int = -1,
    file: str = "",
    position: int | None = None,
    places: int = 1,
) -> Finding:
    """A finding with the property that its kind violates."""
    rule = MEANINGS[kind].property
    return Finding(kind, rule, broker, topic, partition, offset, file, position, detail, places)


def make_replica_finding(
    kind: str, replica: ReplicaKey, file: str, detail: str, *, offset: int = -1, position: int | None = None
) -> Finding:
    return Finding(kind, MEANINGS[kind].property, *replica, offset, file, position, detail)


def sort_key(finding: Finding) -> tuple[Any, ...]:
    broker = -1 if finding.broker is None else finding.broker
    return (finding.topic, finding.partition, finding.offset, broker, finding.kind, finding.file, finding.detail)


# --- causes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cause:
    example: Finding
    """The first place."""
    last_offset: int
    places: int
    partitions: int = 1
    """That are affected; 0 if the cause concerns no single partition."""
    brokers: int = 1

    @property
    def kind(self) -> str:
        return self.example.kind

    @property
    def severity(self) -> str:
        return MEANINGS[self.kind].severity

    def to_dict(self) -> dict[str, Any]:
        example = self.example._asdict() | {"places": self.places}
        more = {"last_offset": self.last_offset, "partitions": self.partitions, "brokers": self.brokers}
        return {"severity": self.severity} | example | more

    def __str__(self) -> str:
        first = self.example
        if self.places == 1:
            return str(first)
        if self.partitions > 1 or self.brokers > 1:
            parts = [f"{self.places:,} places"]
            parts += [f"{self.partitions:,} partitions"] if self.partitions > 1 else []
            parts += [f"{self.brokers:,} brokers"] if self.brokers > 1 else []
            return f"{first.kind}: {' in '.join(parts)}, the first {str(first).partition(': ')[2]}"
        where = _name_replica(first)
        if first.offset >= 0 and self.last_offset > first.offset:
            where += f" offsets {first.offset} to {self.last_offset}"
        elif first.offset >= 0:
            where += f" offset {first.offset}"
        return _describe(first, f"{where.strip()} ({self.places:,} places): the first".strip())


def _cause_key(finding: Finding) -> tuple[Any, ...]:
    """A wrong checkpoint concerns all partitions of a broker; other kinds have a cause in each partition."""
    if finding.kind == CHECKPOINT or not finding.topic:
        return (finding.kind, finding.broker, finding.file)
    return (finding.kind, finding.broker, finding.topic, finding.partition)


def group_by_cause(findings: Iterable[Finding]) -> list[Cause]:
    """Worst first."""
    groups: dict[tuple[Any, ...], list[Finding]] = {}
    for finding in findings:
        groups.setdefault(_cause_key(finding), []).append(finding)
    causes = []
    for group in groups.values():
        example = min(group, key=lambda finding: (finding.offset < 0, finding.offset, sort_key(finding)))
        last = max(finding.offset for finding in group)
        places = sum(finding.places for finding in group)
        partitions = len({(finding.topic, finding.partition) for finding in group if finding.topic})
        causes.append(Cause(example._replace(places=1), last, places, partitions))
    return sorted(causes, key=_cause_rank)


def _cause_rank(cause: Cause) -> tuple[Any, ...]:
    return (*_RANKS[cause.kind], sort_key(cause.example))


_COARSER = (
    lambda cause: (cause.kind, cause.example.broker, cause.example.topic),
    lambda cause: (cause.kind, cause.example.broker),
    lambda cause: (cause.kind,),
)
"""By what causes of one kind are joined, one step after the other."""


def condense(causes: Sequence[Cause], limit: int) -> list[Cause]:
    """At most `limit` causes: the most frequent kind is joined first, by topic, then by broker, then as a whole. There
    are never fewer than one per kind, even if that is more than `limit`."""
    by_kind: dict[str, list[Cause]] = {}
    for cause in causes:
        by_kind.setdefault(cause.kind, []).append(cause)
    steps: Counter[str] = Counter()
    while sum(map(len, by_kind.values())) > limit:
        divisible = [kind for kind, own in by_kind.items() if len(own) > 1 and steps[kind] < len(_COARSER)]
        if not divisible:
            break
        kind = max(divisible, key=lambda kind: len(by_kind[kind]))
        groups: dict[tuple[Any, ...], list[Cause]] = {}
        for cause in by_kind[kind]:
            groups.setdefault(_COARSER[steps[kind]](cause), []).append(cause)
        by_kind[kind] = [_join(group) for group in groups.values()]
        steps[kind] += 1
    return sorted((cause for own in by_kind.values() for cause in own), key=_cause_rank)


def _join(causes: list[Cause]) -> Cause:
    if len(causes) == 1:
        return causes[0]
    first = min(causes, key=_cause_rank)
    brokers = {cause.example.broker for cause in causes}
    return replace(
        first,
        places=sum(cause.places for cause in causes),
        partitions=sum(cause.partitions for cause in causes),
        brokers=max(len(brokers), *(cause.brokers for cause in causes)),
    )


@dataclass
class AuditResult:
    """Findings, and in subclasses how much was checked."""

    findings: list[Finding] = field(default_factory=list)

    def totals(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "findings"}
