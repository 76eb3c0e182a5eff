"""What a leader commits, which fetches it serves, and when it resigns (Q2, Q4, Q5)."""

from __future__ import annotations

import pytest

from insync.errors import InvariantError
from insync.quorum import leader as leaders
from insync.quorum import messages
from insync.quorum.config import QuorumConfig
from insync.sansio import Sync
from insync.wire import batch, control
from insync.wire.errors import ErrorCode
from insync.wire.messages import begin_quorum_epoch, describe_quorum, end_quorum_epoch, vote
from tests.quorum.quorum_harness import QuorumHarness, data, fetch_answer
from tests.quorum.quorum_net_harness import Net

FIVE = (1, 2, 3, 4, 5)


def leader_after(records: bytes, epoch: int) -> QuorumHarness:
    """A leader whose log holds `records`, written by an earlier leader, voter 2, in `epoch`."""
    harness = QuorumHarness()
    harness.answer(harness.follow(2, epoch), fetch_answer(2, epoch, records=records, hwm=0))
    harness.sync()
    return harness.lead()


def test_the_first_record_of_an_epoch_names_its_leader() -> None:
    """Q5: it is a leader-change record, and the epoch cache has its offset."""
    harness = QuorumHarness().lead()
    data = harness.quorum.log.read(0, 1_000, limit_offset=1)
    record = next(batch.records(data))
    message = control.control_message(record)
    assert batch.read_header(data).leader_epoch == 1
    assert message is not None
    assert (message.leader_id, [voter.voter_id for voter in message.granting_voters]) == (1, [1, 2])
    assert harness.quorum.log.epochs.entries == [(1, 0)]


def test_a_leader_counts_itself_only_when_synced() -> None:
    """Q4: an entry in the page cache is not on disk."""
    harness = QuorumHarness(1, (1,))
    assert harness.quorum.hwm == 0
    harness.sync()
    assert harness.quorum.hwm == 1
    last = harness.quorum.propose([b"a"], harness.now)
    harness.collect()
    assert (last, harness.quorum.hwm) == (1, 1)
    harness.sync()
    assert harness.quorum.hwm == 2


def test_a_leader_that_has_not_synced_commits_with_the_others_alone() -> None:
    """Q5: three of five hold it, even if the leader itself is slow."""
    harness = QuorumHarness(1, FIVE)
    harness.tick()
    for _ in ("pre-vote", "vote"):
        info = messages.LeaderInfo(harness.quorum.epoch, -1, ErrorCode.none)
        for send in harness.sends(vote.VoteRequest)[:2]:
            harness.answer(send, messages.vote_response(info, granted=True))
    assert harness.quorum.is_leader
    harness.fetch(2, 1, (1, 1))
    harness.fetch(3, 1, (1, 1))
    assert harness.quorum.hwm == 0
    harness.fetch(4, 1, (1, 1))
    assert harness.quorum.hwm == 1


def test_proposals_made_during_a_sync_share_the_next() -> None:
    """Q2: one sync for many decisions."""
    harness = QuorumHarness(1, (1,))
    harness.sync()
    for number in range(5):
        harness.quorum.propose([b"%d" % number], harness.now)
    harness.collect()
    assert harness.sync() == 1
    assert harness.quorum.hwm == 2
    assert harness.sync() == 1
    assert harness.quorum.hwm == 6
    assert harness.take(Sync) == []


def test_a_proposal_is_one_batch_and_returns_its_last_offset() -> None:
    """Q2: records that belong together are committed together."""
    harness = QuorumHarness(1, (1,))
    harness.sync()
    assert harness.quorum.propose([b"a", b"b", b"c"], harness.now) == 3
    harness.collect()
    harness.sync()
    assert list(harness.quorum.read_committed(0, 4)) == [(1, 1, b"a"), (2, 1, b"b"), (3, 1, b"c")]
    assert list(harness.quorum.read_committed(2, 3)) == [(2, 1, b"b")]


def test_entries_of_an_earlier_epoch_wait_for_one_of_the_leaders_own() -> None:
    """Q5: on a majority they may still be overwritten; together with an entry of this epoch they may not."""
    harness = leader_after(data(0, 1, b"a", b"b"), 1)
    epoch = harness.quorum.epoch
    harness.fetch(2, epoch, (2, 1))
    assert harness.quorum.hwm == 0
    harness.fetch(2, epoch, (3, epoch))
    assert harness.quorum.hwm == 3


