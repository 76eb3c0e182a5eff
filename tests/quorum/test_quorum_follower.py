"""Followers and observers keep their log a copy of the leader's (Q4, D3)."""

from __future__ import annotations

from insync.quorum import messages
from insync.quorum.messages import LeaderInfo, OffsetAndEpoch
from insync.sansio import Send
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch
from tests.quorum.quorum_harness import QuorumHarness, data, fetch_answer
from tests.quorum.quorum_net_harness import Net


def position(send: Send) -> tuple[int, int]:
    partition = send.request.topics[0].partitions[0]
    return partition.fetch_offset, partition.last_fetched_epoch


def refused(error: ErrorCode, epoch: int, leader: int) -> object:
    return messages.fetch_response(LeaderInfo(epoch, leader, error))


def test_a_follower_fetches_on_only_after_its_append_is_synced() -> None:
    """Q4: the next fetch offset acknowledges the records; it must not leave before they are synced."""
    harness = QuorumHarness()
    harness.answer(harness.follow(2, 4), fetch_answer(2, 4, records=data(0, 4, b"a", b"b"), hwm=1))
    assert harness.sends(fetch.FetchRequest) == []
    assert harness.quorum.leo == 2
    harness.sync()
    (send,) = harness.sends(fetch.FetchRequest)
    assert position(send) == (2, 4)


def test_a_restarted_follower_syncs_its_log_before_it_acknowledges_it() -> None:
    """Q4: entries that survived the process in the page cache may not survive the machine."""
    harness = QuorumHarness()
    harness.answer(harness.follow(2, 4), fetch_answer(2, 4, records=data(0, 4, b"a"), hwm=0))
    harness.disk.crash()
    again = QuorumHarness(disk=harness.disk)
    assert again.quorum.leo == 1
    assert again.sends(fetch.FetchRequest) == []
    again.sync()
    assert [position(send) for send in again.sends(fetch.FetchRequest)] == [(1, 4)]


def test_the_high_watermark_of_a_follower_is_not_above_its_own_log() -> None:
    """F5: it is the lower of the leader's high watermark and the follower's LEO."""
    harness = QuorumHarness()
    harness.answer(harness.follow(2, 4), fetch_answer(2, 4, records=data(0, 4, b"a"), hwm=7))
    harness.sync()
    assert harness.quorum.hwm == 1
    assert list(harness.quorum.read_committed(0, 1)) == [(0, 4, b"a")]


def test_a_lower_high_watermark_of_a_new_leader_takes_nothing_back() -> None:
    """S7: a new leader may not know yet what is committed; the follower does."""
    harness = QuorumHarness()
    harness.answer(harness.follow(2, 4), fetch_answer(2, 4, records=data(0, 4, b"a"), hwm=1))
    harness.sync()
    harness.answer(harness.follow(3, 5), fetch_answer(3, 5, hwm=0))
    assert harness.quorum.hwm == 1


def test_a_follower_truncates_to_what_both_logs_may_share() -> None:
    """D3: the end of the newest epoch not above the leader's, and not past the leader's end of it."""
    for theirs, expected in [((2, 1), 2), ((9, 1), 3), ((5, 2), 3), ((4, 3), 4), ((9, 3), 5)]:
        harness = QuorumHarness()
        records = data(0, 1, b"a") + data(1, 1, b"b") + data(2, 1, b"c") + data(3, 3, b"d") + data(4, 3, b"e")
        harness.answer(harness.follow(2, 3), fetch_answer(2, 3, records=records, hwm=0))
        harness.sync()
        harness.answer(harness.follow(3, 4), fetch_answer(3, 4, diverging=OffsetAndEpoch(*theirs), hwm=9))
        assert harness.quorum.leo == expected
        assert harness.quorum.hwm == 0
        (send,) = harness.sends(fetch.FetchRequest)
        assert position(send) == (expected, 1 if expected <= 3 else 3)


def test_nothing_in_common_leaves_an_empty_log() -> None:
    """D3: all epochs of the leader are older than the follower's."""
    harness = QuorumHarness()
    harness.answer(harness.follow(2, 3), fetch_answer(2, 3, records=data(0, 3, b"a"), hwm=0))
    harness.sync()
    harness.answer(harness.follow(3, 4), fetch_answer(3, 4, diverging=OffsetAndEpoch(0, 1)))
    assert harness.quorum.leo == 0


def test_a_committed_entry_is_never_truncated() -> None:
    """S7, Q8: a leader that asks for it has lost it. The follower keeps it and reports it."""
    harness = QuorumHarness()
    harness.answer(harness.follow(2, 3), fetch_answer(2, 3, records=data(0, 3, b"a") + data(1, 3, b"b"), hwm=2))
    harness.sync()
    harness.answer(harness.follow(3, 4), fetch_answer(3, 4, diverging=OffsetAndEpoch(1, 3)))
    assert harness.quorum.leo == 2
    assert [finding.kind for finding in harness.findings.current()] == ["metadata_contradiction"]
    harness.tick()
    harness.answer(harness.sends(fetch.FetchRequest)[-1], fetch_answer(3, 4, hwm=2))
    assert harness.findings.current() == []


