"""What clients saw, in the order of real time: the input of every property that clients can observe.

One *operation* (`op`) is one batch sent to one partition, retries included: `Sent` when its first attempt leaves, then
exactly one of `Acked` or `Failed` when the client has its response or gives up. A failed operation may still take
effect.

A batch is identified by its `Fingerprint`, which broker and client compute from its header. The CRC does not cover the
offset and the leader epoch that the broker stamps, so the sender knows it; it is -1 if the broker stamps the append
time too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from insync.metadata.partition import PartitionKey
from insync.properties.group_offsets import GroupHistory

UNKNOWN_CRC = -1
UNKNOWN_OFFSET = -1


class Fingerprint(NamedTuple):
    """One batch of a log: its offsets, the leader epoch in which it was written, and its CRC."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int

    def __str__(self) -> str:
        return f"[{self.base_offset}..{self.last_offset} epoch {self.leader_epoch} crc {self.crc:08x}]"


@dataclass(slots=True)
class Sent:
    """The client sent `op` for the first time: `count` records in one batch with that CRC."""

    op: int
    time: int
    partition: PartitionKey
    acks: int
    count: int
    crc: int = UNKNOWN_CRC
    idempotent: bool = False


@dataclass(slots=True)
class Acked:
    """`op` was acknowledged, its first record at `base_offset` (unknown for some duplicates)."""

    op: int
    time: int
    base_offset: int = UNKNOWN_OFFSET


@dataclass(slots=True)
class Failed:
    """The client gave up `op`: an error, a timeout, or no response."""

    op: int
    time: int
    error: str


@dataclass(slots=True)
class Read:
    """A consumer's fetch at `offset` got a response; `started` is when it was sent.

    `leader_epoch` is the epoch that the fetch named, in which the leader that answered led; -1 if it named none.
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
    """A ListOffsets request for the latest offset returned `offset`."""

    started: int
    time: int
    partition: PartitionKey
    offset: int
    leader_epoch: int = -1
    reader: str = ""


Record = Sent | Acked | Failed | Read | ListedOffset


class History:
    """The records in real-time order. `kept` also holds those that were taken, if `keep` is set."""

    __slots__ = ("groups", "keep", "kept", "pending")

    def __init__(self, *, keep: bool = False) -> None:
        self.groups = GroupHistory()
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
