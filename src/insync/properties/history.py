"""What clients saw, written down as it happened: the evidence for every property that clients can observe.

A client appends one record per thing that happened to it, in the order of real time. One *operation* (`op`) is one
batch sent to one partition, retries included: `Sent` when its first attempt leaves, then exactly one of `Acked` or
`Failed` once the client gives up or has its answer. A failed operation may still take effect.

A batch is known by its `Fingerprint`, which broker and client compute alike from its header. The CRC does not cover
the offset and the leader epoch that the broker stamps, so a sender knows it beforehand; -1 says that it cannot
(the topic stamps the append time).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from insync.metadata.partition import PartitionKey

UNKNOWN_CRC = -1
UNKNOWN_OFFSET = -1


class Fingerprint(NamedTuple):
    """One batch of a log: where it is, who wrote it, and what it says."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int

    def __str__(self) -> str:
        return f"[{self.base_offset}..{self.last_offset} epoch {self.leader_epoch} crc {self.crc:08x}]"


@dataclass(slots=True)
class Sent:
    """The first attempt of `op` left the client. `count` records in one batch with that CRC."""

    op: int
    time: int
    partition: PartitionKey
    acks: int
    count: int
    crc: int = UNKNOWN_CRC
    idempotent: bool = False


@dataclass(slots=True)
class Acked:
    """The client was told that `op` is written, its first record at `base_offset` (unknown for some duplicates)."""

    op: int
    time: int
    base_offset: int = UNKNOWN_OFFSET


@dataclass(slots=True)
class Failed:
    """The client gave `op` up: a refusal, a timeout, or no answer at all."""

    op: int
    time: int
    error: str


@dataclass(slots=True)
class Read:
    """A consumer's fetch at `offset` was answered. `started` is when it was asked.

    `leader_epoch` is the epoch that the fetch named, so the leader that answered led in it; -1 when it named none.
    """

    started: int
    time: int
    partition: PartitionKey
    offset: int
    hwm: int
    batches: tuple[Fingerprint, ...] = ()
    leader_epoch: int = -1
    reader: str = ""


@dataclass(slots=True)
class ListedOffset:
    """A ListOffsets request for the latest offset was answered with `offset`."""

    started: int
    time: int
    partition: PartitionKey
    offset: int
    leader_epoch: int = -1
    reader: str = ""


Record = Sent | Acked | Failed | Read | ListedOffset


class History:
    """The records in real-time order. `kept` holds what was taken too, for those who want to look at it again."""

    __slots__ = ("keep", "kept", "pending")

    def __init__(self, *, keep: bool = False) -> None:
        self.keep = keep
        self.kept: list[Record] = []
        self.pending: list[Record] = []

    def append(self, record: Record) -> None:
        self.pending.append(record)

    def take(self) -> list[Record]:
        """The records since the last call; memory stays flat in a long run unless `keep` is set."""
        if not self.pending:
            return self.pending
        taken, self.pending = self.pending, []
        if self.keep:
            self.kept.extend(taken)
        return taken

    def __iter__(self) -> Iterator[Record]:
        yield from self.kept
        yield from self.pending
