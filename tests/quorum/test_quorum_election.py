"""Which votes are granted, and when a voter stands for election (Q4)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from insync.quorum import messages, state_file
from insync.quorum.config import QuorumConfig
from insync.sansio import Outbox, Reply, Send
from insync.wire.errors import ErrorCode
from insync.wire.messages import end_quorum_epoch, fetch, vote
from tests.quorum.quorum_harness import QuorumHarness, data, fetch_answer
from tests.quorum.quorum_net_harness import DIRECTORY, Net

STATE = f"{DIRECTORY}/quorum-state"


def test_a_quorum_of_one_elects_itself_at_once() -> None:
    """Q1: one voter is a majority."""
    harness = QuorumHarness(1, (1,))
    assert harness.quorum.is_leader
    assert (harness.quorum.epoch, harness.quorum.leader_id) == (1, 1)
    assert harness.take(Send) == []


def test_a_voter_gives_one_vote_per_epoch() -> None:
    """Q4: the second candidate of an epoch gets no vote, the first may ask again."""
    harness = QuorumHarness()
    assert harness.vote(2, 5).vote_granted
    assert not harness.vote(3, 5).vote_granted
    assert harness.vote(2, 5).vote_granted
    assert harness.vote(3, 6).vote_granted


def test_a_vote_is_on_disk_before_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Q4: the candidate may rely on the answer."""
    harness = QuorumHarness()
    order: list[str] = []
    persist, reply = state_file.persist, Outbox.reply

    def record_persist(*arguments: Any) -> None:
        order.append("disk")
        persist(*arguments)

    def record_reply(*arguments: Any) -> None:
        order.append("answer")
        reply(*arguments)

    monkeypatch.setattr(state_file, "persist", record_persist)
    monkeypatch.setattr(Outbox, "reply", record_reply)
    harness.vote(2, 5)
    assert order[-2:] == ["disk", "answer"]
    state, _ = state_file.load_if_sound(harness.disk, STATE)
    assert state is not None
    assert state.voted_id == 2


def test_a_vote_survives_a_power_loss() -> None:
    """Q4: even the first vote of a new voter, whose directory was just created."""
    for seed in range(20):
        harness = QuorumHarness()
        assert harness.vote(2, 5).vote_granted
        harness.disk.lossy_crash(random.Random(seed))
        again = QuorumHarness(disk=harness.disk)
        assert not again.vote(3, 5).vote_granted


def test_no_vote_for_a_log_that_is_behind() -> None:
    """Q4: the later last epoch wins, then the longer log."""
    harness = QuorumHarness().intact()
    harness.answer(harness.follow(2, 4), fetch_answer(2, 4, records=data(0, 3, b"a", b"b") + data(2, 4, b"c"), hwm=0))
    assert not harness.vote(3, 5, (9, 3)).vote_granted
    assert not harness.vote(3, 6, (2, 4)).vote_granted
    assert harness.notes("quorum_vote_refused")[-1]["reason"] == "log_behind"
    assert harness.vote(3, 7, (3, 4)).vote_granted
    assert harness.vote(3, 8, (1, 5)).vote_granted


def test_a_voter_of_an_epoch_with_a_leader_gives_no_vote_in_it() -> None:
    """Q4, S12: the epoch has its leader."""
    harness = QuorumHarness()
    harness.follow(2, 4)
    assert not harness.vote(3, 4).vote_granted


def test_a_pre_vote_changes_nothing() -> None:
    """Q4: it is a question, not a vote; another candidate may get the same answer."""
    harness = QuorumHarness()
    before = (harness.quorum.epoch, harness.quorum.role, harness.quorum.next_deadline())
    assert harness.vote(2, 0, pre=True).vote_granted
    assert harness.vote(3, 0, pre=True).vote_granted
    assert (harness.quorum.epoch, harness.quorum.role, harness.quorum.next_deadline()) == before
    assert not harness.disk.exists(STATE)


