"""How a leader changes its ISR (I1-I3, E7): it proposes, counts with both outcomes, and takes the one it is told.

The numbered race behind the maximal ISR: (1) ISR {1}, leader 1 proposes {1, 2}; (2) the controller accepts, its answer
is delayed; (3) 1 commits a record alone; (4) 1 dies and 2, a candidate since (2), is elected without that record.
From (1) on the leader therefore waits for 2, until it knows that the proposal has failed.

A refusal does not always tell it that: (1) leader 1 proposes {1, 2}, the connection breaks and the request lies in some
buffer; (2) broker 2 is fenced; (3) the next attempt is refused, because 2 is not eligible; (4) 2 is unfenced, in the
same uptime and without a change of the partition; (5) the first attempt is read and accepted. Between (3) and the
news of (5) a leader that went back to {1} would commit without a candidate. So after an attempt without an answer it
withdraws instead: it proposes {1}, which the controller takes as a change, and by its new partition epoch whatever is
still under way is void (I6). Until that is accepted it goes on waiting for 2.

Notes, all of them with partition and leader_epoch: isr_expand_proposed, isr_shrink_proposed(isr, proposed, cause),
recovery_proposed, isr_committed(isr, before, partition_epoch), isr_refused(error), isr_withdrawn(isr, doubtful),
alter_partition_overtaken.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from insync.replication import isr
from insync.replication.isr import (
    Committed,
    IsrState,
    PendingExpand,
    PendingRecovery,
    PendingShrink,
    Proposal,
    Withdrawal,
)
from insync.replication.progress import NO_BROKER_EPOCH, FollowerProgress
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_partition

if TYPE_CHECKING:
    from insync.replication.leader import Leader

RECOVERING = 1


# --- proposing ---


def maybe_expand(leader: Leader, now: int) -> None:
    """I2: propose every follower that may join; all of them in one change."""
    if not _may_propose(leader, now) or leader.replica.partition.recovering:
        return
    members = leader.state.isr
    joining = tuple(
        b for b, p in leader.followers.items() if b not in members and can_join(leader, p) and _fetches(leader, p, now)
    )
    if joining:
        _note(leader, "isr_expand_proposed", isr=members, proposed=members + joining, cause="caught up")
        _propose(leader, PendingExpand, members + joining)


def maybe_shrink(leader: Leader, now: int) -> None:
    """I1: propose the ISR without those that have been behind for too long."""
    if not _may_propose(leader, now):
        return
    members = leader.state.isr
    staying = tuple(b for b in members if b == leader.core.broker_id or not _lags(leader, b, now))
    if len(staying) < len(members):
        lag = leader.core.config.replica_lag_time_max_ms
        _note(leader, "isr_shrink_proposed", isr=members, proposed=staying, cause=f"behind for more than {lag} ms")
        _propose(leader, PendingShrink, staying)


def maybe_recover(leader: Leader, now: int) -> None:
    """E7: a leader elected in spite of possible loss says that its log is the partition's from now on."""
    if leader.replica.partition.recovering and _may_propose(leader, now):
        _note(leader, "recovery_proposed")
        _propose(leader, PendingRecovery, leader.state.isr)


def can_join(leader: Leader, progress: FollowerProgress) -> bool:
    """I2: all of it, or the ISR would hold a candidate that lacks committed records."""
    return (
        isr.fetched_in_this_epoch(progress.fetched_in_epoch)
        and isr.reached_hwm(progress.leo, leader.replica.log.hwm)
        and isr.reached_leso(progress.leo, leader.leso)
        and eligible(leader, progress)
    )


def eligible(leader: Leader, progress: FollowerProgress) -> bool:
    """I2: the broker may be a candidate, and is still in the uptime in which it fetched."""
    cluster, broker = leader.core.cluster, progress.broker
    return (
        isr.not_fenced(cluster.is_fenced(broker))
        and isr.not_shutting_down(cluster.is_shutting_down(broker))
        and isr.same_uptime(progress.broker_epoch, cluster.broker_epoch_of(broker))
    )


def watch(leader: Leader) -> None:
    """A follower outside the ISR may fetch nothing new for long: the manager looks at such partitions by the clock."""
    if len(leader.state.isr) <= len(leader.followers) or leader.replica.partition.recovering:
        leader.core.under_replicated[leader.replica] = None
    else:
        leader.core.under_replicated.pop(leader.replica, None)


def _may_propose(leader: Leader, now: int) -> bool:
    """I3: one change in flight per partition."""
    return isinstance(leader.state, Committed) and now >= leader.propose_after


