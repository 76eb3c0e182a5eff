"""Small logs for tests of properties: a log is given by the epochs of its batches, one record each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from insync.metadata.partition import Partition
from insync.properties.committed_log import CommittedLog
from insync.properties.history import Fingerprint

KEY = (UUID(int=7), 0)


@dataclass
class FakeHeader:
    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1


class FakeLog:
    """`epochs[i]` is the leader epoch of the batch at offset i; its CRC stands for epoch and offset."""

    def __init__(self, epochs: Sequence[int], hwm: int = 0, log_start: int = 0) -> None:
        self.headers = [FakeHeader(i, i, epoch, 1000 * epoch + i) for i, epoch in enumerate(epochs)]
        self.hwm = hwm
        self.log_start = log_start
        self.truncation_count = 0

    @property
    def leo(self) -> int:
        return max(len(self.headers), self.log_start)

    def iter_headers(self, from_offset: int, to_offset: int) -> Iterator[FakeHeader]:
        return iter([h for h in self.headers if from_offset <= h.base_offset < to_offset])

    def append(self, epoch: int, count: int = 1) -> None:
        for _ in range(count):
            offset = len(self.headers)
            self.headers.append(FakeHeader(offset, offset, epoch, 1000 * epoch + offset))

    def truncate(self, offset: int) -> None:
        self.truncation_count += 1
        del self.headers[offset:]
        self.hwm = min(self.hwm, offset)


def batch(offset: int, epoch: int = 1) -> Fingerprint:
    return Fingerprint(offset, offset, epoch, 1000 * epoch + offset)


def committed(*epochs: int) -> CommittedLog:
    log = CommittedLog()
    for offset, epoch in enumerate(epochs):
        log.extend(batch(offset, epoch), epoch)
    return log


def partition(**fields: Any) -> Partition:
    values: dict[str, Any] = {
        "topic_id": KEY[0],
        "topic": "t",
        "index": 0,
        "replicas": (1, 2, 3),
        "isr": (1, 2, 3),
        "leader": 1,
        "leader_epoch": 1,
        "partition_epoch": 1,
    }
    return Partition(**{**values, **fields})
