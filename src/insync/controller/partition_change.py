"""One change of one partition, worked out in full before it is written.

A caller says what it wants (another ISR, other replicas, an election) and `build` derives what follows, in this order:
a reassignment that can now complete (R2), the ELR and the last-known ELR (E3-E5), the leader (E1, E2, E7), the epochs
(M2). The result is one PartitionChange record, or None if nothing would change. It reads no clock, no image and no
network: `eligible` says which brokers may lead.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from insync.metadata.partition import NO_LEADER, Partition
from insync.wire import metadata_records as records


class Election(Enum):
    CLEAN = "clean"
    """Keep the leader if it may stay; else the first candidate of the ISR, of the ELR if the ISR is empty (E2)."""
    PREFERRED = "preferred"
    """As CLEAN, but the first replica of the assignment takes precedence over the current leader."""
    UNCLEAN = "unclean"
    """As CLEAN, but any live replica if there is no candidate (E6, E7)."""


class PartitionChangeBuilder:
    """Mutable until `build`; afterwards `kind`, `completed` and `after` say what happened."""

    __slots__ = (
        "adding",
        "after",
        "before",
        "chosen",
        "completed",
        "election",
        "eligible",
        "elr",
        "isr",
        "kind",
        "last_known_elr",
        "leader",
        "min_isr",
        "new_leader_epoch",
        "recovering",
        "removing",
        "replicas",
        "unclean_replicas",
    )

    def __init__(
        self, partition: Partition, min_isr: int, eligible: Callable[[int], bool], election: Election = Election.CLEAN
    ) -> None:
        """`min_isr` is the configured value; the number of replicas limits it here (H1)."""
        self.before = partition
        self.after = partition
        self.min_isr = min_isr
        self.eligible = eligible
        self.election = election
        self.isr = partition.isr
        self.replicas = partition.replicas
        self.adding = partition.adding
        self.removing = partition.removing
        self.elr = partition.elr
        self.last_known_elr = partition.last_known_elr
        self.leader = partition.leader
        self.recovering = partition.recovering
        self.unclean_replicas: tuple[int, ...] = ()
        self.chosen: int | None = None
        self.new_leader_epoch = False
        self.completed = False
        self.kind = ""

    def build(self) -> records.PartitionChangeRecord | None:
        self._complete_reassignment()
        self._derive_elr()
        self._elect()
        return self._record()

    # --- reassignment --------------------------------------------------------------------------------------------

    def _complete_reassignment(self) -> None:
        if not (self.adding or self.removing) or not self.is_reassignment_done():
            return
        self.isr = without(self.isr, self.removing)
        self.replicas = without(self.replicas, self.removing)
        self.adding = self.removing = ()
        self.completed = True
        self.new_leader_epoch = True  # M2: a replica that is removed and added again has to fetch in the new epoch

    def is_reassignment_done(self) -> bool:
        """R2: every replica that is being added is in the ISR.

        R3: checked on every change, so a reassignment that adds nothing may end in the request that starts it.
        """
        return all(replica in self.isr for replica in self.adding) and self.keeps_min_isr()

    def keeps_min_isr(self) -> bool:
        """R2, R4: the ISR that remains is not empty and has MinISR replicas of the target."""
        staying = without(self.isr, self.removing)
        target = without(self.replicas, self.removing)
        return bool(staying) and len(staying) >= min(self.min_isr, len(target))

    # --- ELR -----------------------------------------------------------------------------------------------------

    def _derive_elr(self) -> None:
        if self.is_elr_obsolete():
            self._clear_elr()
            return
        # E3: below MinISR the HWM stands still, so a replica that leaves the ISR stays complete.
        members = (*self.before.isr, *self.elr)
        # E5: an unclean restart may have lost records. Such a member may still be complete, so it is remembered for a
        # recovery.
        complete = without(members, self.unclean_replicas)
        doubtful = tuple(replica for replica in members if replica in self.unclean_replicas)
        self.elr = self._assigned_outside_isr(complete)
        self.last_known_elr = without(self._assigned_outside_isr((*doubtful, *self.last_known_elr)), self.elr)

    def is_elr_obsolete(self) -> bool:
        """E4: at MinISR the HWM may advance without the ELR, so its members no longer count as complete."""
        return len(self.isr) >= min(self.min_isr, len(self.replicas))

    def _clear_elr(self) -> None:
        self.elr = self.last_known_elr = ()

    def _assigned_outside_isr(self, members: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(replica for replica in self.replicas if replica in members and replica not in self.isr)

    # --- election ------------------------------------------------------------------------------------------------

    def _elect(self) -> None:
        if self.chosen is not None:
            self._lead_uncleanly(self.chosen)
            return
        leader = self._first_candidate()
        if leader == NO_LEADER and self.election is Election.UNCLEAN:
            leader = next((replica for replica in self.replicas if self.eligible(replica)), NO_LEADER)
            if leader != NO_LEADER:
                self._lead_uncleanly(leader)
                return
        self._lead(leader)

    def _first_candidate(self) -> int:
        preferred = self.replicas[:1] if self.election is Election.PREFERRED else ()
        order = (*preferred, self.leader, *self.replicas)
        return next((replica for replica in order if self.is_candidate(replica)), NO_LEADER)

    def is_candidate(self, replica: int) -> bool:
        """E2: a member of the ISR, or of the ELR once the ISR is empty, on a broker that may lead."""
        pool = self.isr or self.elr
        return replica in pool and self.eligible(replica)

    def _lead(self, leader: int) -> None:
        if leader in self.elr:  # E2: it is complete, so it alone is the new ISR
            self.isr = (leader,)
            self.elr = without(self.elr, self.isr)
            self.kind = "elr"
            if self.is_elr_obsolete():
                self._clear_elr()
        elif leader not in (self.leader, NO_LEADER):
            self.kind = "preferred" if self.election is Election.PREFERRED else "clean"
        self.leader = leader

    def _lead_uncleanly(self, leader: int) -> None:
        """E7: the log of the new leader is the log, whatever the other replicas hold."""
        self.leader = leader
        self.isr = (leader,)
        self.recovering = True
        self.new_leader_epoch = True
        self.kind = "unclean"
        self._clear_elr()

    # --- record --------------------------------------------------------------------------------------------------

    def _record(self) -> records.PartitionChangeRecord | None:
        before = self.before
        changes: dict[str, Any] = {}
        if self.isr != before.isr:
            changes["isr"] = self.isr
        if self.leader != before.leader or self.new_leader_epoch:
            changes["leader"] = self.leader  # M2: naming a leader, even the same one, raises the leader epoch
        if self.replicas != before.replicas:
            changes["replicas"] = self.replicas
            changes["directories"] = (records.UNASSIGNED_DIRECTORY,) * len(self.replicas)
        if self.removing != before.removing:
            changes["removing_replicas"] = self.removing
        if self.adding != before.adding:
            changes["adding_replicas"] = self.adding
        if self.recovering != before.recovering:
            changes["leader_recovery_state"] = int(self.recovering)
        if self.elr != before.elr:
            changes["eligible_leader_replicas"] = self.elr
        if self.last_known_elr != before.last_known_elr:
            changes["last_known_elr"] = self.last_known_elr
        if not changes:
            return None
        return records.PartitionChangeRecord(partition_id=before.index, topic_id=before.topic_id, **changes)


def without(members: tuple[int, ...], gone: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(member for member in members if member not in gone)
