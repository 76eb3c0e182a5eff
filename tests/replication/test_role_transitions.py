"""Replica transitions by materialised metadata."""

from __future__ import annotations

from uuid import UUID

from insync.replication.follower import Follower
from insync.replication.leader import Leader
from insync.replication.replica import IDLE
from insync.wire.errors import ErrorCode
from tests.replication.replication_harness import (
    TOPIC,
    TOPIC_ID,
    Harness,
    epochs_of,
    follower_request,
    partition,
    records,
)


def test_a_new_leader_starts_its_epoch_at_its_leo_without_follower_state() -> None:
    """T1: it leaves the fetcher, LESO = LEO, the epoch is recorded, all follower state is unknown."""
    h = Harness()
    h.apply(partition())
    h.write(1, 2)
    h.run()
    h.apply(partition(2, 1, version=1), 2)
    leader = h.leader(2)
    assert (leader.epoch, leader.leso) == (1, 2)
    assert h[2].replica().log.epochs.entries[-1] == (1, 2)
    assert [(p.leo, p.broker_epoch, p.fetched_in_epoch) for p in leader.followers.values()] == [(-1, -1, False)] * 2
    assert h[2].notes_of("became_leader") == [{"partition": "t-0", "epoch": 1, "leso": 2, "isr": (1, 2, 3)}]
    h.now += 1000
    h[2].manager.tick(h.now)
    h[2].collect()
    assert [send for send in h[2].sends if send.peer == 1 and send.request.session_epoch != 1] == []


def test_the_sole_member_of_the_isr_commits_its_log_when_it_becomes_leader() -> None:
    """T1, H2."""
    h = Harness()
    h.apply(partition())
    h.write(1, 2)
    h.run()
    h.apply(partition(2, 1, version=1, isr=(2,)), 2)
    assert h[2].replica().log.hwm == 2


def test_a_leader_in_the_same_epoch_applies_isr_and_replicas_and_rechecks_the_hwm() -> None:
    """T2: a shrink by the controller lets the HWM move; known followers keep their state, new ones start unknown."""
    h = Harness((1, 2, 3, 4))
    h.apply(partition(), 1)
    h.write(1)
    h.follower_fetch(1, 2, 1)
    assert h[1].replica().log.hwm == 0
    h.apply(partition(version=1, isr=(1, 2), replicas=(1, 2, 4)), 1)
    leader = h.leader()
    assert h[1].replica().log.hwm == 1
    assert {broker: p.leo for broker, p in leader.followers.items()} == {2: 1, 4: -1}
    assert leader.leso == 0


def test_a_leader_in_a_new_epoch_forgets_its_followers_and_starts_a_new_leso() -> None:
    """T3: it may have been deposed in between; waiting produces keep waiting."""
    h = Harness()
    h.apply(partition(), 1)
    token = h.produce(1, records(2))
    h.follower_fetch(1, 2, 2)
    h.apply(partition(1, 2, version=3), 1)
    leader = h.leader()
    assert (leader.epoch, leader.leso) == (2, 2)
    assert all(not p.fetched_in_epoch and p.leo == -1 for p in leader.followers.values())
    assert h.produced(1, token) is None
    h.follower_fetch(1, 2, 2, epoch=2)
    h.follower_fetch(1, 3, 2, epoch=2)
    assert h.produced(1, token) == [(ErrorCode.none, 0)]


def test_a_re_elected_leader_does_not_commit_by_a_members_leo_of_an_earlier_epoch() -> None:
    """T3, H1: while another led, the member may have truncated what this leader believes it holds."""
    h = Harness()
    h.apply(partition())
    h.write(1, 2)
    h.follower_fetch(1, 2, 2)
    h.follower_fetch(1, 3, 0)
    h.apply(partition(3, 1, version=1), 2, 3)
    h.apply(partition(1, 2, version=2), 1)
    h.follower_fetch(1, 3, 2, epoch=2)
    assert h[1].replica().log.hwm == 0
    h.follower_fetch(1, 2, 2, epoch=2)
    assert h[1].replica().log.hwm == 2


def with_waiting_requests() -> tuple[Harness, int, int]:
    """A leader with a produce that waits for its followers, and a parked fetch."""
    h = Harness()
    h.apply(partition(), 1)
    token = h.produce(1, records(1))
    return h, token, h.fetch(1, follower_request(h.shared, 2, 1, max_wait=500))


def test_a_deposed_leader_fails_its_waiting_produces_and_follows() -> None:
    """T4: a parked fetch is answered at once."""
    h, token, fetch = with_waiting_requests()
    assert h.fetched(1, fetch) is None
    h.apply(partition(2, 1, version=1), 1)
    assert h.produced(1, token) == [(ErrorCode.not_leader_or_follower, -1)]
    entry = h.fetched_partition(1, fetch)
    assert entry.error_code is ErrorCode.not_leader_or_follower
    assert (entry.current_leader.leader_id, entry.current_leader.leader_epoch) == (2, 1)
    (send,) = [send for send in h[1].sends if send.channel == "fetch"]
    position = send.request.topics[0].partitions[0]
    assert (send.peer, position.current_leader_epoch, position.fetch_offset, position.last_fetched_epoch) == (
        2,
        1,
        1,
        0,
    )
    assert isinstance(h[1].replica().role, Follower)


def test_a_follower_in_the_same_epoch_does_nothing() -> None:
    """T5: an ISR change does not concern it."""
    h = Harness()
    h.apply(partition())
    h.collect_all()
    sent = len(h[2].sends)
    role = h[2].replica().role
    h.apply(partition(version=1, isr=(1, 2)), 2)
    assert h[2].replica().role is role
    assert len(h[2].sends) == sent
    assert h[2].replica().partition.partition_epoch == 1


