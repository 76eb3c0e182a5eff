"""Roles that metadata assigns and that the replicas have not taken up yet (Q7).

A topic of thousands of partitions, or the failure of a broker that led thousands, is one change of the metadata. Acting
on all of it in one step would keep a node from its heartbeats and from the quorum for longer than others wait. So roles
are taken up some at a time, and of a partition that changes again meanwhile, only where it stands then counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from insync.metadata.partition import Partition, PartitionKey

STEP = 64
"""Roles taken up in one step. Making a log's directory and file takes longest: a few tenths of a millisecond."""


class Backlog:
    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[PartitionKey, Partition | None] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, partitions: Iterable[Partition], gone: Iterable[PartitionKey]) -> None:
        """What is not here any more goes first: it may have the name of something new."""
        for key in gone:
            self._waiting[key] = None
        for partition in partitions:
            self._waiting[partition.key] = partition

    def take(self) -> tuple[list[Partition], list[PartitionKey]]:
        """The oldest: roles to be taken up, and replicas to be given up."""
        partitions: list[Partition] = []
        gone: list[PartitionKey] = []
        for key in list(islice(self._waiting, STEP)):
            partition = self._waiting.pop(key)
            if partition is None:
                gone.append(key)
            else:
                partitions.append(partition)
        return partitions, gone
