"""A cluster of one partition, as the plans of archive and mirror see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from insync.client.model import Offset, Partition, Topic
from insync.client.offsets import EARLIEST, LATEST

A, B = UUID(int=1), UUID(int=2)
KEY = ("t", 0)
Ends = Mapping[int, tuple[int, int]]
"""By epoch: (epoch, end offset), as OffsetForLeaderEpoch answers."""


class FakeView:
    """A ClusterView of one partition."""

    def __init__(
        self, *, earliest: int = 0, latest: int, epoch: int = 0, topic_id: UUID = A, ends: Ends | None = None
    ) -> None:
        self._earliest, self._latest, self._epoch = earliest, latest, epoch
        self._ends = ends or {}
        partition = Partition(index=0, leader=1, leader_epoch=epoch, replicas=(1,), isr=(1,))
        self._topic = Topic(name="t", id=topic_id, partitions=(partition,))

    def remember_epochs(self, epochs: Iterable[tuple[str, int, int]]) -> None:
        self.epochs = list(epochs)

    def describe_topics(self, *, must_exist: bool = True) -> dict[str, Topic]:
        return {"t": self._topic}

    def list_partitions(self, known: Mapping[str, Topic]) -> list[Any]:
        return [KEY]

    def list_offsets_and_epochs(self, wanted: Mapping[Any, int], known: Any = None) -> dict[Any, Offset]:
        offsets = {EARLIEST: self._earliest, LATEST: self._latest}
        return {key: Offset(offsets[position], leader_epoch=self._epoch) for key, position in wanted.items()}

    def find_epoch_end(self, key: Any, epoch: int) -> tuple[int, int]:
        return self._ends[epoch]
