"""ISR changes of a leader: proposals, and the controller's responses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from insync.replication.isr import Committed, PendingExpand, PendingRecovery, PendingShrink, Withdrawal
from insync.wire.errors import ErrorCode
from tests.replication.replication_harness import Harness, alter_response, partition, records


def expanding(**config: Any) -> Harness:
    """Leader 1 with ISR (1, 2) has just proposed (1, 2, 3)."""
    h = Harness(**config)
    h.apply(partition(isr=(1, 2)), 1)
    h.follower_fetch(1, 2, 0)
    h.follower_fetch(1, 3, 0)
    assert isinstance(h.leader().isr_state, PendingExpand)
    return h


# --- I1 ---


def test_a_follower_that_stops_fetching_leaves_after_the_lag_time() -> None:
    """I1: behind the LEO for longer than replica.lag.time.max.ms."""
    h = Harness(replica_lag_time_max_ms=1000)
    h.apply(partition(), 1)
    h.follower_fetch(1, 2, 0)
    h.follower_fetch(1, 3, 0)
    h.write(1)
    h.tick(1000)
    assert h.proposals(1) == []
    h.follower_fetch(1, 2, 1)
    h.tick(500)
    assert isinstance(h.leader().isr_state, PendingShrink)
    entry = h.take_proposal(1).request.topics[0].partitions[0]
    assert [member.broker_id for member in entry.new_isr_with_epochs] == [1, 2]
    (note,) = h[1].notes_of("isr_shrink_proposed")
    assert (note["partition"], note["leader_epoch"]) == ("t-0", 0)
    assert (note["isr"], note["proposed"]) == ((1, 2, 3), (1, 2))
    assert str(note["cause"]).startswith("behind for more than ")


def test_an_idle_follower_that_is_level_stays_in_the_isr() -> None:
    """I1: nothing to fetch is not lagging."""
    h = Harness(replica_lag_time_max_ms=1000)
    h.apply(partition())
    h.run()
    h.advance(10_000)
    assert h.proposals(1) == []


def test_an_idle_session_keeps_its_partitions_caught_up_until_the_next_append() -> None:
    """I1: a round that names no partition is a fetch at the LEO; a write after a long pause expels no follower."""
    h = Harness(replica_lag_time_max_ms=1000)
    h.apply(partition())
    h.run()
    h.advance(10_000, step=400)
    h.write(1)
    h[1].manager.tick(h.now + 501)
    assert h.proposals(1) == []
    progress = h.leader().followers[2]
    assert h.now - progress.last_caught_up_ms <= 1000


def test_a_member_of_the_isr_has_the_lag_time_to_fetch_from_a_new_leader() -> None:
    """I1, T1: no follower has fetched from the new leader yet."""
    h = Harness(replica_lag_time_max_ms=1000)
    h.now = 50_000
    h.apply(partition(), 1)
    h.write(1)
    h.tick(1000)
    assert h.proposals(1) == []
    h.tick(1000)
    assert h.leader().isr_state.isr == (1, 2, 3)
    entry = h.take_proposal(1).request.topics[0].partitions[0]
    assert [member.broker_id for member in entry.new_isr_with_epochs] == [1]


# --- I2 ---


def test_a_caught_up_follower_is_proposed_with_every_members_broker_epoch() -> None:
    """I2, I4: the proposal vouches for one incarnation of each member."""
    h = expanding()
    request = h.take_proposal(1).request
    entry = request.topics[0].partitions[0]
    assert (request.broker_id, request.broker_epoch) == (1, 101)
    assert (entry.leader_epoch, entry.partition_epoch, entry.leader_recovery_state) == (0, 0, 0)
    assert [(m.broker_id, m.broker_epoch) for m in entry.new_isr_with_epochs] == [(1, 101), (2, 102), (3, 103)]


def test_a_member_that_has_not_fetched_is_proposed_with_an_unknown_broker_epoch() -> None:
    """I4: -1 vouches for nothing."""
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    h.follower_fetch(1, 3, 0)
    entry = h.take_proposal(1).request.topics[0].partitions[0]
    assert [(m.broker_id, m.broker_epoch) for m in entry.new_isr_with_epochs] == [(1, 101), (2, -1), (3, 103)]


def test_a_follower_below_the_hwm_does_not_join() -> None:
    """I2: LEO >= HWM."""
    h = Harness()
    h.apply(partition(isr=(1,)), 1)
    h.write(1, 2)
    h.follower_fetch(1, 2, 1)
    assert h.proposals(1) == []
    h.follower_fetch(1, 2, 2)
    assert len(h.proposals(1)) == 1


def test_a_follower_below_leso_does_not_join_though_it_has_reached_a_stale_hwm() -> None:
    """I2, H4: below LESO the leader's own HWM may be stale."""
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    h.write(1, 3)
    h.apply(partition(1, 1, version=1, isr=(1, 2)), 1)
    assert (h[1].replica().log.hwm, h.leader().leso) == (0, 3)
    h.follower_fetch(1, 3, 2, epoch=1)
    assert h.proposals(1) == []
    h.follower_fetch(1, 3, 3, epoch=1)
    assert len(h.proposals(1)) == 1


