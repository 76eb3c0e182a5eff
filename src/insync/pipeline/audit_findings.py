"""What an audit finds, a row each."""

from __future__ import annotations

from typing import Any, NamedTuple

DIVERGED, CRC, GAP, ORDER, EPOCH, INDEX, SHORT, UNREADABLE = (
    *("diverged", "crc", "gap", "order", "epoch", "index", "short", "unreadable"),
)
MEANINGS = {
    DIVERGED: ("S2", "replicas hold different batches below their high watermarks"),
    CRC: ("S2", "the bytes of a batch are not those that were written"),
    GAP: ("S9", "offsets are missing, in a topic that is not compacted"),
    ORDER: ("S9", "a batch's offsets are not above those before it"),
    EPOCH: ("S2", "leader epochs go back, or are not those of the epoch checkpoint"),
    INDEX: ("", "an index does not say what is in its segment"),
    SHORT: ("S9", "a log ends below its high watermark"),
    UNREADABLE: ("", "what is in a file is no batch"),
}
"""By kind of finding in logs: the property it speaks of, and what happened. Those of histories: `testing.verdict`."""
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
        where = f"broker {self.broker} " if self.broker is not None else ""
        offset = f" offset {self.offset}" if self.offset >= 0 else ""
        file = f" ({self.file}{'' if self.position is None else f' at {self.position}'})" if self.file else ""
        return f"{self.kind}: {where}{self.topic}-{self.partition}{offset}: {self.detail}{file}"


def order(finding: Finding) -> tuple[Any, ...]:
    return (finding.topic, finding.partition, finding.offset, finding.broker or -1, finding.kind, finding.detail)
