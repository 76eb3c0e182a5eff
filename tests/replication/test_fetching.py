"""Fetches: what leaders refuse, and what followers do with responses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from insync.sansio import Send
from insync.storage.config import LogConfig
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch
from insync.wire.types import NO_DURATION
from tests.replication.replication_harness import (
    SIZE,
    TOPIC,
    TOPIC_ID,
    Harness,
    consumer_request,
    epochs_of,
    fetch_partition,
    leader_and_follower,
    partition,
    records,
    records_size,
)

# --- F1, F2 ---


def test_one_request_carries_all_partitions_of_one_leader() -> None:
    """F1: one fetcher per leader broker, one request in flight."""
    h = Harness((1, 2, 3))
    leaders = [1, 3, 1, 3]
    partitions = [partition(leader, replicas=(1, 2, 3), index=index) for index, leader in enumerate(leaders)]
    h[2].manager.apply(partitions, [], 0)
    h[2].collect()
    requested = {send.peer: [p.partition for t in send.request.topics for p in t.partitions] for send in h[2].sends}
    assert requested == {1: [0, 2], 3: [1, 3]}
    h[2].manager.apply([partition(1, index=4)], [], 0)
    h[2].collect()
    assert len(h[2].sends) == 2


def test_a_followers_fetch_carries_broker_epoch_leader_epoch_leo_and_last_epoch() -> None:
    """F2."""
    h = Harness((1, 2))
    log = h[2].store.create(TOPIC, 0, TOPIC_ID, LogConfig())
    for offset, epoch in enumerate([3, 3, 4]):
        log.append_as_follower(bytes(records(1, base_offset=offset, leader_epoch=epoch)))
    h.apply(partition(1, 7, replicas=(1, 2)), 2)
    request = h.take_fetch(2).request
    requested = request.topics[0].partitions[0]
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 102)
    assert (requested.current_leader_epoch, requested.fetch_offset, requested.last_fetched_epoch) == (7, 3, 4)
    assert (request.max_wait.total_seconds(), request.min_bytes) == (0.5, 1)


# --- F3 ---


def test_an_older_leader_epoch_is_fenced_and_a_newer_one_unknown() -> None:
    """F3, W18: both sides have to know the leader epoch; a refused fetch changes no follower state."""
    h = Harness()
    h.apply(partition(1, 5), 1)
    assert h.follower_fetch(1, 2, 0, epoch=4).error_code is ErrorCode.fenced_leader_epoch
    assert h.follower_fetch(1, 2, 0, epoch=6).error_code is ErrorCode.unknown_leader_epoch
    assert not h.leader().followers[2].fetched_in_epoch
    assert h.follower_fetch(1, 2, 0, epoch=5).error_code is ErrorCode.none
    assert [note["error"] for note in h[1].notes_of("fetch_refused")] == ["fenced_leader_epoch", "unknown_leader_epoch"]


def test_a_replica_that_does_not_lead_refuses_with_a_hint_at_the_leader() -> None:
    """F3: NOT_LEADER_OR_FOLLOWER."""
    h = Harness()
    h.apply(partition(2, 5), 1)
    entry = h.follower_fetch(1, 3, 0, epoch=5)
    assert entry.error_code is ErrorCode.not_leader_or_follower
    assert (entry.current_leader.leader_id, entry.current_leader.leader_epoch) == (2, 5)


@pytest.mark.parametrize(
    ("offset", "error"), [(1, "offset_out_of_range"), (2, "none"), (4, "none"), (5, "offset_out_of_range")]
)
def test_offsets_outside_the_log_are_out_of_range(offset: int, error: str) -> None:
    """F3: [log start, LEO]."""
    h = Harness((1,))
    h.apply(partition(replicas=(1,), isr=(1,)))
    h.write(1, 4)
    h[1].replica().log.delete_records(2)
    token = h.fetch(1, consumer_request(fetch_partition(offset)))
    assert h.fetched_partition(1, token).error_code is ErrorCode[error]


def test_topic_identity_is_checked() -> None:
    """F3: an unknown id; an id that the name no longer has here; a partition that other brokers have, or none."""
    h = Harness((1,))
    h.apply(partition(replicas=(1,), isr=(1,)))

    def error_for(topic_id: UUID, index: int = 0) -> ErrorCode:
        topics = (fetch.FetchTopic(topic_id=topic_id, partitions=(fetch_partition(0, index=index),)),)
        request = replace(consumer_request(), topics=topics)
        return h.fetched_partition(1, h.fetch(1, request)).error_code

    assert error_for(UUID(int=0x99)) is ErrorCode.unknown_topic_id
    h.shared.topics[UUID(int=0x71)] = TOPIC
    assert error_for(UUID(int=0x71)) is ErrorCode.inconsistent_topic_id
    assert error_for(TOPIC_ID, 2) is ErrorCode.not_leader_or_follower
    assert error_for(TOPIC_ID, 8) is ErrorCode.unknown_topic_or_partition


def test_a_replica_outside_the_assignment_is_not_known_in_this_epoch() -> None:
    """F3: our metadata may be behind; the follower retries."""
    h = Harness((1, 2, 3, 4))
    h.apply(partition(), 1)
    assert h.follower_fetch(1, 4, 0).error_code is ErrorCode.unknown_leader_epoch
    assert h.follower_fetch(1, 4, 0, epoch=-1).error_code is ErrorCode.not_leader_or_follower


def test_the_refusal_of_one_partition_does_not_affect_the_others() -> None:
    """F3: errors are per partition."""
    h = Harness((1,))
    h[1].manager.apply([partition(replicas=(1,), isr=(1,), index=index) for index in (0, 1)], [], 0)
    h.write(1, index=1)
    token = h.fetch(1, consumer_request(fetch_partition(9), fetch_partition(0, index=1)))
    response = h.fetched(1, token)
    assert response is not None
    entries = response.responses[0].partitions
    assert [entry.error_code.name for entry in entries] == ["offset_out_of_range", "none"]
    assert records_size(entries[1]) == SIZE


# --- F4 ---


def test_a_valid_fetch_updates_leo_and_broker_epoch_before_the_read() -> None:
    """F4: the response to the fetch that commits a record already has the new HWM."""
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    h.write(1)
    assert h.follower_fetch(1, 2, 1).high_watermark == 1
    progress = h.leader().followers[2]
    assert (progress.leo, progress.broker_epoch, progress.fetched_in_epoch) == (1, 102, True)


def test_a_fetch_of_an_earlier_incarnation_is_refused() -> None:
    """F4: it was sent before the follower restarted, which may have lost records since."""
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    h.write(1, 2)
    h.shared.epochs[2] = 200
    assert h.follower_fetch(1, 2, 1).error_code is ErrorCode.none
    entry = h.follower_fetch(1, 2, 2, broker_epoch=102)
    assert entry.error_code is ErrorCode.not_leader_or_follower
    assert h.leader().followers[2].leo == 1
    assert h[1].replica().log.hwm == 1
    assert "stale_broker_epoch_fetch" in h[1].note_kinds()


def test_a_fetch_of_an_incarnation_older_than_the_metadatas_is_refused() -> None:
    """F4: even if it is the first fetch."""
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    assert h.follower_fetch(1, 2, 0, broker_epoch=7).error_code is ErrorCode.not_leader_or_follower


# --- F5, F6, F7 ---


def test_a_follower_keeps_the_leaders_bytes() -> None:
    """F5: same offsets, epochs and bytes."""
    h = Harness((1, 2))
    h.apply(partition(1, 3, replicas=(1, 2), isr=(1, 2)))
    h.produce(1, records(3))
    h.produce(1, records(2))
    h.run()
    logs = [h[broker].replica().log for broker in (1, 2)]
    assert logs[1].leo == 5
    assert logs[0].read(0, 1 << 20, limit_offset=5) == logs[1].read(0, 1 << 20, limit_offset=5)
    assert epochs_of(h[2].replica()) == [3] * 5


def hold_answer(h: Harness, follower: int) -> Callable[[], None]:
    """The leader answers the follower's fetch; the answer arrives when the result is called."""
    send = h.take_fetch(follower)
    answer = h.serve(send)
    return lambda: send.on_response(answer, h.now)