def test_a_follower_that_has_not_fetched_in_this_epoch_does_not_join() -> None:
    """I2: it may have been removed and added again between two metadata reads, and be empty."""
    h = Harness()
    h.apply(partition(), 1)
    h.follower_fetch(1, 2, 0)
    h.follower_fetch(1, 3, 0)
    h.apply(partition(1, 1, version=2, isr=(1, 2)), 1)
    h.follower_fetch(1, 2, 0, epoch=1)
    h.tick(1000)
    assert h.proposals(1) == []
    h.follower_fetch(1, 3, 0, epoch=1)
    assert len(h.proposals(1)) == 1


@pytest.mark.parametrize("why", ["fenced", "leaving", "restarted", "unregistered"])
def test_an_ineligible_follower_does_not_join_until_it_is_eligible(why: str) -> None:
    """I2: not fenced, not shutting down, same broker epoch as registered; the leader checks again by the clock."""
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    epoch = h.shared.epochs[3]
    match why:
        case "fenced":
            h.shared.fenced.append(3)
        case "leaving":
            h.shared.leaving.append(3)
        case "restarted":
            h.shared.epochs[3] = epoch - 1
        case _:
            del h.shared.epochs[3]
    h.follower_fetch(1, 3, 0, broker_epoch=epoch)
    assert h.proposals(1) == []
    h.shared.fenced.clear()
    h.shared.leaving.clear()
    h.shared.epochs[3] = epoch
    h.tick(500)
    assert len(h.proposals(1)) == 1


def test_a_follower_that_has_stopped_fetching_does_not_rejoin_by_the_clock() -> None:
    """I2: while the HWM stands still below MinISR, its old position would let it join and leave forever."""
    h = Harness(min_isr=2, replica_lag_time_max_ms=1000)
    h.apply(partition(isr=(1, 2), replicas=(1, 2)), 1)
    h.follower_fetch(1, 2, 0)
    h.write(1)
    h.tick(1001)
    changed = h.accept(1, partition(isr=(1, 2), replicas=(1, 2)))
    assert changed.isr == (1,)
    h.tick(500)
    h.tick(500)
    assert h.proposals(1) == []
    h.follower_fetch(1, 2, 0)
    assert len(h.proposals(1)) == 1


# --- I3 ---


def test_one_proposal_is_in_flight_per_partition() -> None:
    """I3: nothing is proposed while the outcome of a proposal is unknown."""
    h = expanding(replica_lag_time_max_ms=1000)
    h.write(1)
    h.tick(5000)
    assert len(h.proposals(1)) == 1


