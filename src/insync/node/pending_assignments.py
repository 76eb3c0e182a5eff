"""Assignments in the metadata that the replicas have not applied yet (Q7).

A topic with thousands of partitions, or the failure of a broker that led thousands, is one change of the metadata.
Applying all of it in one step would hold up heartbeats and the quorum beyond their timeouts. So a few assignments are
applied per step, and of a partition that changes again meanwhile only the latest state counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from insync.metadata.partition import Partition, PartitionKey

STEP = 16
"""Assignments per step. Creating a log's directory and files takes longest: one or two ms on a busy disk."""


class PendingAssignments:
    __slots__ = ("_forgotten", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[PartitionKey, Partition | None] = {}
        self._forgotten: dict[PartitionKey, None] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(
        self, partitions: Iterable[Partition], gone: Iterable[PartitionKey], forgotten: Iterable[PartitionKey] = ()
    ) -> None:
        """What is gone is handled first: a new topic may have its name. `forgotten`: the metadata does not have it, and
        does not record its deletion either (B9)."""
        for key in gone:
            self._waiting[key] = None
            self._forgotten.pop(key, None)
        for key in forgotten:
            self._waiting[key] = None
            self._forgotten[key] = None
        for partition in partitions:
            self._waiting[partition.key] = partition
            self._forgotten.pop(partition.key, None)

    def take(self) -> tuple[list[Partition], list[PartitionKey], list[PartitionKey]]:
        """The oldest: assignments to apply, replicas to delete, and replicas to set aside."""
        partitions: list[Partition] = []
        gone: list[PartitionKey] = []
        forgotten: list[PartitionKey] = []
        for key in list(islice(self._waiting, STEP)):
            partition = self._waiting.pop(key)
            if partition is not None:
                partitions.append(partition)
            elif key in self._forgotten:
                del self._forgotten[key]
                forgotten.append(key)
            else:
                gone.append(key)
        return partitions, gone, forgotten
