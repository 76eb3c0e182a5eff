"""The leader of a partition: it appends, checks fetches, moves the high watermark and changes the ISR.

Everything here belongs to one leader epoch, except the followers' progress, which a new epoch resets.

An ISR change is proposed to the controller, and the leader counts with both outcomes until it knows which one came true
(I3). The race behind this maximal ISR: (1) ISR {1}, leader 1 proposes {1, 2}; (2) the controller accepts, its response
is delayed; (3) 1 commits a record alone; (4) 1 dies and 2, a candidate since (2), is elected without that record. From
(1) on the leader therefore waits for 2, until it knows that the proposal has failed.

A refusal does not always prove that: (1) leader 1 proposes {1, 2}, the connection breaks and the request stays in some
buffer; (2) broker 2 is fenced; (3) the next attempt is refused, because 2 is not eligible; (4) 2 is unfenced, in the
same incarnation and without a change of the partition; (5) the first attempt is read and accepted. Between (3) and the
news of (5), a leader that went back to {1} would commit without a candidate. So after an unanswered attempt it
withdraws instead: it proposes {1}, which the controller takes as a change, and the new partition epoch voids every
copy that is still in flight (I6). Until that is accepted, the leader goes on waiting for 2.

Notes: stale_broker_epoch_fetch(partition, replica, epoch, known). With partition and leader_epoch: isr_expand_proposed,
isr_shrink_proposed(isr, proposed, cause), recovery_proposed, isr_committed(isr, before, partition_epoch),
isr_refused(error), isr_withdrawn(isr, doubtful).
"""

from __future__ import annotations

from dataclasses import replace

from insync.metadata.partition import Partition
from insync.replication import divergence, isr
from insync.replication.divergence import EpochEnd
from insync.replication.fetch_session import CachedPartition
from insync.replication.isr import (
    UNKNOWN_LEO,
    Committed,
    IsrState,
    PendingExpand,
    PendingRecovery,
    PendingShrink,
    Proposal,
    Withdrawal,
)
from insync.replication.replica import Replica, Role
from insync.replication.state import ReplicationState
from insync.wire.batch import BatchHeader
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_partition

NO_LEADER_EPOCH = -1
NO_BROKER_EPOCH = -1
LONG_AGO = -(1 << 62)
RECOVERING = 1


class FollowerProgress:
    """What a leader knows of one follower, all of it from fetches in the current leader epoch (F4, I1)."""

    __slots__ = (
        "broker",
        "broker_epoch",
        "cached",
        "fetched_in_epoch",
        "held_back",
        "last_caught_up_ms",
        "last_fetch_ms",
        "leo",
        "leo_at_last_fetch",
        "log_start",
        "served_offset",
    )

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.reset(LONG_AGO)

    def reset(self, caught_up_ms: int) -> None:
        """T1, T3: nothing from an earlier epoch counts, least of all a member's LEO.

        1. Leader 1 knows that 2 holds 10 records. 2. Replica 3 leads for a while with 8 of them, and 2 truncates. 3. 1
        leads again and has not noticed. It must not commit what 2 no longer has.
        """
        self.leo = self.log_start = UNKNOWN_LEO
        self.broker_epoch = NO_BROKER_EPOCH
        self.last_fetch_ms = LONG_AGO
        self.last_caught_up_ms = caught_up_ms
        self.leo_at_last_fetch = UNKNOWN_LEO
        self.fetched_in_epoch = False
        self.held_back = False
        """R6: it was noted that the throttle holds this follower back."""
        self.served_offset = UNKNOWN_LEO
        """D6: its position when it was last sent records. If it asks for that offset again, it could not use them."""
        self.cached: CachedPartition | None = None

    def forget_fetch(self) -> None:
        """T3: the LEO stays, but it does not count until the follower has fetched in this epoch."""
        self.last_caught_up_ms = LONG_AGO
        self.leo_at_last_fetch = UNKNOWN_LEO
        self.fetched_in_epoch = False
        self.held_back = False
        self.cached = None

    def record_fetch(self, cached: CachedPartition, broker_epoch: int, leader_leo: int, now: int) -> None:
        """F4: a valid fetch shows the follower's LEO, its incarnation, and when it was last caught up."""
        self.last_caught_up_ms = isr.caught_up_at(
            cached.fetch_offset, leader_leo, now, self.leo_at_last_fetch, self.last_fetch_ms, self.last_caught_up_ms
        )
        self.leo = cached.fetch_offset
        self.log_start = cached.log_start
        self.broker_epoch = broker_epoch
        self.last_fetch_ms = now
        self.leo_at_last_fetch = leader_leo
        self.fetched_in_epoch = True
        self.cached = cached

    def record_idle_rounds(self, leader_leo: int) -> None:
        """I1: to be called before the leader's LEO moves. Every round of a session fetches its idle partitions too.

        A round does not name unchanged partitions, so it leaves no trace here. While the follower is level with the
        leader, each round was a fetch at the LEO, and at the last one the follower was caught up.
        """
        cached = self.cached
        if self.leo == leader_leo and cached is not None and cached.session is not None:
            last_round_ms = cached.session.last_fetch_ms
            if last_round_ms > self.last_fetch_ms:
                self.last_fetch_ms = self.last_caught_up_ms = last_round_ms
                self.leo_at_last_fetch = leader_leo