def test_success_commits_the_isr_and_partition_epoch_of_the_response() -> None:
    """I3, M3: the metadata record of the same change, which comes later, changes nothing."""
    h = expanding()
    changed = h.accept(1, partition(isr=(1, 2)))
    leader = h.leader()
    assert isinstance(leader.isr_state, Committed)
    assert (leader.isr_state.isr, h[1].replica().partition.partition_epoch) == ((1, 2, 3), 1)
    assert h[1].manager.counters == {"isr_expands": 1, "isr_shrinks": 0, "failed_isr_updates": 0}
    state = leader.isr_state
    h.apply(changed, 1)
    assert leader.isr_state is state
    assert h[1].notes_of("isr_committed")[0]["isr"] == (1, 2, 3)


@pytest.mark.parametrize(
    "error", ["ineligible_replica", "operation_not_attempted", "invalid_request", "fenced_leader_epoch"]
)
def test_a_refusal_restores_the_committed_state(error: str) -> None:
    """I3: the proposal was not applied, so the maximal ISR is the ISR again, and the HWM may advance."""
    h = expanding()
    h.write(1)
    h.follower_fetch(1, 2, 1)
    h.shared.fenced.append(3)
    assert h[1].replica().log.hwm == 0
    h.answer(h.take_proposal(1), error=ErrorCode[error])
    assert h.leader().isr_state.maximal_isr == (1, 2)
    assert h[1].replica().log.hwm == 1
    assert h[1].manager.counters["failed_isr_updates"] == 1
    assert h[1].notes_of("isr_refused") == [{"partition": "t-0", "leader_epoch": 0, "error": error}]


def test_a_refused_proposal_is_not_repeated_at_once() -> None:
    """I3: the controller has newer metadata than this leader; a retry with every fetch would not help."""
    h = expanding(alter_partition_backoff_ms=50)
    h.answer(h.take_proposal(1), error=ErrorCode.ineligible_replica)
    h.follower_fetch(1, 3, 0)
    assert h.proposals(1) == []
    h.now += 50
    h.follower_fetch(1, 3, 0)
    assert len(h.proposals(1)) == 1


def test_a_lost_response_keeps_the_maximal_isr_and_sends_the_same_proposal_again() -> None:
    """I3: the controller may have accepted it."""
    h = expanding(alter_partition_backoff_ms=50)
    first = h.take_proposal(1)
    first.on_response(None, h.now)
    assert h.leader().isr_state.maximal_isr == (1, 2, 3)
    assert h.proposals(1) == []
    assert h[1].manager.next_deadline() == 50
    h.tick(50)
    again = h.take_proposal(1)
    assert again.request == first.request
    h.write(1)
    h.follower_fetch(1, 2, 1)
    assert h[1].replica().log.hwm == 0


@pytest.mark.parametrize("error", ["fenced_leader_epoch", "invalid_request", "invalid_update_version"])
def test_after_a_lost_response_a_refusal_by_epoch_proves_nothing(error: str) -> None:
    """I3: the lost attempt may have succeeded, and raised the epochs by which the second is refused."""
    h = expanding(alter_partition_backoff_ms=50)
    h.take_proposal(1).on_response(None, h.now)
    h.tick(50)
    h.answer(h.take_proposal(1), error=ErrorCode[error])
    assert h.leader().isr_state.maximal_isr == (1, 2, 3)


def withdrawing() -> Harness:
    """The first sending of {1, 2, 3} was lost, the second is refused because broker 3 is fenced."""
    h = expanding(alter_partition_backoff_ms=50)
    h.take_proposal(1).on_response(None, h.now)
    h.tick(50)
    h.shared.fenced.append(3)
    h.answer(h.take_proposal(1), error=ErrorCode.ineligible_replica)
    return h


