"""Requests of clients that are gone are released at once, and the limits that clients send are bounded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from insync.replication.fetch_session import MAX_WAIT_MS
from insync.sansio import HangUp
from insync.wire.errors import ErrorCode
from insync.wire.messages import produce
from insync.wire.types import ms
from tests.replication.replication_harness import (
    SIZE,
    TOPIC_ID,
    Harness,
    consumer_request,
    fetch_partition,
    follower_request,
    partition,
    records,
    records_size,
)

HUGE = 2**31 - 1


def alone(**config: Any) -> Harness:
    h = Harness((1,), **config)
    h.apply(partition(replicas=(1,), isr=(1,)))
    return h


def produce_request(*batches: bytes | bytearray) -> produce.ProduceRequest:
    """Without acks, one partition per batch."""
    entries = tuple(produce.PartitionProduceData(index=at, records=bytes(data)) for at, data in enumerate(batches))
    topics = (produce.TopicProduceData(topic_id=TOPIC_ID, partition_data=entries),)
    return produce.ProduceRequest(acks=0, timeout=ms(1_000), topic_data=topics)


# --- acks=0 ---


def test_a_failed_write_without_acks_hangs_up() -> None:
    """P1, P5: with acks=0 there is no response that could carry the error."""
    h = alone()
    damaged = records(1)
    damaged[-1] ^= 1
    token = h[1].next_token()
    h[1].manager.produce(produce_request(damaged), token, h.now)
    (effect,) = [e for e in h[1].out.drain() if isinstance(e, HangUp)]
    assert (effect.token, "corrupt_message" in effect.reason) == (token, True)


def test_one_failed_partition_of_a_write_without_acks_is_enough() -> None:
    """P1: the other partition is stored."""
    h = alone()
    h[1].manager.produce(produce_request(records(1), records(1)), 7, h.now)
    (effect,) = [e for e in h[1].out.drain() if isinstance(e, HangUp)]
    assert effect.reason == "acks=0, partition 1: not_leader_or_follower"
    assert h[1].replica().log.leo == 1


def test_a_write_without_acks_that_succeeds_gets_an_empty_reply() -> None:
    """P1."""
    h = alone()
    h[1].manager.produce(produce_request(records(1)), 7, h.now)
    assert not [e for e in h[1].out.drain() if isinstance(e, HangUp)]


# --- clients that have gone ---


def test_an_abandoned_fetch_is_released() -> None:
    h = alone()
    token = h.fetch(1, consumer_request(fetch_partition(0), max_wait=500))
    h[1].manager.abandon_fetch(token)
    h[1].collect()
    assert h[1].replies[token] is None
    assert not h[1].replica().watchers, "a fetch outside of any session leaves nothing behind"
    h.write(1)
    h.tick(500)
    assert h[1].replies[token] is None


def test_the_session_of_an_abandoned_fetch_continues() -> None:
    """F1: a follower that reconnects need not open a new session."""
    h = Harness((1, 2))
    h.apply(partition(replicas=(1, 2), isr=(1, 2)), 1)
    opened = h.fetched(1, h.fetch(1, follower_request(h.shared, 2, 0, session_epoch=0)))
    assert opened is not None
    session = {"session_id": opened.session_id, "max_wait": 500}
    token = h.fetch(1, follower_request(h.shared, 2, 0, session_epoch=1, **session))
    h[1].manager.abandon_fetch(token)
    h.write(1)
    again = h.fetched(1, h.fetch(1, follower_request(h.shared, 2, 0, session_epoch=2, **session)))
    assert again is not None
    assert records_size(again.responses[0].partitions[0]) == SIZE


def test_an_abandoned_produce_is_released_and_its_records_stay() -> None:
    """P3: the records may commit later."""
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    token, other = h.produce(1, records(1)), h.produce(1, records(1))
    h[1].manager.abandon_produce(token)
    h[1].collect()
    assert len(h[1].replica().waiting) == 1
    h.follower_fetch(1, 2, 2)
    assert h[1].replica().log.hwm == 2
    assert h.produced(1, other) == [(ErrorCode.none, 1)]
    answer = h[1].replies[token]
    h.tick(1_000)
    assert h[1].replies[token] is answer, "one answer to one request"


def test_abandoning_an_unknown_or_answered_request_has_no_effect() -> None:
    h = alone()
    token = h.produce(1, records(1))
    h[1].manager.abandon_produce(token)
    h[1].manager.abandon_fetch(token)
    assert not h[1].out.drain()


def test_fetches_answered_long_before_their_deadline_are_forgotten() -> None:
    """However long the deadlines are, a broker remembers the waiting requests and few others."""
    h = alone()
    for at in range(2_000):
        h.fetch(1, consumer_request(fetch_partition(at), max_wait=HUGE))
        h.write(1)
    assert len(h[1].manager._fetch_server._deadlines) < 200


def test_produces_decided_long_before_their_deadline_are_forgotten() -> None:
    h = Harness((1, 2))
    h.apply(partition(replicas=(1, 2), isr=(1, 2)), 1)
    h.apply(replace(partition(replicas=(1, 2), isr=(1, 2), index=1)), 1)
    h.produce(1, records(1), timeout=10, index=1)  # the first to time out, and never decided before
    for at in range(1_000):
        h.produce(1, records(1), timeout=HUGE)
        h.follower_fetch(1, 2, at + 1)
    assert len(h[1].manager._state.purgatory._deadlines) < 200


# --- limits of clients ---


def test_the_wait_of_a_consumer_is_bounded() -> None:
    h = alone()
    token = h.fetch(1, consumer_request(fetch_partition(0), max_wait=HUGE))
    h.tick(MAX_WAIT_MS - 1)
    assert h.fetched(1, token) is None
    h.tick(1)
    assert h.fetched(1, token) is not None


def test_a_consumer_gets_no_more_than_fetch_max_bytes() -> None:
    """Followers are limited by the settings of their own broker."""
    h = Harness((1, 2), fetch_max_bytes=2 * SIZE)
    h.apply(partition(replicas=(1, 2), isr=(1,)), 1)
    h.write(1, 5)
    answer = h.fetched(1, h.fetch(1, consumer_request(fetch_partition(0), max_bytes=HUGE)))
    assert answer is not None
    assert records_size(answer.responses[0].partitions[0]) == 2 * SIZE
    assert records_size(h.follower_fetch(1, 2, 0)) == 5 * SIZE


def test_a_min_bytes_above_the_limit_does_not_make_a_consumer_wait() -> None:
    h = alone(fetch_max_bytes=2 * SIZE)
    token = h.fetch(1, consumer_request(fetch_partition(0), max_wait=500, min_bytes=HUGE, max_bytes=HUGE))
    h.write(1)
    assert h.fetched(1, token) is None
    h.write(1)
    assert h.fetched(1, token) is not None


def test_a_consumer_that_asks_for_zero_bytes_gets_a_batch() -> None:
    """W17: a fetch makes progress whatever its limits."""
    h = alone()
    h.write(1, 2)
    for nothing in (0, -1):
        request = consumer_request(fetch_partition(0, max_bytes=nothing), max_bytes=nothing, min_bytes=nothing)
        answer = h.fetched(1, h.fetch(1, request))
        assert answer is not None
        assert records_size(answer.responses[0].partitions[0]) == SIZE