def _lags(leader: Leader, broker: int, now: int) -> bool:
    progress = leader.followers[broker]
    leo = leader.replica.log.leo
    progress.settle(leo)
    lag = leader.core.config.replica_lag_time_max_ms
    return not isr.is_caught_up(progress.leo, leo, progress.last_caught_up_ms, now, lag)


def _fetches(leader: Leader, progress: FollowerProgress, now: int) -> bool:
    progress.settle(leader.replica.log.leo)
    return isr.is_alive(progress.last_fetch_ms, now, leader.core.config.replica_lag_time_max_ms)


def _propose(leader: Leader, kind: type[Proposal], proposed: tuple[int, ...]) -> None:
    """I3: from here on the maximal ISR is the union of both."""
    committed = Committed(leader.state.isr)
    members = tuple((broker, _uptime(leader, broker)) for broker in proposed)
    proposal = kind(committed, proposed, members, leader.epoch, leader.replica.partition.partition_epoch)
    leader.state = proposal
    leader.core.changed[leader.replica] = None
    leader.core.proposed[leader.replica] = proposal


def _uptime(leader: Leader, broker: int) -> int:
    """I4: the broker epoch that the proposal vouches for; -1 for a member not heard from in this leader epoch."""
    if broker == leader.core.broker_id:
        return leader.core.cluster.broker_epoch
    progress = leader.followers.get(broker)
    return NO_BROKER_EPOCH if progress is None else progress.broker_epoch


# --- hearing of the outcome ---


def accepted(leader: Leader, proposal: Proposal, answer: alter_partition.ResponsePartition, now: int) -> bool:
    """I3: commit it. False: the answer tells of an epoch that only the metadata log can explain; wait for that."""
    partition = leader.replica.partition
    if answer.leader_epoch != leader.epoch:
        return False
    if isr.is_newer(answer.partition_epoch, partition.partition_epoch):
        leader.replica.partition = replace(
            partition,
            isr=tuple(answer.isr),
            partition_epoch=answer.partition_epoch,
            recovering=answer.leader_recovery_state == RECOVERING,
        )
    leader.state = Committed(leader.replica.partition.isr)
    _committed(leader, proposal)
    settled(leader, now)
    return True


def learnt(leader: Leader, pending: IsrState) -> None:
    """I6: the metadata log was faster than the answer, as it mostly is where a broker and the controller are one."""
    proposed = isinstance(pending, PendingExpand | PendingShrink | PendingRecovery)
    if proposed and sorted(pending.proposed) == sorted(leader.state.isr):  # type: ignore[union-attr]
        _committed(leader, pending)  # type: ignore[arg-type]


def _committed(leader: Leader, proposal: Proposal) -> None:
    if isinstance(proposal, PendingExpand):
        leader.core.counters["isr_expands"] += 1
    elif isinstance(proposal, PendingShrink):
        leader.core.counters["isr_shrinks"] += 1
    epoch = leader.replica.partition.partition_epoch
    _note(leader, "isr_committed", isr=leader.state.isr, before=proposal.committed.isr, partition_epoch=epoch)


def refused(leader: Leader, proposal: Proposal, error: ErrorCode, now: int) -> None:
    """I3: the proposal was not and will not be applied; the committed state is the whole truth again."""
    leader.state = proposal.committed
    leader.propose_after = now + leader.core.config.alter_partition_backoff_ms
    leader.core.counters["failed_isr_updates"] += 1
    _note(leader, "isr_refused", error=error.name)
    settled(leader, now)


def withdraw(leader: Leader, proposal: Proposal) -> Withdrawal:
    """I3: refused, and yet an earlier sending may be accepted: take it back, and wait for its members till then."""
    isr_now = proposal.committed.isr
    members = tuple((broker, _uptime(leader, broker)) for broker in isr_now)
    withdrawal = Withdrawal(
        proposal.committed, isr_now, members, proposal.leader_epoch, proposal.partition_epoch, proposal.proposed
    )
    leader.state = withdrawal
    leader.core.changed[leader.replica] = None
    leader.core.counters["failed_isr_updates"] += 1
    _note(leader, "isr_withdrawn", isr=isr_now, doubtful=proposal.proposed)
    return withdrawal


def settled(leader: Leader, now: int) -> None:
    """H2, P2: the ISR or the maximal ISR has changed."""
    leader.core.changed[leader.replica] = None
    watch(leader)
    leader.advance_hwm(now)
    if leader.replica.waiting and not leader.has_min_isr():
        leader.core.purgatory.fail_below_min_isr(leader.replica)
    if leader.replica in leader.core.under_replicated:
        maybe_expand(leader, now)


def _note(leader: Leader, kind: str, **fields: object) -> None:
    leader.core.out.note(kind, partition=leader.replica.partition.name, leader_epoch=leader.epoch, **fields)
