"""How a leader changes its ISR with the controller."""

from __future__ import annotations

from dataclasses import replace

import pytest
from replication_harness import Harness, alter_answer, partition, records

from insync.replication.isr import Committed, PendingExpand, PendingRecovery, PendingShrink, Withdrawal
from insync.wire.errors import ErrorCode


def expanding(**config: int) -> Harness:
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
    line = h.take_proposal(1).request.topics[0].partitions[0]
    assert [member.broker_id for member in line.new_isr_with_epochs] == [1, 2]
    (told,) = h[1].notes_of("isr_shrink_proposed")
    assert (told["partition"], told["leader_epoch"]) == ("t-0", 0)
    assert (told["isr"], told["proposed"]) == ((1, 2, 3), (1, 2))
    assert str(told["cause"]).startswith("behind for more than ")


def test_an_idle_follower_that_is_level_stays_in() -> None:
    """I1: nothing to fetch is not lagging."""
    h = Harness(replica_lag_time_max_ms=1000)
    h.apply(partition())
    h.run()
    h.advance(10_000)
    assert h.proposals(1) == []


def test_an_idle_session_keeps_its_partitions_caught_up_until_the_next_append() -> None:
    """I1: rounds that name no partition still are fetches at the LEO; a write after long silence expels nobody."""
    h = Harness(replica_lag_time_max_ms=1000)
    h.apply(partition())
    h.run()
    h.advance(10_000, step=400)
    h.write(1)
    h[1].manager.tick(h.now + 501)
    assert h.proposals(1) == []
    progress = h.leader().followers[2]
    assert h.now - progress.last_caught_up_ms <= 1000


def test_a_member_of_the_isr_has_the_lag_time_to_show_itself_to_a_new_leader() -> None:
    """I1, T1: the new leader has heard from nobody yet."""
    h = Harness(replica_lag_time_max_ms=1000)
    h.now = 50_000
    h.apply(partition(), 1)
    h.write(1)
    h.tick(1000)
    assert h.proposals(1) == []
    h.tick(1000)
    assert h.leader().isr_state.isr == (1, 2, 3)
    line = h.take_proposal(1).request.topics[0].partitions[0]
    assert [member.broker_id for member in line.new_isr_with_epochs] == [1]


# --- I2 ---


def test_a_caught_up_follower_is_proposed_with_every_members_broker_epoch() -> None:
    """I2, I4: the proposal vouches for one uptime of each member."""
    h = expanding()
    request = h.take_proposal(1).request
    line = request.topics[0].partitions[0]
    assert (request.broker_id, request.broker_epoch) == (1, 101)
    assert (line.leader_epoch, line.partition_epoch, line.leader_recovery_state) == (0, 0, 0)
    assert [(m.broker_id, m.broker_epoch) for m in line.new_isr_with_epochs] == [(1, 101), (2, 102), (3, 103)]


def test_a_member_not_heard_from_is_proposed_with_an_unknown_broker_epoch() -> None:
    """I4: -1 vouches for nothing."""
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    h.follower_fetch(1, 3, 0)
    line = h.take_proposal(1).request.topics[0].partitions[0]
    assert [(m.broker_id, m.broker_epoch) for m in line.new_isr_with_epochs] == [(1, 101), (2, -1), (3, 103)]


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
    """I2, H4: below LESO the leader's own HWM may be too low to judge by."""
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
    """I2: removed and added again between two metadata reads, it may be empty; what it told before is void."""
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
    """I2: not fenced, not shutting down, same broker epoch as registered; and the leader looks again by the clock."""
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


def test_a_follower_that_has_stopped_fetching_is_not_brought_back_by_the_clock() -> None:
    """I2: with a HWM held below MinISR its old position would still do, and it would go in and out for ever."""
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
    """I3: nothing is proposed on top of an undecided state."""
    h = expanding(replica_lag_time_max_ms=1000)
    h.write(1)
    h.tick(5000)
    assert len(h.proposals(1)) == 1


def test_success_commits_the_answers_isr_and_partition_epoch() -> None:
    """I3, M3: the metadata record that brings the same change later is no news."""
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
def test_a_refusal_goes_back_to_the_committed_state(error: str) -> None:
    """I3: the proposal was not applied, so the maximal ISR is the ISR again, and the HWM may move on."""
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
    """I3: the controller knows better than our metadata; asking again at every fetch would not help."""
    h = expanding(alter_partition_backoff_ms=50)
    h.answer(h.take_proposal(1), error=ErrorCode.ineligible_replica)
    h.follower_fetch(1, 3, 0)
    assert h.proposals(1) == []
    h.now += 50
    h.follower_fetch(1, 3, 0)
    assert len(h.proposals(1)) == 1


def test_a_lost_answer_keeps_the_maximal_isr_and_sends_the_same_proposal_again() -> None:
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
def test_after_a_lost_answer_a_refusal_by_epoch_proves_nothing(error: str) -> None:
    """I3: the lost attempt may have succeeded, and so raised the very epochs that the second is refused by."""
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


def test_after_a_lost_answer_a_refused_expansion_is_withdrawn_before_it_is_forgotten() -> None:
    """I3: the lost sending may yet arrive and be accepted, so its members count until a new epoch makes it void."""
    h = withdrawing()
    h.write(1)
    h.follower_fetch(1, 2, 1)
    assert isinstance(h.leader().isr_state, Withdrawal)
    assert h.leader().isr_state.maximal_isr == (1, 2, 3)
    assert h[1].replica().log.hwm == 0
    h.tick(50)
    line = h.proposals(1)[0].request.topics[0].partitions[0]
    assert (line.partition_epoch, [m.broker_id for m in line.new_isr_with_epochs]) == (0, [1, 2])
    h.accept(1, partition(isr=(1, 2)))
    assert h.leader().isr_state.maximal_isr == (1, 2)
    assert (h[1].replica().log.hwm, h[1].replica().partition.partition_epoch) == (1, 1)