def test_a_sync_that_began_before_a_truncation_does_not_count() -> None:
    """Q4: it synced other entries; those in their place are not synced yet."""
    harness = QuorumHarness()
    harness.answer(harness.follow(2, 3), fetch_answer(2, 3, records=data(0, 3, b"a") + data(1, 3, b"b"), hwm=0))
    harness.begin(3, 4)
    state = harness.quorum._state
    state.truncate_to(1)
    state.log.append_as_follower(data(1, 4, b"x"))
    harness.sync()
    assert harness.sends(fetch.FetchRequest) == []
    assert state.acknowledged() < 2
    harness.sync()
    assert [position(send) for send in harness.sends(fetch.FetchRequest)] == [(2, 4)]


def test_a_late_answer_of_an_old_leader_is_dropped() -> None:
    """F6: its log may have diverged from the new leader's."""
    harness = QuorumHarness()
    late = harness.follow(2, 3)
    harness.follow(3, 4)
    harness.answer(late, fetch_answer(2, 3, records=data(0, 3, b"a"), hwm=1))
    assert (harness.quorum.leo, harness.quorum.hwm, harness.quorum.leader_id) == (0, 0, 3)


def test_damaged_records_are_not_stored_but_fetched_again() -> None:
    """F5: all or nothing."""
    harness = QuorumHarness()
    broken = bytearray(data(0, 4, b"abc"))
    broken[-2] ^= 1
    harness.answer(harness.follow(2, 4), fetch_answer(2, 4, records=bytes(broken), hwm=1))
    assert harness.quorum.leo == 0
    harness.tick()
    (send,) = harness.sends(fetch.FetchRequest)
    harness.answer(send, fetch_answer(2, 4, records=data(0, 4, b"abc"), hwm=1))
    harness.sync()
    assert harness.quorum.hwm == 1


def test_a_silent_leader_is_asked_again_until_the_fetch_timeout() -> None:
    """Q4: the follower stands for election a fetch timeout after the last good answer, and not before."""
    harness = QuorumHarness()
    start_ms = harness.now
    send = harness.follow(2, 4)
    while harness.quorum.role == "follower":
        harness.answer(send, None)
        while harness.quorum.role == "follower" and not (again := harness.sends(fetch.FetchRequest)):
            harness.tick()
        send = again[0] if harness.quorum.role == "follower" else send
    assert harness.now == start_ms + 2_000
    assert harness.quorum.role == "prospective"


def test_a_leader_that_ends_its_epoch_lets_the_first_successor_stand_at_once() -> None:
    """Q5: the others wait their turn, and grant their votes meanwhile."""
    harness = QuorumHarness()
    harness.answer(harness.follow(2, 4), fetch_answer(2, 4, hwm=0))
    harness.end(2, 4, (3, 1))
    assert harness.quorum.next_deadline() == harness.now + 500
    assert harness.vote(3, 4, pre=True).vote_granted
    harness = QuorumHarness()
    harness.answer(harness.follow(2, 4), fetch_answer(2, 4, hwm=0))
    harness.end(2, 4, (1, 3))
    assert harness.quorum.next_deadline() == harness.now
    harness.tick()
    assert harness.quorum.role == "prospective"


def test_an_observer_asks_the_voters_in_turn_until_one_knows_the_leader() -> None:
    """Q4: it cannot stand for election, so it has to find the leader."""
    harness = QuorumHarness(9)
    peers = []
    for _ in range(2):
        (send,) = harness.sends(fetch.FetchRequest)
        peers.append(send.peer)
        harness.answer(send, None)
        harness.tick()
    (send,) = harness.sends(fetch.FetchRequest)
    peers.append(send.peer)
    assert peers == [1, 2, 3]
    harness.answer(send, refused(ErrorCode.fenced_leader_epoch, 4, 2))
    (send,) = harness.sends(fetch.FetchRequest)
    assert (send.peer, harness.quorum.epoch, harness.quorum.leader_id) == (2, 4, 2)


def test_an_observer_whose_leader_is_silent_asks_the_others() -> None:
    """Q4: there may be a new one."""
    harness = QuorumHarness(9)
    harness.answer(harness.sends(fetch.FetchRequest)[0], refused(ErrorCode.fenced_leader_epoch, 4, 1))
    harness.answer(harness.sends(fetch.FetchRequest)[0], None)
    harness.tick()
    (send,) = harness.sends(fetch.FetchRequest)
    assert send.peer != 1
    harness.answer(send, refused(ErrorCode.fenced_leader_epoch, 5, 3))
    assert (harness.quorum.epoch, harness.quorum.leader_id, harness.quorum.role) == (5, 3, "follower")


def test_an_observer_reads_what_is_committed_and_finds_a_new_leader() -> None:
    """Q4, Q6: through a change of leader."""
    net = Net(3, observers=2, seed=6)
    first = net.leader()
    last = first.propose(b"one")
    net.run_until(lambda: all(peer.applied > last for peer in net.peers.values()))
    first.stop(lossy=False)
    last = net.leader().propose(b"two", b"three")
    net.run_until(lambda: all(peer.applied > last for peer in net.peers.values() if peer.up))
    assert net[4].image == net[5].image == [b"one", b"two", b"three"]


def test_a_commit_reaches_an_observer_without_waiting_for_a_poll_to_end() -> None:
    """Q4: parked fetches are answered when the high watermark advances."""
    net = Net(3, observers=1, seed=8)
    leader = net.leader()
    net.run(2_000)
    start_ms = net.now
    last = leader.propose(b"now")
    net.run_until(lambda: net[4].applied > last)
    assert net.now - start_ms < 40
