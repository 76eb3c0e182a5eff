"""Roles that metadata assigns and that the replicas have not taken up yet (Q7).

A topic of thousands of partitions, or the failure of a broker that led thousands, is one change of the metadata. Acting
on all of it in one step would keep a node from its heartbeats and from the quorum for longer than others wait. So roles
are taken up some at a time, and of a partition that changes again meanwhile, only where it stands then counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from insync.metadata.partition import Partition, PartitionKey

STEP = 16
"""Roles taken up in one step. Making a log's directory and files takes longest: a millisecond or two on a busy disk."""


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
        """What is not here any more goes first: it may have the name of something new. `forgotten`: nothing says that
        it was deleted (B9)."""
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
        """The oldest: roles to be taken up, replicas to be deleted, and replicas to be set aside."""
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
