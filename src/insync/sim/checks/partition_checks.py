"""The safety properties of partitions, checked when a replica or the committed metadata of a partition changes.

A broker is "registered" if it runs under the broker epoch that the ghost image has for it. A broker that died and lost
data stays in ISR or ELR until the controller notices; it is not checked meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from insync.metadata.partition import PartitionKey
from insync.properties import (
    candidate_completeness,
    hwm_monotonicity,
    leader_completeness,
    liveness,
    log_matching,
    min_isr_gate,
    no_loss,
    quorum_superset,
    recovery_quorum,
    single_leader,
    unclean_exclusion,
)
from insync.properties.ghost import PartitionGhost, Tracked
from insync.replication.leader import Leader, leader_of
from insync.sim.checks.ghost_image import GhostImage
from insync.wire import batch

READ_BYTES = 1 << 20
_DURING = {"PendingExpand": "hwm_advances_during_expand", "PendingShrink": "hwm_advances_during_shrink"}


@dataclass(frozen=True, slots=True)
class FormerLeader:
    """A leader that advanced its HWM, and answered clients, in the step in which it then learned of its successor."""

    epoch: int
    min_isr: int
    isr_state: object


class PartitionChecks:
    def __init__(
        self,
        cluster: Any,
        truth: GhostImage,
        report_violation: Callable[[str, str, str], None],
        hit: Callable[[str], None],
    ) -> None:
        self.leaders = single_leader.Leaders()
        self._cluster = cluster
        self._truth = truth
        self._report_violation = report_violation
        self._hit = hit

    def _report(self, ghost: PartitionGhost, property_id: str, wrong: str | None) -> None:
        if wrong:
            self._report_violation(property_id, wrong, ghost.partition.name)

    def registered(self, broker_id: int) -> bool:
        """The broker runs, has its replicas in place, and is in the incarnation that the ghost image knows."""
        node = self._cluster.node(broker_id)
        broker = self._truth.image.brokers.get(broker_id)
        if node is None or broker is None or node.lifecycle is None:
            return False
        may_lead = not broker.fenced or node.lifecycle.state in ("running", "shutting_down")
        return bool(node.broker_epoch == broker.epoch and may_lead)

    # --- the metadata of a partition changed ---------------------------------------------------------------------

    def metadata_changed(self, ghost: PartitionGhost) -> None:
        """Which replicas may be elected, and which must have a record before it is committed (S1, S3, S4, S5, S10)."""
        partition = ghost.partition
        leader = ghost.tracked.get(partition.leader)
        if leader is not None and leader.leader_epoch == partition.leader_epoch:
            self._check_superset(ghost, leader)
        if ghost.unclean is not None:
            return
        if not self._truth.unclean_enabled(partition.topic):
            self._check_recovery_quorum(ghost)
        self._check_suspects(ghost)
        for member in partition.isr:
            self._check_fenced(ghost, member)
        self._check_candidates(ghost)

    def fenced(self, broker_id: int) -> None:
        """S5: once it is fenced, the broker is in no ISR and leads nothing."""
        for partition in self._truth.image.partitions_of(broker_id):
            self._check_fenced(self._truth.ghosts[partition.key], broker_id)

    def unfenced(self, broker_id: int) -> None:
        """S3: from now on the broker may be elected."""
        for partition in self._truth.image.partitions_of(broker_id):
            self._check_candidates(self._truth.ghosts[partition.key])

    def _check_fenced(self, ghost: PartitionGhost, broker_id: int) -> None:
        broker, partition = self._truth.image.brokers.get(broker_id), ghost.partition
        if broker is None or broker.fenced:
            wrong = unclean_exclusion.check_fenced(broker_id, leader=partition.leader, isr=partition.isr)
            self._report(ghost, "S5", wrong)

    def _check_recovery_quorum(self, ghost: PartitionGhost) -> None:
        partition = ghost.partition
        if liveness.waits_for_operator(
            partition, strategy=self._truth.strategy(partition.topic), unclean_enabled=False
        ):
            self._hit("manual_recovery_waits")
        wrong = recovery_quorum.check(
            partition.isr, partition.elr, partition.last_known_elr, ghost.weakest, ghost.committed.end
        )
        self._report(ghost, "S10", wrong)

    def unclean_registration(self, broker_id: int, broker_epoch: int) -> None:
        """S5: at its unclean registration the broker leaves every ISR and ELR."""
        for partition in self._truth.image.partitions_of(broker_id):
            ghost = self._truth.ghosts[partition.key]
            ghost.suspects[broker_id] = broker_epoch
            if ghost.unclean is None:
                self._check_excluded(ghost, broker_id, complete=False, moment="when it registers")

    def _check_suspects(self, ghost: PartitionGhost) -> None:
        """S5: a broker that is in ISR or ELR again has caught up, in the incarnation in which it came back."""
        partition = ghost.partition
        for broker, epoch in list(ghost.suspects.items()):
            tracked = ghost.tracked.get(broker)
            if broker not in (partition.leader, *partition.isr, *partition.elr) or tracked is None:
                continue
            if self.registered(broker) and self._truth.image.brokers[broker].epoch == epoch:
                complete = ghost.verify(tracked) >= ghost.committed.end
                self._check_excluded(ghost, broker, complete=complete, moment="without having caught up")
                del ghost.suspects[broker]

    def _check_excluded(self, ghost: PartitionGhost, broker: int, *, complete: bool, moment: str) -> None:
        partition = ghost.partition
        wrong = unclean_exclusion.check(
            broker, complete=complete, leader=partition.leader, isr=partition.isr, elr=partition.elr, moment=moment
        )
        self._report(ghost, "S5", wrong)

    def _check_candidates(self, ghost: PartitionGhost) -> None:
        """S1, S3: the leader and the candidates hold everything committed."""
        end = ghost.committed.end
        if ghost.unclean is not None or end == 0:
            return
        for where, members in (("ISR", ghost.partition.isr), ("ELR", ghost.partition.elr)):
            for member in members:
                tracked = ghost.tracked.get(member)
                if tracked is None or (tracked.verified < end and ghost.verify(tracked) < end):
                    self._check_candidate(ghost, member, where, tracked)

    def _check_candidate(self, ghost: PartitionGhost, member: int, where: str, tracked: Tracked | None) -> None:
        if not self.registered(member) or (tracked is not None and tracked.node is not self._cluster.node(member)):
            return
        verified = tracked.verified if tracked is not None else 0
        if member == ghost.partition.leader:
            self._report(ghost, "S1", leader_completeness.check(member, verified, ghost.committed.end))
        else:
            self._report(ghost, "S3", candidate_completeness.check(member, where, verified, ghost.committed.end))

    def _check_superset(self, ghost: PartitionGhost, tracked: Tracked) -> None:
        """S4, with the leader's own MinISR, by which it advances its HWM."""
        partition, node = ghost.partition, tracked.node
        if node is not self._cluster.node(partition.leader):
            return
        replica = node.replicas.replicas.get(partition.key)
        leader = None if replica is None else leader_of(replica)
        if leader is not None:
            state = leader.isr_state
            wrong = quorum_superset.check(
                partition.leader, state.isr, state.maximal_isr, leader.min_isr, partition.isr, partition.elr
            )
            self._report(ghost, "S4", wrong)

    def _check_quorum(self, ghost: PartitionGhost, leader: int, maximal_isr: tuple[int, ...]) -> None:
        """S4: a member that is proposed, or still counts for a commit, has what is committed. S3 checks candidates."""
        for member in maximal_isr:
            tracked = ghost.tracked.get(member)
            if member in ghost.partition.isr or member in ghost.partition.elr:
                continue
            if tracked is None or tracked.lost or member in ghost.suspects or ghost.unclean is not None:
                continue
            if ghost.verify(tracked) < ghost.committed.end and tracked.node is self._cluster.node(member):
                wrong = quorum_superset.check_member(leader, member, tracked.verified, ghost.committed.end)
                self._report(ghost, "S4", wrong if self.registered(member) else None)

    def check_listed_offset(self, broker: int, ghost: PartitionGhost, offset: int) -> None:
        """S6: a replaced leader may be behind, the current one may not."""
        tracked = ghost.tracked.get(broker)
        if tracked is not None and tracked.leader_epoch == ghost.partition.leader_epoch and ghost.unclean is None:
            self._report(ghost, "S6", hwm_monotonicity.check_listed(broker, offset, ghost.committed.end))

    def check_min_isr_gate(self, node: Any, replica: Any) -> None:
        """S16: called after an acks=all produce, with what was known of the replica before it."""
        ghost, leader, leo = self._truth.ghosts.get(replica.key), leader_of(replica), replica.log.leo
        tracked = None if ghost is None else ghost.tracked.get(node.id)
        if ghost is None or tracked is None or leader is None or replica.log is not tracked.log:
            return
        if tracked.leader_epoch == leader.epoch and tracked.state is leader.isr_state:
            wrong = min_isr_gate.check(node.id, leader.isr_state.isr, leader.min_isr, leo_before=tracked.leo, leo=leo)
            self._report(ghost, "S16", wrong)

    # --- a replica changed ---------------------------------------------------------------------------------------

    def replica_changed(self, node: Any, replica: Any) -> None:
        ghost = self._truth.ghosts.get(replica.key)
        if ghost is None or node.replicas.replicas.get(replica.key) is not replica:
            return
        log, broker = replica.log, node.id
        before = ghost.tracked.get(broker)
        known = before.verified if before is not None else 0
        end = ghost.committed.end
        same = before is not None and before.log is log
        if not same:
            self._opened(ghost, broker, log)
        tracked = ghost.observe(broker, node, log)
        leader = leader_of(replica)
        if leader is not None:
            self._leader_changed(ghost, tracked, broker, replica, leader)
        else:
            if same and tracked.leader_epoch >= 0 and log.hwm > tracked.hwm:
                former = FormerLeader(tracked.leader_epoch, ghost.min_isr, tracked.state)
                self._leader_claims(ghost, tracked, broker, replica, former)
            tracked.leader_epoch = -1
            if same and log.hwm < tracked.hwm:
                self._hit("hwm_went_down")
        if tracked.lost or tracked.excused:
            ghost.end_exemptions(broker, tracked, replica.partition.leader_epoch)
        self._report(ghost, "S2", ghost.check_matching(broker, tracked, log.hwm))
        if tracked.verified < known:
            self._check_held(ghost)
        if tracked.verified < known or ghost.committed.end != end:
            self._check_candidates(ghost)
        if log.log_start > ghost.committed.end and not tracked.excused and ghost.unclean is None:
            self._report(ghost, "S9", f"replica {broker} deleted records up to {log.log_start} that are not committed")
        tracked.leo, tracked.hwm = log.leo, log.hwm

    def _opened(self, ghost: PartitionGhost, broker: int, log: Any) -> None:
        """S2: a crash may damage records and leave their headers intact."""
        report = log.recovery
        if report is None or self._cluster.corrupted_batches:
            return  # D6: changed bytes are found later, and are not served
        if report.truncated_bytes:
            self._hit("tail_cut")
        offset = log.log_start
        while offset < log.leo:
            records = log.read(offset, READ_BYTES, limit_offset=log.leo)
            self._report(ghost, "S2", log_matching.check_bytes(broker, records, ghost.committed.end))
            offset = max(offset, *(header.next_offset for _, header in batch.iter_headers(records)))

    def _leader_changed(
        self, ghost: PartitionGhost, tracked: Tracked, broker: int, replica: Any, leader: Leader
    ) -> None:
        log, end = replica.log, ghost.committed.end
        if tracked.leader_epoch == leader.epoch:
            self._report(ghost, "S6", hwm_monotonicity.check_term(broker, leader.epoch, tracked.hwm, log.hwm))
            if log.leo > tracked.leo and leader.epoch < ghost.partition.leader_epoch:
                self._hit("zombie_leader_appends")
        else:
            tracked.leader_epoch = leader.epoch
            self._report(ghost, "S12", self.leaders.claim(replica.key, leader.epoch, broker))
        if ghost.unclean is not None or log.hwm > tracked.hwm or log.hwm > ghost.committed.end:
            self._leader_claims(ghost, tracked, broker, replica, leader)
        proposed = tracked.state is not leader.isr_state
        tracked.state = leader.isr_state
        if leader.epoch == ghost.partition.leader_epoch:
            if proposed:
                self._check_superset(ghost, tracked)
            if proposed or ghost.committed.end != end:
                self._check_quorum(ghost, broker, leader.isr_state.maximal_isr)

    def _leader_claims(
        self, ghost: PartitionGhost, tracked: Tracked, broker: int, replica: Any, leader: Leader | FormerLeader
    ) -> None:
        end, pending = ghost.committed.end, ghost.unclean
        findings = ghost.leader_claims(broker, tracked, replica.log, leader)
        if pending is not None and ghost.unclean is None:
            self._hit("unclean_election_lost_records" if ghost.rewound_to < end else "unclean_election_lost_nothing")
        elif ghost.committed.end > end and type(leader.isr_state).__name__ in _DURING:
            self._hit(_DURING[type(leader.isr_state).__name__])
        for property_id, detail in findings:
            self._report(ghost, property_id, detail)

    def forget_departed(self, node: Any) -> None:
        """T7: the broker knows that some of its replicas were removed; their logs are gone."""
        for key in list(self._truth.departing.get(node.id, ())):
            ghost = self._truth.ghosts.get(key)
            tracked = ghost.tracked.get(node.id) if ghost is not None else None
            replica = node.replicas.replicas.get(key) if node.replicas is not None else None
            if ghost is not None and tracked is not None and (replica is None or replica.log is not tracked.log):
                del ghost.tracked[node.id]
                self._check_held(ghost)
                self._check_candidates(ghost)
            if replica is None:
                del self._truth.departing[node.id][key]

    def check_whole(self, broker: int, key: PartitionKey, replica: Any) -> None:
        """S2 once more from the start of the log, without the shortcuts of the incremental check."""
        ghost = self._truth.ghosts.get(key)
        tracked = ghost.tracked.get(broker) if ghost is not None else None
        hwm = replica.log.hwm
        if ghost is not None and tracked is not None and replica.log is tracked.log:
            tracked.verified = 0
            self._report(ghost, "S2", ghost.check_matching(broker, tracked, hwm))

    def _check_held(self, ghost: PartitionGhost) -> None:
        """S9: at least one replica still has everything."""
        if ghost.unclean is None:
            held = {broker: ghost.verify(tracked) for broker, tracked in ghost.tracked.items()}
            wrong = no_loss.check(held, ghost.committed.end, ghost.lost_count(), ghost.weakest)
            self._report(ghost, "S9", wrong)