def begin_new_epoch(h: Harness) -> None:
    h.apply(partition(1, 1, version=1))


def move_leader(h: Harness) -> None:
    h.apply(partition(2, 1, version=1))


def append_to_follower(h: Harness) -> None:
    h[3].replica().log.append_as_follower(bytes(records(1, base_offset=0, leader_epoch=0)))


@pytest.mark.parametrize(
    ("change", "reason", "leo", "later"),
    [
        pytest.param(begin_new_epoch, "epoch", 0, 1, id="the same leader, in an earlier epoch"),
        pytest.param(move_leader, "removed", 0, 0, id="the partition has moved to another fetcher"),
        pytest.param(append_to_follower, "offset", 1, 1, id="it would not continue the log where it ends"),
    ],
)
def test_a_late_response_is_dropped(change: Callable[[Harness], None], reason: str, leo: int, later: int) -> None:
    """F5, F6; what the leader has is fetched again later."""
    h = Harness((1, 2, 3))
    h.apply(partition())
    h.write(1)
    deliver = hold_answer(h, 3)
    change(h)
    deliver()
    assert h[3].replica().log.leo == leo
    assert [note["reason"] for note in h[3].notes_of("late_fetch_answer_dropped")] == [reason]
    h.run()
    assert h[3].replica().log.leo == later