def test_after_a_lost_response_a_refused_expansion_is_withdrawn_before_it_is_forgotten() -> None:
    """I3: the lost request may still arrive and be accepted, so its members count until a new epoch voids it."""
    h = withdrawing()
    h.write(1)
    h.follower_fetch(1, 2, 1)
    assert isinstance(h.leader().isr_state, Withdrawal)
    assert h.leader().isr_state.maximal_isr == (1, 2, 3)
    assert h[1].replica().log.hwm == 0
    h.tick(50)
    entry = h.proposals(1)[0].request.topics[0].partitions[0]
    assert (entry.partition_epoch, [m.broker_id for m in entry.new_isr_with_epochs]) == (0, [1, 2])
    h.accept(1, partition(isr=(1, 2)))
    assert h.leader().isr_state.maximal_isr == (1, 2)
    assert (h[1].replica().log.hwm, h[1].replica().partition.partition_epoch) == (1, 1)


@pytest.mark.parametrize("error", ["ineligible_replica", "fenced_leader_epoch", "invalid_update_version"])
def test_a_refused_withdrawal_keeps_the_maximal_isr(error: str) -> None:
    """I3: the epoch may be old because the withdrawn proposal succeeded; the metadata log decides."""
    h = withdrawing()
    h.tick(50)
    h.answer(h.take_proposal(1), error=ErrorCode[error])
    assert h.leader().isr_state.maximal_isr == (1, 2, 3)
    h.apply(partition(isr=(1, 2, 3), version=1), 1)
    assert isinstance(h.leader().isr_state, Committed)


def test_a_shrink_that_is_refused_after_a_lost_response_needs_no_withdrawal() -> None:
    """I3: if the lost request is accepted later, the leader waits for more replicas than it has to."""
    h = Harness(replica_lag_time_max_ms=1000, alter_partition_backoff_ms=50)
    h.apply(partition(), 1)
    h.write(1)
    h.tick(1600)
    h.take_proposal(1).on_response(None, h.now)
    h.tick(50)
    h.answer(h.take_proposal(1), error=ErrorCode.operation_not_attempted)
    assert isinstance(h.leader().isr_state, Committed)
    assert h.leader().isr_state.isr == (1, 2, 3)


@pytest.mark.parametrize("error", ["not_controller", "unknown_server_error", "request_timed_out"])
def test_a_response_that_decides_nothing_is_retried_in_the_pending_state(error: str) -> None:
    """I3: another controller decides."""
    h = expanding(alter_partition_backoff_ms=50)
    h.answer(h.take_proposal(1), error=ErrorCode[error])
    assert h.leader().isr_state.maximal_isr == (1, 2, 3)
    h.tick(50)
    assert len(h.proposals(1)) == 1


def test_a_refusal_of_the_whole_request_is_retried() -> None:
    """I3: NOT_CONTROLLER and STALE_BROKER_EPOCH say nothing about its partitions."""
    h = expanding(alter_partition_backoff_ms=50)
    send = h.take_proposal(1)
    send.on_response(
        replace(alter_response(None, ErrorCode.none), error_code=ErrorCode.not_controller, topics=()), h.now
    )
    h.collect_all()
    assert h.leader().isr_state.maximal_isr == (1, 2, 3)
    h.tick(50)
    assert len(h.proposals(1)) == 1


@pytest.mark.parametrize("error", ["invalid_update_version", "new_leader_elected", "unknown_topic_id"])
def test_a_partition_that_has_moved_on_waits_for_the_metadata_log(error: str) -> None:
    """I3: pending until the metadata arrives; retried only if it does not."""
    h = expanding(alter_partition_backoff_ms=50, alter_partition_metadata_timeout_ms=2000)
    h.answer(h.take_proposal(1), error=ErrorCode[error])
    assert h.leader().isr_state.maximal_isr == (1, 2, 3)
    h.tick(1999)
    assert h.proposals(1) == []
    h.tick(1)
    assert len(h.proposals(1)) == 1
    h.shared.fenced.append(3)
    h.apply(partition(isr=(1, 2), version=3), 1)
    assert h.leader().isr_state.maximal_isr == (1, 2)


