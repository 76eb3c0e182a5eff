"""The newest that was heard of every partition's leader.

Brokers learn of elections at different times, and one that is cut off from the others does not learn of them at all:
it goes on to tell who led before, itself perhaps. Leader epochs show which of two answers is the older one (F3). Topics
are told apart by their ids, since a topic that is made anew begins again with epoch 0.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from insync.client.model import NO_NODE, Partition, Topic
from insync.wire.types import ZERO_UUID


class LeaderCache:
    __slots__ = ("_newest",)

    def __init__(self) -> None:
        self._newest: dict[tuple[UUID, int], Partition] = {}

    def note_epoch(self, topic_id: UUID, index: int, epoch: int) -> None:
        """Somebody led in this epoch, whoever it was."""
        known = self._newest.get((topic_id, index))
        if epoch > (-1 if known is None else known.leader_epoch):
            unknown = Partition(index=index, leader=NO_NODE, leader_epoch=epoch, replicas=(), isr=())
            self._newest[topic_id, index] = unknown

    def with_newest_leaders(self, topic: Topic) -> Topic:
        """As it is told now, except where something newer was heard before."""
        if topic.id == ZERO_UUID:  # of a cluster without ids: epochs may have begun again
            return topic
        return replace(topic, partitions=tuple(self._newer(topic.id, told) for told in topic.partitions))

    def _newer(self, topic_id: UUID, told: Partition) -> Partition:
        known = self._newest.get((topic_id, told.index))
        if known is not None and told.leader_epoch < known.leader_epoch:
            return known
        self._newest[topic_id, told.index] = told
        return told