def test_a_leader_ignores_the_response_to_its_fetch_as_a_follower() -> None:
    """F6, T1."""
    h = leader_and_follower()
    h.write(1)
    deliver = hold_answer(h, 2)
    h.apply(partition(2, 1, version=1, replicas=(1, 2), isr=(1, 2)))
    deliver()
    assert h[2].replica().log.leo == 0
    assert h.leader(2).leso == 0


@pytest.mark.parametrize("size", [-1, batch.HEADER_SIZE, batch.HEADER_SIZE - 1, 1])
def test_a_damaged_response_is_not_stored_and_is_fetched_again(size: int) -> None:
    """F5: a byte that was damaged in transit, or records that are cut off, cost a retry and nothing else."""
    h = Harness((1, 2), replica_fetch_backoff_ms=100)
    h.apply(partition(replicas=(1, 2), isr=(1, 2)))
    h.write(1)
    send = h.take_fetch(2)
    answer = h.serve(send)
    entry = answer.responses[0].partitions[0]
    damaged = replace(entry, records=bytes(entry.records or b"")[:size] + (b"\xff" if size < 0 else b""))
    topic = replace(answer.responses[0], partitions=(damaged,))
    send.on_response(replace(answer, responses=(topic,)), h.now)
    assert h[2].replica().log.leo == 0
    h.advance(100)
    assert h[2].replica().log.leo == 1


def test_a_follower_below_the_leaders_log_start_restarts_there() -> None:
    """F7: the records in between are deleted everywhere."""
    h = Harness((1, 2))
    h.apply(partition(replicas=(1, 2), isr=(1,)), 1)
    h.write(1, 5)
    h[1].replica().log.delete_records(3)
    h.apply(partition(replicas=(1, 2), isr=(1,)), 2)
    h.run()
    log = h[2].replica().log
    assert (log.log_start, log.leo) == (3, 5)
    (note,) = h[2].notes_of("truncated")
    assert (note["to_offset"], note["cause"], note["leader"], note["leader_epoch"]) == (3, "log_start", 1, 0)


def test_a_log_start_inside_a_batch_transfers_the_whole_batch() -> None:
    """F7, F5: batches are never trimmed, so the follower starts with the batch and then moves its log start."""
    h = Harness((1, 2))
    h.apply(partition(replicas=(1, 2), isr=(1,)), 1)
    h.produce(1, records(4), acks=1)
    h[1].replica().log.delete_records(2)
    h.apply(partition(replicas=(1, 2), isr=(1,)), 2)
    h.run_past_fetch_wait()
    log = h[2].replica().log
    assert (log.log_start, log.leo, log.hwm) == (2, 4, 4)


def test_an_empty_log_above_the_leaders_restarts_at_its_log_start() -> None:
    """F7: it has no epoch to compare and nothing to lose, and must not retry forever."""
    h = Harness((1, 2))
    h[2].store.create(TOPIC, 0, TOPIC_ID, LogConfig()).truncate_fully(9)
    h.apply(partition(replicas=(1, 2), isr=(1,)))
    h.write(1, 2)
    h.run()
    assert h[2].replica().log.leo == 2


def test_a_follower_learns_the_leaders_log_start() -> None:
    """F7: records are deleted everywhere, even if the partition is idle."""
    h = leader_and_follower()
    h.write(1, 3)
    h.run_past_fetch_wait()
    h[1].replica().log.delete_records(2)
    h[1].manager.on_log_starts_moved([h[1].replica()], h.now)
    h.run_past_fetch_wait()
    assert h[2].replica().log.log_start == 2


def test_a_late_opening_request_ends_the_session_that_replaced_it() -> None:
    """F1: the follower gets an error for its session, instead of fetching in one that does not count."""
    h = Harness((1, 2))
    for broker in (1, 2):
        h[broker].manager.apply([partition(1, replicas=(1, 2))], [], 0)
    opening = replace(h.take_fetch(2).request, max_wait=NO_DURATION)
    first = h.serve(Send(1, "fetch", opening, lambda *_: None, 1))
    assert first.session_id > 0
    late = h.serve(Send(1, "fetch", opening, lambda *_: None, 1))
    assert late.session_id not in (0, first.session_id)
    goes_on = replace(opening, session_id=first.session_id, session_epoch=1, topics=())
    answer = h.serve(Send(1, "fetch", goes_on, lambda *_: None, 1))
    assert answer.error_code is ErrorCode.fetch_session_id_not_found
