"""What the cluster knows of one partition (M1): who holds it, who leads, who is in sync. It knows no offsets.

Everything here is frozen: a change makes a new registration with a partition epoch one higher (M2).
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

NO_LEADER = -1

PartitionKey = tuple[UUID, int]
"""(topic id, partition index): the name of a partition inside the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    topic_id: UUID
    topic: str
    index: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovering: bool = False

    @property
    def key(self) -> PartitionKey:
        return (self.topic_id, self.index)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    def effective_min_isr(self, min_insync_replicas: int) -> int:
        """H1: a topic never waits for more replicas than it has."""
        return min(min_insync_replicas, len(self.replicas))
