"""S19: what a leader answers about offsets agrees with what is committed.

- OffsetForLeaderEpoch: all committed records before the end that it names are of that epoch or an older one, and all
  from there on of a newer one. So a consumer that compares it with its position notices every truncation (D1).
- ListOffsets by time: no committed record before the offset has that timestamp or a later one, and the record there
  has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from insync.properties.history import Fingerprint
from insync.properties.violation import Property

PROPERTY = Property(
    "S19",
    "Offset Queries",
    "The end of a leader epoch, and the first offset of a time, agree with the committed records.",
)
NO_OFFSET = -1


class TimedBatch(Protocol):
    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...


def check_epoch_end(broker: int, asked: int, epoch: int, end: int, committed: Iterable[Fingerprint]) -> str | None:
    """D1, D2: the answer to "where does epoch `asked` end?" is `epoch` and `end`."""
    if epoch > asked:
        return f"leader {broker} was asked for epoch {asked} and answered with the newer epoch {epoch}"
    for batch in committed:
        if batch.base_offset < end and batch.leader_epoch > epoch:
            return f"leader {broker} says that epoch {epoch} ends at {end}, but {batch} is before that"
        if batch.base_offset >= end and batch.leader_epoch <= asked:
            return f"leader {broker} says that epoch {asked} ends at {end}, but {batch} comes after that"
    return None


def check_offset_by_time(broker: int, timestamp: int, offset: int, batches: Iterable[TimedBatch]) -> str | None:
    """`batches` are the committed ones of the leader's log, and all records of a batch have the same timestamp."""
    first = next((batch for batch in batches if batch.max_timestamp >= timestamp), None)
    if first is None:
        return None if offset == NO_OFFSET else f"leader {broker} has no record since {timestamp}, but says {offset}"
    if first.base_offset <= offset <= first.last_offset:
        return None
    return f"leader {broker} says that the first record since {timestamp} is at {offset}, but it is {first.base_offset}"
