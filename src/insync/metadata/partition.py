"""The metadata of one partition (M1): its replicas, its leader, its ISR. It contains no offsets.

Everything here is frozen: a change makes a new `Partition` with a partition epoch one higher (M2).
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from insync.wire.metadata_records import LEADER_UNCHANGED, RECOVERING, RECOVERY_UNCHANGED, PartitionChangeRecord

NO_LEADER = -1

PartitionKey = tuple[UUID, int]
"""(topic id, partition index)"""


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
        """H1: a partition never needs more in-sync replicas than it has replicas."""
        return min(min_insync_replicas, len(self.replicas))

    def changed_by(self, change: PartitionChangeRecord) -> Partition:
        """M2: this partition after a change record. A record that names a leader, even the same, starts a new leader
        epoch."""
        leader_named = change.leader != LEADER_UNCHANGED
        return Partition(  # not `replace`, which takes twice as long
            topic_id=self.topic_id,
            topic=self.topic,
            index=self.index,
            replicas=_new_or_old(change.replicas, self.replicas),
            isr=_new_or_old(change.isr, self.isr),
            leader=change.leader if leader_named else self.leader,
            leader_epoch=self.leader_epoch + leader_named,
            partition_epoch=self.partition_epoch + 1,
            elr=_new_or_old(change.eligible_leader_replicas, self.elr),
            last_known_elr=_new_or_old(change.last_known_elr, self.last_known_elr),
            adding=_new_or_old(change.adding_replicas, self.adding),
            removing=_new_or_old(change.removing_replicas, self.removing),
            recovering=self.recovering
            if change.leader_recovery_state == RECOVERY_UNCHANGED
            else change.leader_recovery_state == RECOVERING,
        )


def _new_or_old(new: tuple[int, ...] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else tuple(new)
