"""The findings of an audit: their kinds and what they mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

DIVERGED, CRC, GAP, ORDER, EPOCH, INDEX, SHORT, UNREADABLE, CHECKPOINT = (
    *("diverged", "crc", "gap", "order", "epoch", "index", "short", "unreadable", "checkpoint"),
)
MALFORMED, EMPTY = "malformed", "empty"
MEANINGS = {
    DIVERGED: ("S2", "replicas hold different batches below their high watermarks"),
    CRC: ("S2", "a batch does not match its checksum"),
    GAP: ("S9", "offsets are missing, in a topic that is not compacted"),
    ORDER: ("S9", "a batch's offsets are not above those before it"),
    EPOCH: ("S2", "leader epochs decrease, or differ from the epoch checkpoint"),
    INDEX: ("", "an index does not match its segment"),
    SHORT: ("S9", "a log ends below its high watermark"),
    UNREADABLE: ("", "a file holds something other than batches"),
    CHECKPOINT: ("", "a checkpoint file of offsets cannot be read"),
    MALFORMED: ("", "a history holds something other than events, or a response without a request"),
    EMPTY: ("", "a history holds no events"),
}
"""By kind: the violated property, and what it means. `insync.history.verdict` has the kinds of the history checker."""
DDL = (
    "kind string, property string, broker int, topic string, partition int, offset bigint, file string, "
    "position bigint, detail string"
)


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

    def __str__(self) -> str:
        file = f" ({self.file}{'' if self.position is None else f' at {self.position}'})" if self.file else ""
        return ": ".join(part for part in (self.kind, self._where(), self.detail) if part) + file

    def _where(self) -> str:
        broker = f"broker {self.broker}" if self.broker is not None else ""
        partition = f"{self.topic}-{self.partition}" if self.topic else ""
        offset = f"offset {self.offset}" if self.offset >= 0 else ""
        return " ".join(part for part in (broker, partition, offset) if part)


def sort_key(finding: Finding) -> tuple[Any, ...]:
    return (finding.topic, finding.partition, finding.offset, finding.broker or -1, finding.kind, finding.detail)


@dataclass
class AuditResult:
    """Findings, and in subclasses how much was checked."""

    findings: list[Finding] = field(default_factory=list)

    def totals(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "findings"}