@pytest.mark.parametrize("error", ["ineligible_replica", "fenced_leader_epoch", "invalid_update_version"])
def test_a_withdrawal_that_is_refused_leaves_the_doubt(error: str) -> None:
    """I3: an old epoch may stem from the success of what was to be withdrawn; the metadata log will tell."""
    h = withdrawing()
    h.tick(50)
    h.answer(h.take_proposal(1), error=ErrorCode[error])
    assert h.leader().isr_state.maximal_isr == (1, 2, 3)
    h.apply(partition(isr=(1, 2, 3), version=1), 1)
    assert isinstance(h.leader().isr_state, Committed)


def test_a_shrink_that_is_refused_after_a_lost_answer_needs_no_withdrawal() -> None:
    """I3: if the lost sending is accepted later, the leader waits for more replicas than it must."""
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
def test_an_answer_that_decides_nothing_is_retried_in_the_pending_state(error: str) -> None:
    """I3: another controller will tell."""
    h = expanding(alter_partition_backoff_ms=50)
    h.answer(h.take_proposal(1), error=ErrorCode[error])
    assert h.leader().isr_state.maximal_isr == (1, 2, 3)
    h.tick(50)
    assert len(h.proposals(1)) == 1


def test_a_refusal_of_the_whole_request_is_retried() -> None:
    """I3: NOT_CONTROLLER and STALE_BROKER_EPOCH say nothing of the partitions in it."""
    h = expanding(alter_partition_backoff_ms=50)
    send = h.take_proposal(1)
    send.on_response(replace(alter_answer(None, ErrorCode.none), error_code=ErrorCode.not_controller, topics=()), h.now)
    h.collect_all()
    assert h.leader().isr_state.maximal_isr == (1, 2, 3)
    h.tick(50)
    assert len(h.proposals(1)) == 1


@pytest.mark.parametrize("error", ["invalid_update_version", "new_leader_elected", "unknown_topic_id"])
def test_a_partition_that_has_moved_on_waits_for_the_metadata_log(error: str) -> None:
    """I3: pending until metadata explains; asked again only if that never comes."""
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


def test_metadata_replaces_a_pending_state_and_the_late_answer_is_ignored() -> None:
    """I3, M3: the controller removed 2 meanwhile; a success of an older partition epoch must not undo that."""
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
    """I3, R2: it completed a reassignment, and the answer does not say who the replicas are now."""
    h = expanding()
    h.answer(h.take_proposal(1), partition(1, 1, isr=(1, 2, 3), version=1))
    assert isinstance(h.leader().isr_state, PendingExpand)
    h.apply(partition(1, 1, isr=(1, 2, 3), version=1), 1)
    assert h.leader().isr_state.isr == (1, 2, 3)
    assert h.leader().epoch == 1


def test_proposals_of_many_partitions_share_a_request_and_fail_apart() -> None:
    """I3, I4: one in flight; one partition's refusal does not touch the others."""
    h = Harness((1, 2))
    both = [partition(isr=(1,), replicas=(1, 2), index=index) for index in (0, 1)]
    for broker in (1, 2):
        h[broker].manager.apply(both, [], 0)
    h.run()
    send = h.take_proposal(1)
    h.answer(send, error=ErrorCode.ineligible_replica)
    assert [line.partition_index for line in send.request.topics[0].partitions] == [0, 1]
    leaders = [h.leader(index=index) for index in (0, 1)]
    assert [type(leader.isr_state) for leader in leaders] == [Committed, PendingExpand]


def test_without_a_controller_the_proposal_waits() -> None:
    """I3: and is sent once one is known."""
    h = Harness(alter_partition_backoff_ms=50)
    h.shared.controller = -1
    h.apply(partition(isr=(1, 2)), 1)
    h.follower_fetch(1, 3, 0)
    assert h.proposals(1) == []
    h.shared.controller = 9
    h.tick(50)
    assert h.proposals(1)[0].peer == 9


def test_falling_below_min_isr_fails_the_produces_that_wait() -> None:
    """P2, I3: the records stay in the log, their producer is told."""
    h = Harness(min_isr=2)
    h.apply(partition(isr=(1, 2)), 1)
    token = h.produce(1, records(2))
    assert h.produced(1, token) is None
    h.apply(partition(isr=(1,), version=1), 1)
    assert h.produced(1, token) == [(ErrorCode.not_enough_replicas_after_append, -1)]
    assert h[1].replica().log.leo == 2


# --- E7 ---


def test_a_recovering_leader_says_that_it_has_recovered_before_it_expands() -> None:
    """E7, I4: while the partition is recovering its ISR holds only the leader."""
    h = Harness()
    h.apply(partition(isr=(1,), recovering=True), 1)
    h.follower_fetch(1, 2, 0)
    assert h.proposals(1) == []
    h.tick(500)
    assert isinstance(h.leader().isr_state, PendingRecovery)
    line = h.proposals(1)[0].request.topics[0].partitions[0]
    assert (line.leader_recovery_state, [m.broker_id for m in line.new_isr_with_epochs]) == (0, [1])
    h.accept(1, partition(isr=(1,), recovering=True))
    assert not h[1].replica().partition.recovering
    assert isinstance(h.leader().isr_state, PendingExpand)
