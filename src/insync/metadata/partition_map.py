"""All partitions of the cluster, with indexes: the cost of a broker's event depends on that broker's partitions only.

Sets are dicts with None for values: they iterate in insertion order, which is the same in every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from insync.metadata.partition import NO_LEADER, Partition, PartitionKey

Index = dict[int, dict[PartitionKey, None]]


class PartitionMap:
    __slots__ = ("_hosted", "_led", "by_topic", "leaderless", "reassigning")

    def __init__(self) -> None:
        self.by_topic: dict[UUID, dict[int, Partition]] = {}
        self.leaderless: dict[PartitionKey, None] = {}
        self.reassigning: dict[PartitionKey, None] = {}
        self._hosted: Index = {}
        self._led: Index = {}

    def copy(self) -> PartitionMap:
        other = PartitionMap()
        other.by_topic = {topic_id: dict(partitions) for topic_id, partitions in self.by_topic.items()}
        other.leaderless = dict(self.leaderless)
        other.reassigning = dict(self.reassigning)
        other._hosted = {broker: dict(keys) for broker, keys in self._hosted.items()}
        other._led = {broker: dict(keys) for broker, keys in self._led.items()}
        return other

    def get(self, key: PartitionKey) -> Partition | None:
        partitions = self.by_topic.get(key[0])
        return None if partitions is None else partitions.get(key[1])

    def put(self, partition: Partition) -> None:
        partitions = self.by_topic.setdefault(partition.topic_id, {})
        old = partitions.get(partition.index)
        if old is None or old.replicas != partition.replicas:
            self._rehost(partition.key, () if old is None else old.replicas, partition.replicas)
        if old is None or old.leader != partition.leader:
            self._relead(partition.key, NO_LEADER if old is None else old.leader, partition.leader)
        _mark(self.reassigning, partition.key, partition.reassigning)
        partitions[partition.index] = partition

    def sort_topic(self, topic_id: UUID) -> None:
        """Put the partitions in the order of their indexes, in whatever order they were created."""
        partitions = self.by_topic[topic_id]
        if len(partitions) > 1:
            self.by_topic[topic_id] = dict(sorted(partitions.items()))

    def remove_topic(self, topic_id: UUID) -> tuple[PartitionKey, ...]:
        removed = self.by_topic.pop(topic_id, {})
        for partition in removed.values():
            self._rehost(partition.key, partition.replicas, ())
            self._led.get(partition.leader, {}).pop(partition.key, None)
            self.leaderless.pop(partition.key, None)
            self.reassigning.pop(partition.key, None)
        return tuple(partition.key for partition in removed.values())

    def of_broker(self, broker: int) -> list[Partition]:
        """Every partition that has a replica on this broker."""
        return self._all(self._hosted.get(broker, {}))

    def leads_any(self, broker: int) -> bool:
        return bool(self._led.get(broker))

    def without_leader(self) -> list[Partition]:
        return self._all(self.leaderless)

    def under_reassignment(self) -> list[Partition]:
        return self._all(self.reassigning)

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self.by_topic.values():
            yield from partitions.values()

    def _all(self, keys: dict[PartitionKey, None]) -> list[Partition]:
        return [self.by_topic[topic_id][index] for topic_id, index in keys]

    def _rehost(self, key: PartitionKey, old: tuple[int, ...], new: tuple[int, ...]) -> None:
        for broker in old:
            if broker not in new:
                self._hosted[broker].pop(key, None)  # gone already if a record names it twice
        for broker in new:
            self._hosted.setdefault(broker, {})[key] = None

    def _relead(self, key: PartitionKey, old: int, new: int) -> None:
        self._led.get(old, {}).pop(key, None)
        if new != NO_LEADER:
            self._led.setdefault(new, {})[key] = None
        _mark(self.leaderless, key, new == NO_LEADER)


def _mark(index: dict[PartitionKey, None], key: PartitionKey, member: bool) -> None:
    if member:
        index[key] = None
    else:
        index.pop(key, None)