def test_a_follower_that_hears_from_its_leader_refuses_pre_votes() -> None:
    """Q4: it grants them once it has given up the leader itself."""
    harness = QuorumHarness()
    harness.answer(harness.follow(2, 4), fetch_answer(2, 4, hwm=0))
    assert not harness.vote(3, 4, pre=True).vote_granted
    harness.tick(harness.now + 2_000)
    assert harness.quorum.role == "prospective"
    assert harness.vote(3, 4, pre=True).vote_granted


def test_a_leader_refuses_pre_votes() -> None:
    """Q4: a leader is not unseated by a question."""
    harness = QuorumHarness().lead()
    assert not harness.vote(3, harness.quorum.epoch, (9, harness.quorum.epoch), pre=True).vote_granted
    assert harness.quorum.is_leader


def test_the_epoch_rises_only_after_a_majority_of_pre_votes() -> None:
    """Q4: a voter without answers stays in its epoch."""
    net = Net(3)
    net.leader()
    epoch = net[3].quorum.epoch
    net.isolate(3)
    net.run(60_000)
    assert net[3].quorum.epoch == epoch
    assert net[3].quorum.role == "prospective"
    net.heal()
    net.run(5_000)
    assert net[3].quorum.epoch == epoch
    assert net[3].quorum.role == "follower"


def test_a_voter_that_was_paused_does_not_unseat_the_leader() -> None:
    """Q4: its timers are long past when it wakes, but its pre-vote is refused."""
    net = Net(3)
    leader = net.leader()
    sleeper = next(peer for peer in net.peers.values() if peer is not leader)
    sleeper.paused = True
    net.run(12_000)
    sleeper.paused = False
    sleeper.do(lambda: sleeper.quorum.tick(net.now))
    assert sleeper.quorum.role == "prospective"
    net.run(3_000)
    assert net.leader() is leader
    assert (sleeper.quorum.role, sleeper.quorum.leader_id) == ("follower", leader.id)
    assert list(net.leader_of.values()) == [leader.id]


def test_a_doubting_voter_follows_again_when_the_leader_alone_answers() -> None:
    """Q4: with the third voter down, one refusal is no majority, but the leader is evidently alive."""
    harness = QuorumHarness()
    harness.answer(harness.follow(2, 4), fetch_answer(2, 4, hwm=0))
    harness.tick(harness.now + 2_000)
    request = next(send for send in harness.sends(vote.VoteRequest) if send.peer == 2)
    harness.answer(request, messages.vote_response(messages.LeaderInfo(4, 2, ErrorCode.none), granted=False))
    assert (harness.quorum.role, harness.quorum.leader_id) == ("follower", 2)


def test_a_late_answer_to_an_old_round_counts_for_nothing() -> None:
    """Q4: votes of one epoch do not elect in another."""
    harness = QuorumHarness()
    harness.tick()
    for send in harness.sends(vote.VoteRequest)[:1]:
        harness.answer(send, messages.vote_response(messages.LeaderInfo(0, -1, ErrorCode.none), granted=True))
    old = harness.sends(vote.VoteRequest)
    assert harness.quorum.role == "candidate"
    harness.vote(3, 7)
    for send in old:
        harness.answer(send, messages.vote_response(messages.LeaderInfo(1, -1, ErrorCode.none), granted=True))
    assert (harness.quorum.role, harness.quorum.epoch) == ("unattached", 7)


def test_a_candidate_that_loses_waits_and_asks_again() -> None:
    """Q4: after a random pause, with a pre-vote first, in the same epoch."""
    harness = QuorumHarness()
    harness.tick()
    harness.answer(harness.sends(vote.VoteRequest)[0], granted(0))
    for send in harness.sends(vote.VoteRequest):
        harness.answer(send, messages.vote_response(messages.LeaderInfo(1, -1, ErrorCode.none), granted=False))
    assert (harness.quorum.role, harness.quorum.epoch) == ("unattached", 1)
    assert harness.now < (harness.quorum.next_deadline() or 0) <= harness.now + 1_001
    harness.tick()
    assert [send.request.topics[0].partitions[0].pre_vote for send in harness.sends(vote.VoteRequest)] == [True, True]


