"""What an audit finds, a row each."""

from __future__ import annotations

from typing import Any, NamedTuple

DIVERGED, CRC, GAP, ORDER, EPOCH, INDEX, SHORT, UNREADABLE, CHECKPOINT = (
    *("diverged", "crc", "gap", "order", "epoch", "index", "short", "unreadable", "checkpoint"),
)
MALFORMED, EMPTY = "malformed", "empty"
MEANINGS = {
    DIVERGED: ("S2", "replicas hold different batches below their high watermarks"),
    CRC: ("S2", "the bytes of a batch are not those that were written"),
    GAP: ("S9", "offsets are missing, in a topic that is not compacted"),
    ORDER: ("S9", "a batch's offsets are not above those before it"),
    EPOCH: ("S2", "leader epochs go back, or are not those of the epoch checkpoint"),
    INDEX: ("", "an index does not say what is in its segment"),
    SHORT: ("S9", "a log ends below its high watermark"),
    UNREADABLE: ("", "what is in a file is no batch"),
    CHECKPOINT: ("", "a file in which a broker keeps offsets of its logs cannot be read"),
    MALFORMED: ("", "what is in a history is no event, or an answer to nothing that was sent"),
    EMPTY: ("", "a history holds no events, so nothing can be said"),
}
"""By kind of finding: the property it speaks of, and what happened. Those of the judge: `testing.verdict`."""
DDL = (
    "kind string, property string, broker int, topic string, partition int, offset bigint, file string, "
    "position bigint, detail string"
)


class Finding(NamedTuple):
    kind: str
    property: str
    broker: int | None
    """None in a client's history."""
    topic: str
    partition: int
    offset: int
    """Where, -1 if it is nowhere."""
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


def order(finding: Finding) -> tuple[Any, ...]:
    return (finding.topic, finding.partition, finding.offset, finding.broker or -1, finding.kind, finding.detail)