class Leader(Role):
    __slots__ = ("_propose_after_ms", "_state", "epoch", "followers", "isr_state", "leso", "replica")

    def __init__(self, state: ReplicationState, replica: Replica) -> None:
        self._state = state
        self.replica = replica
        self.epoch = NO_LEADER_EPOCH
        self.leso = 0
        self.followers: dict[int, FollowerProgress] = {}
        self.isr_state: IsrState = Committed(())
        self._propose_after_ms = LONG_AGO

    # --- epochs and metadata ---

    def start_epoch(self, partition: Partition, now: int) -> None:
        """T1, T3: the epoch starts at the end of the log, and follower progress of earlier epochs is forgotten."""
        log = self.replica.log
        self.epoch = partition.leader_epoch
        self.leso = log.leo
        log.epochs.assign(self.epoch, self.leso)
        self._set_partition(partition)
        self.reset_followers(now)

    def apply_metadata(self, partition: Partition) -> None:
        """T2: the ISR and the replica set are the metadata's, which replaces a pending proposal (I3, I6).

        The metadata log is often faster than the response to the proposal, above all where the broker is the
        controller too.
        """
        before = self.isr_state
        self._set_partition(partition)
        if not isinstance(before, PendingExpand | PendingShrink | PendingRecovery):
            return
        if sorted(before.proposed) == sorted(partition.isr):
            self._note_committed(before)

    def _set_partition(self, partition: Partition) -> None:
        self.replica.partition = partition
        self.isr_state = Committed(partition.isr)
        known = self.followers
        self.followers = {
            broker: known.get(broker) or FollowerProgress(broker)
            for broker in partition.replicas
            if broker != self._state.broker_id
        }
        self._track_under_replication()

    def reset_followers(self, now: int) -> None:
        """T1, T3: no follower counts or joins before it fetches in this epoch; members have the lag time for that."""
        for broker, progress in self.followers.items():
            if broker in self.isr_state.isr:
                progress.reset(now)
            else:
                progress.forget_fetch()

    def _track_under_replication(self) -> None:
        """A follower outside the ISR may have nothing new to fetch for a long time, so the manager checks partitions
        that have one by the clock."""
        if len(self.isr_state.isr) <= len(self.followers) or self.replica.partition.recovering:
            self._state.under_replicated[self.replica] = None
        else:
            self._state.under_replicated.pop(self.replica, None)

    @property
    def min_isr(self) -> int:
        """H1: a partition never needs more in-sync replicas than it has replicas."""
        partition = self.replica.partition
        return min(self._state.cluster.min_insync_replicas(partition.topic), len(partition.replicas))

    def has_min_isr(self) -> bool:
        """H1, P2: the committed ISR counts, since the maximal one may never come true."""
        return len(self.isr_state.isr) >= self.min_isr

    # --- appends ---

    def append(self, batch: bytearray, header: BatchHeader, now: int) -> int:
        """Write one validated batch; returns its base offset. A sole member of the ISR commits it at once (H2)."""
        replica, state = self.replica, self._state
        log = replica.log
        leo = log.leo
        for progress in self.followers.values():
            if progress.leo == leo:
                progress.record_idle_rounds(leo)
        base_offset = log.append_as_leader(batch, header, self.epoch, now + state.config.wall_offset_ms)
        state.changed[replica] = None
        replica.on_leo_advanced(state.woken)
        self.advance_hwm(now)
        return base_offset

    # --- fetches ---

    def check_fetch(self, cached: CachedPartition) -> ErrorCode | EpochEnd | None:
        """F3, D2: why this fetch is refused, or where the fetcher's log diverges from this one. None: it may read."""
        error = leader_epoch_error(cached.leader_epoch, self.epoch)
        if error is not None:
            return error
        if cached.from_follower and cached.session_replica not in self.followers:
            # Our metadata may be older than the follower's, which then retries.
            return ErrorCode.not_leader_or_follower if cached.leader_epoch < 0 else ErrorCode.unknown_leader_epoch
        log = self.replica.log
        if cached.fetch_offset < log.log_start:
            return ErrorCode.offset_out_of_range
        diverging = divergence.find_divergence(log, cached.last_fetched_epoch, cached.fetch_offset)
        if diverging is not None:
            return diverging
        return ErrorCode.offset_out_of_range if cached.fetch_offset > log.leo else None

    def record_fetch(self, cached: CachedPartition, broker_epoch: int, now: int) -> ErrorCode | None:
        """F4: a valid fetch of a follower updates its progress, which may change the ISR and the high watermark."""
        broker = cached.session_replica
        progress = self.followers[broker]
        known = max(progress.broker_epoch, self._state.cluster.broker_epoch_of(broker) or -1)
        if is_earlier_incarnation(broker_epoch, known):
            name = self.replica.partition.name
            self._state.out.note(
                "stale_broker_epoch_fetch", partition=name, replica=broker, epoch=broker_epoch, known=known
            )
            return ErrorCode.not_leader_or_follower
        leo_before = progress.leo
        progress.record_fetch(cached, broker_epoch, self.replica.log.leo, now)
        if len(self.isr_state.isr) <= len(self.followers):
            self.maybe_expand_isr(now)
        if progress.leo != leo_before:
            self.advance_hwm(now)
        return None

    # --- the high watermark ---

    def advance_hwm(self, now: int) -> None:
        """H1, H2: to be called after a follower's fetch, an ISR change, an append, and on becoming leader."""
        replica, state = self.replica, self._state
        log = replica.log
        hwm, leo = log.hwm, log.leo
        if hwm >= leo:
            return
        maximal_isr = self.isr_state.maximal_isr
        follower_leos = [
            progress.leo
            for progress in self.followers.values()
            if progress.leo < leo and (progress.broker in maximal_isr or self.is_joining(progress, leo, hwm, now))
        ]
        new_hwm = isr.advance_hwm(hwm, leo, follower_leos)
        if new_hwm == hwm or not self.has_min_isr():
            return
        log.set_hwm(new_hwm)
        state.changed[replica] = None
        replica.on_hwm_advanced(state.woken)
        if replica.waiting:
            state.purgatory.complete_up_to(replica.waiting, new_hwm)

    def is_joining(self, progress: FollowerProgress, leo: int, hwm: int, now: int) -> bool:
        """H3: a follower that is about to join holds the high watermark back; otherwise it might never reach it."""
        lag_ms = self._state.config.replica_lag_time_max_ms
        return (
            isr.is_caught_up(progress.leo, leo, progress.last_caught_up_ms, now, lag_ms)
            and isr.has_reached_hwm(progress.leo, hwm)
            and isr.has_reached_leso(progress.leo, self.leso)
            and self.is_eligible(progress)
        )

    def knows_true_hwm(self) -> bool:
        """H4: from LESO on the local high watermark cannot be stale, because this leader moved it there itself.
        Clients rely on a high watermark that does not go back, so they get no other."""
        return self.replica.log.hwm >= self.leso

    # --- proposing ISR changes ---

    def maybe_expand_isr(self, now: int) -> None:
        """I2: propose every follower that may join, all in one change."""
        if not self._may_propose(now) or self.replica.partition.recovering:
            return
        members = self.isr_state.isr
        joining = tuple(
            broker
            for broker, progress in self.followers.items()
            if broker not in members and self.can_join(progress) and self._is_fetching(progress, now)
        )
        if joining:
            self._note("isr_expand_proposed", isr=members, proposed=members + joining, cause="caught up")
            self._propose(PendingExpand, members + joining)

    def maybe_shrink_isr(self, now: int) -> None:
        """I1: propose the ISR without the followers that have been behind for too long."""
        if not self._may_propose(now):
            return
        members = self.isr_state.isr
        staying = tuple(b for b in members if b == self._state.broker_id or not self._is_lagging(b, now))
        if len(staying) < len(members):
            lag_ms = self._state.config.replica_lag_time_max_ms
            cause = f"behind for more than {lag_ms} ms"
            self._note("isr_shrink_proposed", isr=members, proposed=staying, cause=cause)
            self._propose(PendingShrink, staying)

    def maybe_finish_recovery(self, now: int) -> None:
        """E7: after an unclean election, the leader declares its log to be the partition's."""
        if self.replica.partition.recovering and self._may_propose(now):
            self._note("recovery_proposed")
            self._propose(PendingRecovery, self.isr_state.isr)

    def can_join(self, progress: FollowerProgress) -> bool:
        """I2: unless all of this holds, the ISR would have a candidate that lacks committed records. What the leader
        knew in an earlier epoch may be about a log that has been deleted since."""
        return (
            progress.fetched_in_epoch
            and isr.has_reached_hwm(progress.leo, self.replica.log.hwm)
            and isr.has_reached_leso(progress.leo, self.leso)
            and self.is_eligible(progress)
        )

    def is_eligible(self, progress: FollowerProgress) -> bool:
        """I2, B7: the broker can be a candidate (it is neither fenced nor shutting down), and it has not restarted
        since it fetched."""
        cluster, broker = self._state.cluster, progress.broker
        return (
            not cluster.is_fenced(broker)
            and not cluster.is_shutting_down(broker)
            and isr.is_same_incarnation(progress.broker_epoch, cluster.broker_epoch_of(broker))
        )

    def _may_propose(self, now: int) -> bool:
        """I3: one change in flight per partition."""
        return isinstance(self.isr_state, Committed) and now >= self._propose_after_ms

    def _is_lagging(self, broker: int, now: int) -> bool:
        progress = self.followers[broker]
        leo = self.replica.log.leo
        progress.record_idle_rounds(leo)
        lag_ms = self._state.config.replica_lag_time_max_ms
        return not isr.is_caught_up(progress.leo, leo, progress.last_caught_up_ms, now, lag_ms)

    def _is_fetching(self, progress: FollowerProgress, now: int) -> bool:
        progress.record_idle_rounds(self.replica.log.leo)
        return isr.is_fetching(progress.last_fetch_ms, now, self._state.config.replica_lag_time_max_ms)

    def _propose(self, kind: type[Proposal], proposed: tuple[int, ...]) -> None:
        """I3: from here on the maximal ISR is the union of both."""
        committed = Committed(self.isr_state.isr)
        partition_epoch = self.replica.partition.partition_epoch
        proposal = kind(committed, proposed, self._with_broker_epochs(proposed), self.epoch, partition_epoch)
        self.isr_state = proposal
        self._state.changed[self.replica] = None
        self._state.proposed[self.replica] = proposal

    def _with_broker_epochs(self, members: tuple[int, ...]) -> isr.MemberEpochs:
        """I4: the incarnations that a proposal vouches for; -1 for a member that has not fetched in this epoch."""
        epochs = {broker: progress.broker_epoch for broker, progress in self.followers.items()}
        epochs[self._state.broker_id] = self._state.cluster.broker_epoch
        return tuple((broker, epochs.get(broker, NO_BROKER_EPOCH)) for broker in members)

    # --- the outcome of a proposal ---

    def accept_proposal(self, proposal: Proposal, response: alter_partition.ResponsePartition, now: int) -> bool:
        """I3: commit it. False: the response has a leader epoch that only the metadata log can explain; wait for it."""
        partition = self.replica.partition
        if response.leader_epoch != self.epoch:
            return False
        if isr.is_newer(response.partition_epoch, partition.partition_epoch):
            self.replica.partition = replace(
                partition,
                isr=tuple(response.isr),
                partition_epoch=response.partition_epoch,
                recovering=response.leader_recovery_state == RECOVERING,
            )
        self.isr_state = Committed(self.replica.partition.isr)
        self._note_committed(proposal)
        self.on_isr_changed(now)
        return True

    def revert_proposal(self, proposal: Proposal, error: ErrorCode, now: int) -> None:
        """I3: the proposal was not and will not be applied, so the committed ISR is the maximal one again."""
        self.isr_state = proposal.committed
        self._propose_after_ms = now + self._state.config.alter_partition_backoff_ms
        self._state.counters["failed_isr_updates"] += 1
        self._note("isr_refused", error=error.name)
        self.on_isr_changed(now)

    def withdraw_proposal(self, proposal: Proposal) -> Withdrawal:
        """I3: the proposal was refused, but an earlier copy may still be accepted: void it, and wait for its members
        until then."""
        committed = proposal.committed
        withdrawal = Withdrawal(
            committed,
            committed.isr,
            self._with_broker_epochs(committed.isr),
            proposal.leader_epoch,
            proposal.partition_epoch,
            proposal.proposed,
        )
        self.isr_state = withdrawal
        self._state.changed[self.replica] = None
        self._state.counters["failed_isr_updates"] += 1
        self._note("isr_withdrawn", isr=committed.isr, doubtful=proposal.proposed)
        return withdrawal

    def on_isr_changed(self, now: int) -> None:
        """H2, P2: the ISR or the maximal ISR has changed."""
        replica, state = self.replica, self._state
        state.changed[replica] = None
        self._track_under_replication()
        self.advance_hwm(now)
        if replica.waiting and not self.has_min_isr():
            state.purgatory.fail_below_min_isr(replica.waiting)
        if replica in state.under_replicated:
            self.maybe_expand_isr(now)

    def _note_committed(self, proposal: Proposal) -> None:
        if isinstance(proposal, PendingExpand):
            self._state.counters["isr_expands"] += 1
        elif isinstance(proposal, PendingShrink):
            self._state.counters["isr_shrinks"] += 1
        epoch = self.replica.partition.partition_epoch
        self._note("isr_committed", isr=self.isr_state.isr, before=proposal.committed.isr, partition_epoch=epoch)

    def _note(self, kind: str, **fields: object) -> None:
        self._state.out.note(kind, partition=self.replica.partition.name, leader_epoch=self.epoch, **fields)


def leader_of(replica: Replica) -> Leader | None:
    """The replica's leader role; None if it does not lead."""
    role = replica.role
    return role if isinstance(role, Leader) else None


def leader_epoch_error(requested: int, own: int) -> ErrorCode | None:
    """F3: a fetch belongs to one leader epoch; -1 names none (clients only)."""
    if requested in (own, NO_LEADER_EPOCH):
        return None
    return ErrorCode.fenced_leader_epoch if requested < own else ErrorCode.unknown_leader_epoch


def is_earlier_incarnation(broker_epoch: int, known: int) -> bool:
    """F4: a fetch sent before the follower's broker restarted says nothing about the log it has now."""
    return broker_epoch < known