def granted(epoch: int) -> object:
    return messages.vote_response(messages.LeaderInfo(epoch, -1, ErrorCode.none), granted=True)


def test_a_second_leader_of_one_epoch_is_refused() -> None:
    """S12, Q8: the first has shown that it leads; a request that names another changes nothing, and is noted once."""
    harness = QuorumHarness()
    harness.answer(harness.follow(2, 4), fetch_answer(2, 4, hwm=0))
    for _ in range(3):
        assert harness.begin(3, 4).error_code is ErrorCode.invalid_request
        assert harness.end(3, 4, (1,)).error_code is ErrorCode.invalid_request
    assert (harness.quorum.epoch, harness.quorum.leader_id, harness.quorum.role) == (4, 2, "follower")
    assert [note["reason"] for note in harness.notes("quorum_claim_refused")] == ["other_leader"]


def test_a_leader_that_never_answered_gives_way_to_another_of_its_epoch() -> None:
    """S12: the first claim may be false; the voter that really leads must not be shut out."""
    harness = QuorumHarness()
    harness.follow(2, 4)
    assert harness.begin(3, 4).error_code is ErrorCode.none
    assert (harness.quorum.epoch, harness.quorum.leader_id) == (4, 3)


def test_a_leader_that_restarts_neither_leads_nor_votes_in_its_epoch() -> None:
    """Q5: entries that it had not synced are lost here and may exist elsewhere with the same epoch and offset."""
    harness = QuorumHarness().lead()
    epoch = harness.quorum.epoch
    harness.disk.lossy_crash(random.Random(3))
    again = QuorumHarness(disk=harness.disk)
    assert (again.quorum.role, again.quorum.epoch, again.quorum.leader_id) == ("resigned", epoch, -1)
    assert [send.peer for send in again.sends(end_quorum_epoch.EndQuorumEpochRequest)] == [2, 3]
    assert not again.vote(3, epoch, (9, epoch - 1)).vote_granted
    again.tick()
    assert again.quorum.role == "prospective"


def test_a_follower_that_restarts_fetches_from_the_leader_it_knew() -> None:
    """Q6: it continues where it was, without an election."""
    harness = QuorumHarness()
    harness.follow(2, 4)
    again = QuorumHarness(disk=harness.disk)
    assert [send.peer for send in again.sends(fetch.FetchRequest)] == [2]


def test_a_voter_that_starts_without_a_leader_asks_within_one_election_timeout() -> None:
    """Q4: a pre-vote unseats no leader, so the first need not wait; later ones wait longer."""
    harness = QuorumHarness()
    first = harness.quorum.next_deadline()
    assert first is not None
    assert harness.now < first <= harness.now + QuorumConfig().election_timeout_ms
    harness.tick(first)
    assert [send.request.topics[0].partitions[0].pre_vote for send in harness.sends(vote.VoteRequest)] == [True, True]
    second = harness.quorum.next_deadline()
    assert second is not None
    assert second >= first + QuorumConfig().election_timeout_ms


def test_requests_that_are_not_for_this_voter_are_refused() -> None:
    """Q4: an older epoch, a node that is not a voter, another cluster, another topic, an impossible log."""
    harness = QuorumHarness()
    harness.vote(2, 5)
    assert harness.vote(2, 4).error_code is ErrorCode.fenced_leader_epoch
    assert harness.vote(9, 6).error_code is ErrorCode.inconsistent_voter_set
    assert harness.vote(2, 6, (0, 6)).error_code is ErrorCode.invalid_request
    assert harness.quorum.epoch == 5
    foreign = messages.vote_request("other", 1, 2, 6, messages.OffsetAndEpoch(0, 0), pre_vote=False)
    harness.quorum.handle_vote(foreign, 77, harness.now)
    harness.quorum.handle_vote(vote.VoteRequest(cluster_id=None, voter_id=1, topics=()), 78, harness.now)
    replies = {effect.token: effect.response for effect in harness.out.drain() if isinstance(effect, Reply)}
    errors = {token: response.error_code for token, response in replies.items() if response is not None}
    assert errors == {77: ErrorCode.inconsistent_cluster_id, 78: ErrorCode.invalid_request}