def test_metadata_replaces_a_pending_state_and_the_late_response_is_ignored() -> None:
    """I3, M3: the controller has removed 2; a success with an older partition epoch must not undo that."""
    h = expanding()
    send = h.take_proposal(1)
    h.shared.fenced.extend([2, 3])
    h.apply(partition(isr=(1,), version=2), 1)
    assert h.leader().isr_state.maximal_isr == (1,)
    h.answer(send, partition(isr=(1, 2, 3), version=1))
    assert h.leader().isr_state.isr == (1,)
    assert h[1].replica().partition.partition_epoch == 2
    assert h[1].note_kinds().count("alter_partition_overtaken") == 1


def test_a_success_in_a_new_leader_epoch_is_left_to_the_metadata_log() -> None:
    """I3, R2: it completed a reassignment, and the response does not name the new replicas."""
    h = expanding()
    h.answer(h.take_proposal(1), partition(1, 1, isr=(1, 2, 3), version=1))
    assert isinstance(h.leader().isr_state, PendingExpand)
    h.apply(partition(1, 1, isr=(1, 2, 3), version=1), 1)
    assert h.leader().isr_state.isr == (1, 2, 3)
    assert h.leader().epoch == 1


def test_proposals_of_many_partitions_share_a_request_and_fail_separately() -> None:
    """I3, I4: one request is in flight; the refusal of one partition does not affect the others."""
    h = Harness((1, 2))
    both = [partition(isr=(1,), replicas=(1, 2), index=index) for index in (0, 1)]
    for broker in (1, 2):
        h[broker].manager.apply(both, [], 0)
    h.run()
    send = h.take_proposal(1)
    h.answer(send, error=ErrorCode.ineligible_replica)
    assert [entry.partition_index for entry in send.request.topics[0].partitions] == [0, 1]
    leaders = [h.leader(index=index) for index in (0, 1)]
    assert [type(leader.isr_state) for leader in leaders] == [Committed, PendingExpand]


def test_without_a_controller_the_proposal_waits() -> None:
    """I3: it is sent once a controller is known."""
    h = Harness(alter_partition_backoff_ms=50)
    h.shared.controller = -1
    h.apply(partition(isr=(1, 2)), 1)
    h.follower_fetch(1, 3, 0)
    assert h.proposals(1) == []
    h.shared.controller = 9
    h.tick(50)
    assert h.proposals(1)[0].peer == 9


def test_falling_below_min_isr_fails_the_produces_that_wait() -> None:
    """P2, I3: the records stay in the log, and the produce fails."""
    h = Harness(min_isr=2)
    h.apply(partition(isr=(1, 2)), 1)
    token = h.produce(1, records(2))
    assert h.produced(1, token) is None
    h.apply(partition(isr=(1,), version=1), 1)
    assert h.produced(1, token) == [(ErrorCode.not_enough_replicas_after_append, -1)]
    assert h[1].replica().log.leo == 2


# --- E7 ---


def test_a_recovering_leader_declares_its_recovery_before_it_expands() -> None:
    """E7, I4: while the partition is recovering its ISR holds only the leader."""
    h = Harness()
    h.apply(partition(isr=(1,), recovering=True), 1)
    h.follower_fetch(1, 2, 0)
    assert h.proposals(1) == []
    h.tick(500)
    assert isinstance(h.leader().isr_state, PendingRecovery)
    entry = h.proposals(1)[0].request.topics[0].partitions[0]
    assert (entry.leader_recovery_state, [m.broker_id for m in entry.new_isr_with_epochs]) == (0, [1])
    h.accept(1, partition(isr=(1,), recovering=True))
    assert not h[1].replica().partition.recovering
    assert isinstance(h.leader().isr_state, PendingExpand)