def test_a_follower_in_a_new_epoch_of_the_same_leader_fetches_in_that_epoch() -> None:
    """T6, F6."""
    h = Harness()
    h.apply(partition())
    h.run()
    h.apply(partition(1, 1, version=1))
    h.run_past_fetch_wait()
    assert h.leader().followers[2].fetched_in_epoch
    role = h[2].replica().role
    assert isinstance(role, Follower)
    assert role.epoch == 1


def test_a_follower_moves_to_the_fetcher_of_a_new_leader() -> None:
    """T6, F6: it replicates from the new leader."""
    h = Harness()
    h.apply(partition())
    h.write(1)
    h.run()
    h.apply(partition(2, 1, version=1, isr=(2, 3)))
    h.write(2)
    h.run_past_fetch_wait()
    assert epochs_of(h[3].replica()) == [0, 1]


def test_without_a_leader_a_replica_is_idle_and_keeps_its_log() -> None:
    """T4: there is no leader to follow."""
    h = Harness()
    h.apply(partition())
    h.write(1)
    h.run()
    h.apply(partition(-1, 1, version=1, isr=()))
    assert h[1].replica().role is IDLE
    assert h[2].replica().log.leo == 1
    h.apply(partition(2, 2, version=2, isr=(2,)))
    assert h.leader(2).epoch == 2
    h.run_past_fetch_wait()
    assert h.leader(2).followers[1].leo == 1


def test_a_replica_taken_out_of_the_replica_set_is_deleted_and_comes_back_empty() -> None:
    """T7: the directory is deleted; a replica that is added again starts empty."""
    h = Harness()
    h.apply(partition())
    h.write(1, 2)
    h.run()
    h.apply(partition(1, 1, version=1, replicas=(1, 2), isr=(1, 2)))
    assert h[3].manager.replicas == {}
    assert not h[3].disk.exists(f"data/{TOPIC}-0")
    assert h[3].notes_of("replica_deleted") == [{"partition": "t-0"}]
    h.apply(partition(1, 1, version=2, isr=(1, 2)), 3)
    assert h[3].replica().log.leo == 0


def test_a_deleted_topic_fails_its_waiting_requests() -> None:
    """T7."""
    h, token, fetch = with_waiting_requests()
    h.shared.topics.clear()
    h[1].manager.apply([], [(TOPIC_ID, 0)], h.now)
    h[1].collect()
    assert h.produced(1, token) == [(ErrorCode.not_leader_or_follower, -1)]
    entry = h.fetched_partition(1, fetch)
    assert entry.error_code is ErrorCode.unknown_topic_id
    assert h[1].manager.replicas == {}
    assert not h[1].disk.exists(f"data/{TOPIC}-0")


def test_a_recreated_topic_does_not_inherit_the_old_ones_log() -> None:
    """T7: the name is the same, the topic id is not."""
    h = Harness((1,))
    h.apply(partition(replicas=(1,), isr=(1,)))
    h.write(1, 3)
    other = UUID(int=0x71)
    h.apply(partition(replicas=(1,), isr=(1,), topic_id=other))
    assert list(h[1].manager.replicas) == [(other, 0)]
    assert h[1].manager.replicas[other, 0].log.leo == 0


def test_after_a_restart_logs_stay_with_their_partitions_and_strays_are_set_aside() -> None:
    """T7: replicas that moved away while this broker was down are handled with the first metadata, and only then."""
    h = Harness((1,))
    h.apply(partition(replicas=(1,), isr=(1,)))
    h[1].manager.apply([partition(replicas=(1,), isr=(1,), index=1)], [], 0)
    h.write(1, 2)
    h[1].boot()
    assert h[1].disk.exists(f"data/{TOPIC}-1")
    h.apply(partition(replicas=(1,), isr=(1,), epoch=1, version=1))
    assert h[1].replica().log.leo == 2
    assert not h[1].disk.exists(f"data/{TOPIC}-1")


def test_a_stale_directory_of_an_earlier_topic_is_not_opened_after_a_restart() -> None:
    """T7."""
    h = Harness((1,))
    h.apply(partition(replicas=(1,), isr=(1,)))
    h.write(1, 2)
    h[1].boot()
    other = UUID(int=0x71)
    h.apply(partition(replicas=(1,), isr=(1,), topic_id=other))
    assert h[1].manager.replicas[other, 0].log.leo == 0


def test_metadata_that_is_not_newer_is_ignored() -> None:
    """M3: old metadata, replayed or overtaken, must not restore an old leader."""
    h = Harness()
    h.apply(partition(1, 5, version=7), 1)
    h.apply(partition(2, 4, version=6), 1)
    h.apply(partition(2, 6, version=7), 1)
    assert h.leader().epoch == 5


def test_several_merged_changes_are_applied_as_one() -> None:
    """Q7: deposed and elected again between two reads: the replica sees only a new epoch of its own."""
    h = Harness()
    h.apply(partition(), 1)
    h.write(1, 2)
    kinds = h[1].note_kinds()
    h.apply(partition(1, 4, version=9, isr=(1, 3)), 1)
    assert h[1].note_kinds()[len(kinds) :] == ["became_leader"]
    assert h[1].replica().log.epochs.entries == [(0, 0), (4, 2)]


def test_one_apply_carries_many_partitions() -> None:
    """Q7."""
    h = Harness((1, 2))
    partitions = [partition(1 + index % 2, replicas=(1, 2), isr=(1, 2), index=index) for index in range(4)]
    for broker in (1, 2):
        h[broker].manager.apply(partitions, [], 0)
    roles = [type(h[1].replica(index).role) for index in range(4)]
    assert roles == [Leader, Follower, Leader, Follower]
