"""The newest known leader of every partition.

Brokers learn of elections at different times, and a broker that is cut off does not learn of them at all: it keeps
answering with the previous leader, perhaps itself. The leader epochs show which of two answers is older (F3). Topics
are identified by id, because a topic that is deleted and created again starts with epoch 0.
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
        """Note that a leader of this epoch exists, even if it is unknown which broker it is."""
        known = self._newest.get((topic_id, index))
        if epoch > (-1 if known is None else known.leader_epoch):
            unknown = Partition(index=index, leader=NO_NODE, leader_epoch=epoch, replicas=(), isr=())
            self._newest[topic_id, index] = unknown

    def with_newest_leaders(self, topic: Topic) -> Topic:
        """The topic with each partition replaced by a newer one that is known."""
        if topic.id == ZERO_UUID:  # a cluster without topic ids: epochs may have started again
            return topic
        return replace(topic, partitions=tuple(self._newer(topic.id, partition) for partition in topic.partitions))

    def _newer(self, topic_id: UUID, partition: Partition) -> Partition:
        known = self._newest.get((topic_id, partition.index))
        if known is not None and partition.leader_epoch < known.leader_epoch:
            return known
        self._newest[topic_id, partition.index] = partition
        return partition