def test_a_majority_offset_is_reached_by_a_majority() -> None:
    """Q5: it is the median, for 1, 3 and 5 voters."""
    assert leaders.majority_offset([7], 1) == 7
    assert leaders.majority_offset([9, -1, 4], 2) == 4
    assert leaders.majority_offset([9, 1, 4, 8, -1], 3) == 4


def test_leadership_is_established_once_everything_before_it_is_committed() -> None:
    """Q3: the first decision of a new controller is based on all earlier ones."""
    harness = leader_after(data(0, 1, b"a", b"b"), 1)
    epoch = harness.quorum.epoch
    leader = harness.quorum._state.role
    assert isinstance(leader, leaders.Leader)
    assert not leader.is_established
    harness.fetch(3, epoch, (3, epoch))
    assert leader.is_established
    assert (harness.quorum.hwm, harness.quorum.leo) == (3, 3)


def test_the_high_watermark_does_not_go_back_when_a_voter_lost_its_log() -> None:
    """S7: what is committed stays committed."""
    harness = QuorumHarness().lead()
    harness.fetch(2, 1, (1, 1))
    harness.fetch(2, 1, (0, 0))
    assert harness.quorum.hwm == 1


def test_observers_do_not_count() -> None:
    """Q4: brokers observe, voters decide."""
    harness = QuorumHarness().lead()
    for observer in (8, 9):
        harness.fetch(observer, 1, (1, 1))
    assert harness.quorum.hwm == 0


def test_a_leader_without_a_majority_resigns_at_its_deadline() -> None:
    """Q5: at the time of next_deadline, and not before."""
    harness = QuorumHarness().lead()
    elected = harness.now
    harness.now += 1_000
    harness.fetch(2, 1, (1, 1))
    harness.tick(elected + 1_000 + 2_999)
    assert harness.quorum.is_leader
    harness.tick(elected + 1_000 + 3_000)
    assert harness.quorum.role == "resigned"
    assert harness.notes("quorum_resigned") == [{"epoch": 1, "reason": "no_majority"}]
    assert (harness.quorum.epoch, harness.quorum.leader_id) == (1, -1)


def test_the_time_of_a_leader_starts_when_its_election_is_on_disk() -> None:
    """Q5: no voter has heard of it before, so none can have left it."""
    harness = QuorumHarness()
    harness.tick()
    for is_last in (False, True):
        harness.holds_elections = is_last
        request = harness.sends(vote.VoteRequest)[0]
        granted = messages.vote_response(messages.LeaderInfo(harness.quorum.epoch, -1, ErrorCode.none), granted=True)
        harness.answer(request, granted)
    assert harness.quorum.is_leader
    harness.tick(harness.now + 10_000)
    assert harness.quorum.is_leader
    assert harness.sends(begin_quorum_epoch.BeginQuorumEpochRequest) == []
    harness.sync()
    durable = harness.now
    assert len(harness.sends(begin_quorum_epoch.BeginQuorumEpochRequest)) >= 2
    harness.tick(durable + 2_999)
    assert harness.quorum.is_leader
    harness.tick(durable + 3_000)
    assert harness.quorum.role == "resigned"


def test_in_a_quorum_of_five_two_followers_keep_the_leader() -> None:
    """Q5: with itself they are a majority."""
    net = Net(5, seed=2)
    leader = net.leader()
    for voter in [voter for voter in net.voters if voter != leader.id][:2]:
        net[voter].stop(lossy=False)
    net.run(20_000)
    assert net.leader() is leader
    last = leader.propose(b"still here")
    net.run_until(lambda: leader.quorum.hwm > last)


def test_a_resigned_leader_commits_nothing() -> None:
    """Q5: neither by a sync that ends nor by a fetch that arrives."""
    harness = QuorumHarness().lead()
    harness.quorum.propose([b"a"], harness.now)
    harness.collect()
    harness.quorum.resign(harness.now)
    harness.collect()
    harness.sync()
    token = harness.fetch(2, 1, (2, 1))
    assert harness.fetched(token).error_code is ErrorCode.not_leader_or_follower
    assert harness.quorum.hwm == 0
    with pytest.raises(InvariantError, match="Q1"):
        harness.quorum.propose([b"b"], harness.now)


def test_a_clean_resignation_names_the_best_successor_first() -> None:
    """Q5: the voter with the longest log should stand first."""
    harness = QuorumHarness().lead()
    harness.fetch(2, 1, (0, 0))
    harness.fetch(3, 1, (1, 1))
    harness.quorum.resign(harness.now)
    harness.collect()
    sent = harness.sends(end_quorum_epoch.EndQuorumEpochRequest)
    candidates = sent[0].request.topics[0].partitions[0].preferred_candidates
    assert [send.peer for send in sent] == [2, 3]
    assert [candidate.candidate_id for candidate in candidates] == [3, 2]