def test_an_observer_does_not_vote() -> None:
    """Q4: only voters do."""
    harness = QuorumHarness(9)
    assert harness.vote(2, 5).error_code is ErrorCode.inconsistent_voter_set


def test_a_hopeless_candidate_does_not_delay_a_voters_own_campaign() -> None:
    """Q4: a voter that refuses keeps its timer."""
    harness = QuorumHarness()
    harness.answer(harness.follow(2, 4), fetch_answer(2, 4, records=data(0, 4, b"a"), hwm=0))
    harness.vote(3, 5)
    due = harness.quorum.next_deadline()
    harness.now += 10
    assert not harness.vote(3, 6).vote_granted
    assert harness.quorum.next_deadline() == due


@pytest.mark.parametrize("voters", [3, 5])
def test_a_dead_leader_is_replaced(voters: int) -> None:
    """Q1: as long as a majority is alive."""
    net = Net(voters, seed=5)
    for _ in range(voters // 2):
        leader = net.leader()
        leader.stop(lossy=True)
        assert net.leader() is not leader


@pytest.mark.parametrize("role", ["unattached", "prospective", "follower", "leader", "resigned"])
def test_a_tick_before_the_deadline_or_again_at_it_does_nothing(role: str) -> None:
    """Q4: a simulator jumps from deadline to deadline."""
    harness = QuorumHarness()
    if role == "prospective":
        harness.tick()
    elif role == "follower":
        harness.answer(harness.follow(2, 4), None)
    elif role in ("leader", "resigned"):
        harness.lead()
    if role == "resigned":
        harness.quorum.resign(harness.now)
        harness.collect()
    assert harness.quorum.role == role
    harness.effects.clear()
    due = harness.quorum.next_deadline() or 0
    harness.tick(due - 1)
    assert harness.effects == []
    harness.tick(due)
    assert harness.effects != []
    harness.effects.clear()
    harness.tick(due)
    assert harness.effects == []


@pytest.mark.parametrize("disk_ms", [100, 800, 1_600])
def test_a_leader_is_elected_on_a_disk_slower_than_the_election_timeout(disk_ms: int) -> None:
    """Q4: messages wait until the vote is on disk, and the timeouts allow for that."""
    config = QuorumConfig(election_timeout_ms=150, election_backoff_max_ms=100, fetch_max_wait_ms=150)
    net = Net(3, config=config, start=False)
    net.sync_delay = (disk_ms, disk_ms + 20)
    for peer in net.peers.values():
        peer.start()
    last = net.leader().propose(b"written slowly")
    net.run_until(lambda: all(peer.quorum.hwm > last for peer in net.peers.values()))
    epoch = net.leader().quorum.epoch
    net.run(60_000)
    assert net.leader().quorum.epoch == epoch, "the leader stays"


def test_election_timeouts_are_as_configured_on_a_fast_disk_and_bounded_on_a_slow_one() -> None:
    """Q4: one slow write is forgotten after a while."""
    state = QuorumHarness().quorum._state
    timeouts = state.timeouts
    assert timeouts.election_timeout_ms() == state.config.election_timeout_ms
    timeouts.record_write(60_000)
    assert timeouts.election_timeout_ms() == state.config.election_timeout_max_ms
    for _ in range(60):
        timeouts.record_write(2)
    assert timeouts.election_timeout_ms() == state.config.election_timeout_ms