@pytest.mark.parametrize("voters", [3, 5])
def test_after_a_clean_resignation_another_leads_well_before_a_fetch_timeout(voters: int) -> None:
    """Q5: no voter has to wait for its fetch timeout."""
    net = Net(voters, seed=3)
    old = net.leader()
    net.run(1_000)
    old.do(lambda: old.quorum.resign(net.now))
    resigned_ms = net.now
    assert net.leader() is not old
    assert net.now - resigned_ms < 1_000


def test_a_fetch_is_parked_until_there_are_records() -> None:
    """Q4: a long poll."""
    harness = QuorumHarness().lead()
    harness.fetch(2, 1, (1, 1))
    token = harness.fetch(2, 1, (1, 1))
    assert token not in harness.replies
    harness.quorum.propose([b"a"], harness.now)
    harness.collect()
    answer = harness.fetched(token)
    assert [record.value for record in batch.records(answer.records)] == [b"a"]
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 1)


def test_a_parked_fetch_is_answered_when_the_high_watermark_moves() -> None:
    """Q4: the follower learns at once what is committed."""
    harness = QuorumHarness().lead()
    harness.fetch(9, 1, (0, 0))
    token = harness.fetch(9, 1, (1, 1))
    assert token not in harness.replies
    harness.fetch(2, 1, (1, 1))
    assert harness.fetched(token).high_watermark == 1


def test_a_parked_fetch_ends_at_its_timeout() -> None:
    """Q4: empty, at the time of next_deadline."""
    harness = QuorumHarness().lead()
    harness.fetch(2, 1, (1, 1), max_wait=0)
    token = harness.fetch(2, 1, (1, 1), max_wait=300)
    assert harness.quorum.next_deadline() == harness.now + 300
    harness.tick(harness.now + 299)
    assert token not in harness.replies
    harness.tick(harness.now + 1)
    assert harness.fetched(token).records == b""


def test_parked_fetches_are_answered_when_leadership_ends() -> None:
    """F3: the replicas can then find the new leader."""
    harness = QuorumHarness().lead()
    harness.fetch(2, 1, (1, 1), max_wait=0)
    token = harness.fetch(2, 1, (1, 1))
    harness.begin(3, 2)
    answer = harness.fetched(token)
    assert answer.error_code is ErrorCode.not_leader_or_follower
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (3, 2)


def test_only_the_leader_of_exactly_this_epoch_serves() -> None:
    """F3: a fetch of an older or newer epoch, or from another leader, gets an error and the known leader."""
    harness = QuorumHarness()
    harness.follow(2, 4)
    token = harness.fetch(3, 4, (0, 0))
    assert harness.fetched(token).error_code is ErrorCode.not_leader_or_follower
    assert harness.fetched(token).current_leader.leader_id == 2
    assert harness.fetched(harness.fetch(3, 3, (0, 0))).error_code is ErrorCode.fenced_leader_epoch
    assert harness.fetched(harness.fetch(3, 5, (0, 0))).error_code is ErrorCode.unknown_leader_epoch
    assert harness.fetched(harness.fetch(3, 4, (-1, 0))).error_code is ErrorCode.invalid_request
    assert harness.fetched(harness.fetch(3, 4, (0, 5))).error_code is ErrorCode.invalid_request


def test_a_refused_fetch_acknowledges_nothing() -> None:
    """F3, Q4: neither one of another epoch nor one that diverges."""
    harness = leader_after(data(0, 1, b"a"), 1)
    epoch = harness.quorum.epoch
    harness.fetch(2, epoch - 1, (2, epoch - 1))
    harness.fetch(2, epoch, (9, epoch))
    harness.fetch(2, epoch, (2, epoch - 1))
    assert harness.quorum.hwm == 0


def test_a_diverging_log_gets_the_point_of_divergence() -> None:
    """D2: the largest epoch not above the requested one, and its end here."""
    harness = leader_after(data(0, 1, b"a") + data(1, 3, b"b"), 3)
    epoch = harness.quorum.epoch
    for end, expected in [((5, 1), (1, 1)), ((4, 2), (1, 1)), ((7, 3), (2, 3)), ((9, epoch), (3, epoch))]:
        answer = harness.fetched(harness.fetch(2, epoch, end)).diverging_epoch
        assert (answer.end_offset, answer.epoch) == expected


def test_the_leader_names_itself_to_voters_until_they_fetch() -> None:
    """Q4: a voter that does not know the leader would stand for election."""
    harness = QuorumHarness().lead()
    sent = harness.sends(begin_quorum_epoch.BeginQuorumEpochRequest)
    assert [send.peer for send in sent] == [2, 3]
    harness.now += 900
    harness.fetch(2, 1, (1, 1), max_wait=0)
    harness.tick()
    sent = harness.sends(begin_quorum_epoch.BeginQuorumEpochRequest)
    assert [send.peer for send in sent] == [3]


def test_a_leader_that_hears_of_a_later_epoch_steps_down() -> None:
    """S12: there is one leader per epoch, and the later epoch counts."""
    harness = QuorumHarness().lead()
    sent = harness.sends(begin_quorum_epoch.BeginQuorumEpochRequest)
    info = messages.LeaderInfo(6, -1, ErrorCode.fenced_leader_epoch)
    harness.answer(sent[0], messages.begin_response(info))
    assert (harness.quorum.role, harness.quorum.epoch) == ("unattached", 6)


def test_describe_quorum_shows_voters_and_observers() -> None:
    """Q1: the leader, and the log end of each replica."""
    harness = QuorumHarness().lead()
    harness.fetch(2, 1, (1, 1))
    harness.fetch(9, 1, (0, 0))
    harness.quorum.handle_describe_quorum(describe_quorum.DescribeQuorumRequest(topics=()), 99, harness.now)
    harness.collect()
    partition = harness.replies[99].topics[0].partitions[0]
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 1, 1)
    assert [(voter.replica_id, voter.log_end_offset) for voter in partition.current_voters] == [(1, 1), (2, 1), (3, -1)]
    assert [(observer.replica_id, observer.log_end_offset) for observer in partition.observers] == [(9, 0)]


def test_describe_quorum_has_wall_clock_timestamps_and_addresses() -> None:
    """Q1: the timestamps of a replica that never fetched are -1."""
    config = QuorumConfig(wall_offset_ms=1_700_000_000_000, addresses={2: ("two", 9093), 1: ("one", 9093)})
    harness = QuorumHarness(config=config).lead()
    harness.fetch(2, 1, (1, 1))
    answer = harness.quorum.describe(harness.now)
    leader, caught_up, unknown = answer.topics[0].partitions[0].current_voters
    wall_ms = 1_700_000_000_000 + harness.now
    assert (leader.last_fetch_timestamp, leader.last_caught_up_timestamp) == (-1, wall_ms)
    assert (caught_up.last_fetch_timestamp, caught_up.last_caught_up_timestamp) == (wall_ms, wall_ms)
    assert (unknown.last_fetch_timestamp, unknown.last_caught_up_timestamp) == (-1, -1)
    assert [(node.node_id, node.listeners[0].host) for node in answer.nodes] == [(1, "one"), (2, "two")]
    harness.quorum.propose([b"a"], harness.now)
    assert [header.max_timestamp for header in harness.quorum.log.iter_headers(0, 2)][-1] == wall_ms


def test_an_observer_that_stopped_fetching_is_forgotten() -> None:
    """Q1: after its session."""
    harness = QuorumHarness(1, (1,))
    harness.sync()
    harness.fetch(9, 1, (1, 1))
    harness.now += 300_001
    harness.fetch(8, 1, (1, 1))
    harness.quorum.handle_describe_quorum(describe_quorum.DescribeQuorumRequest(topics=()), 99, harness.now)
    harness.collect()
    partition = harness.replies[99].topics[0].partitions[0]
    assert [observer.replica_id for observer in partition.observers] == [8]
    harness.tick(harness.now + 500)
    assert len(harness.replies) == 3


def test_only_the_leader_answers_describe_quorum() -> None:
    """Q1: a follower does not know."""
    harness = QuorumHarness()
    harness.quorum.handle_describe_quorum(describe_quorum.DescribeQuorumRequest(topics=()), 99, harness.now)
    harness.collect()
    assert harness.replies[99].topics[0].partitions[0].error_code is ErrorCode.not_leader_or_follower


def test_uncommitted_entries_of_a_deposed_leader_vanish() -> None:
    """Q2: they were never acknowledged, and the next leader overwrites them."""
    net = Net(3, seed=4)
    old = net.leader()
    net.run(1_000)
    net.isolate(old.id)
    lost = old.propose(b"lost")
    net.run(6_000)
    new = net.leader()
    kept = new.propose(b"kept")
    net.run_until(lambda: net.hwm > kept)
    net.heal()
    net.run_until(lambda: old.applied > kept)
    assert lost <= kept
    assert old.image == [b"kept"]
    assert net.noted("quorum_truncated", old.id)
