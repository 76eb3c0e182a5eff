"""Throttling the copy traffic of reassignments (R6), on the leader's side and on the follower's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insync.replication.throttle import (
    BURST_MS,
    MAX_RETRY_MS,
    Quota,
    ThrottledPartitions,
    ThrottleRates,
    TopicThrottle,
    parse_throttled_replicas,
)
from insync.wire.messages import fetch
from tests.replication.replication_harness import (
    TOPIC_ID,
    Broker,
    Harness,
    consumer_request,
    fetch_partition,
    partition,
    records,
)

BATCH = records(1, b"x" * 5_000)
SIZE = len(BATCH)
RATE = 20_000
MINUTE = 60_000
EVERY = ThrottledPartitions(every=True)


def copying(*, batches: int = 400, sides: str = "", rate: int = RATE, partitions: int = 1) -> Harness:
    """Leader 1 has all records, 2 is new and outside the ISR. `sides` are throttled: "leader", "follower" or both."""
    h = Harness((1, 2), replica_fetch_max_bytes=2 * SIZE)
    throttled(h, sides, rate)
    for index in range(partitions):
        h.apply(partition(replicas=(1, 2), isr=(1,), index=index), 1)
        for _ in range(batches):
            h.produce(1, BATCH, acks=1, index=index)
    for index in range(partitions):
        h.apply(partition(replicas=(1, 2), isr=(1,), index=index), 2)
    return h


def throttled(h: Harness, sides: str, rate: int = RATE, which: ThrottledPartitions = EVERY) -> None:
    if "leader" in sides:
        h.shared.rates[1] = ThrottleRates(leader=rate)
        h.shared.throttles[1] = TopicThrottle(leader=which)
    if "follower" in sides:
        h.shared.rates[2] = ThrottleRates(follower=rate)
        h.shared.throttles[2] = TopicThrottle(follower=which)


def copied(h: Harness, index: int = 0) -> int:
    return h[2].replica(index).log.leo * SIZE


def notes(broker: Broker) -> list[tuple[object, ...]]:
    return [tuple(fields.values()) for fields in broker.notes_of("replica_throttled")]


# --- the quota ---


@given(st.integers(1, 5_000), st.lists(st.tuples(st.integers(0, 3_000), st.integers(1, 20_000)), max_size=60))
def test_a_quota_allows_no_more_than_the_rate_a_burst_and_the_last_copy(
    rate: int, tries: list[tuple[int, int]]
) -> None:
    """R6: whatever the sizes and the pauses."""
    quota, now, total = Quota(), 0, 0
    for pause, size in tries:
        now += pause
        if not quota.is_exceeded(rate, now):
            assert total * 1000 <= rate * (now + BURST_MS)
            quota.count(size, rate, now)
            total += size


@given(st.integers(1, 5_000), st.integers(1, 20_000))
def test_a_quota_knows_when_to_retry(rate: int, size: int) -> None:
    """R6: when it is free again, or earlier if that is too far away."""
    quota = Quota()
    quota.count(rate + size, rate, 0)
    at = quota.retry_at(rate, 0)
    assert 0 < at <= MAX_RETRY_MS
    assert quota.is_exceeded(rate, at - 1)
    assert quota.is_exceeded(rate, at) == (size * 1000 >= at * rate)


def test_idle_time_earns_no_more_than_a_burst() -> None:
    """R6: a quota that was idle for an hour allows as much as a new one."""
    quota = Quota()
    quota.count(1, 100, 0)
    now = 3_600_000
    assert not quota.is_exceeded(100, now)
    quota.count(100, 100, now)
    assert quota.is_exceeded(100, now)


def test_a_rate_of_zero_is_always_exceeded() -> None:
    """R6"""
    quota = Quota()
    assert quota.is_exceeded(0, 5)
    assert quota.retry_at(0, 5) == 5 + MAX_RETRY_MS


@pytest.mark.parametrize(
    ("items", "expected"),
    [((), ()), (("0:1", "2:1", "1:2"), (0, 2)), (("0:2",), ()), (("*",), (0, 1, 2)), (("1:11",), ())],
)
def test_a_list_names_the_brokers_that_throttle(items: tuple[str, ...], expected: tuple[int, ...]) -> None:
    """R6: as broker 1 reads it, in the leaders' list and in the followers'."""
    throttled_partitions = parse_throttled_replicas(items, 1)
    assert tuple(index for index in range(3) if index in throttled_partitions) == expected


# --- the rate ---


@pytest.mark.parametrize("sides", ["leader", "follower", "leader and follower"])
def test_a_minute_of_copying_keeps_to_the_rate(sides: str) -> None:
    """R6: at any time at most the rate, a burst and one response; over the minute no less than the rate."""
    h = copying(sides=sides)
    h.run()
    while h.now < MINUTE:
        assert copied(h) <= RATE * (h.now + BURST_MS) / 1000 + 2 * SIZE
        h.advance(500)
    assert copied(h) >= RATE * MINUTE / 1000 * 0.95


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_many_partitions_share_one_rate_and_all_of_them_advance(side: str) -> None:
    """R6: the rate is the broker's."""
    h = copying(sides=side, partitions=4, batches=100)
    h.advance(MINUTE)
    sizes = [copied(h, index) for index in range(4)]
    assert RATE * MINUTE / 1000 * 0.95 <= sum(sizes) <= RATE * (MINUTE + BURST_MS) / 1000 + 8 * SIZE
    assert min(sizes) >= max(sizes) / 2


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_replica_eventually_joins_the_isr(side: str) -> None:
    """R6, L7: a throttled reassignment takes longer, but completes."""
    h = copying(sides=side, batches=100)
    h.advance(20_000)
    assert h.proposals(1) == []
    h.advance(10_000)
    changed = h.accept(1, partition(replicas=(1, 2), isr=(1,)))
    assert changed.isr == (1, 2)
    assert copied(h) == 100 * SIZE


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_changed_rate_applies_from_the_next_check(side: str) -> None:
    """R6: zero stops the copying, and a replica that is held back goes on when the rate is raised."""
    h = copying(sides=side, batches=100, rate=0)
    h.advance(MINUTE)
    assert copied(h) == 0
    throttled(h, side, 1_000_000)
    h.advance(2 * MAX_RETRY_MS)
    assert copied(h) == 100 * SIZE


@pytest.mark.parametrize(("side", "broker"), [("leader", 1), ("follower", 2)])
def test_the_start_of_throttling_is_noted_once(side: str, broker: int) -> None:
    """R6"""
    h = copying(sides=side)
    h.advance(MINUTE)
    assert notes(h[broker]) == [("t-0", 2, side)]
    assert notes(h[3 - broker]) == []


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_held_back_replica_does_not_busy_loop(side: str) -> None:
    """R6: it fetches about as often as an idle one."""
    h = copying(sides=side, rate=0)
    h.run()
    rounds = 0
    while h.now < MINUTE:
        due = [at for broker in h.brokers.values() if (at := broker.manager.next_deadline()) is not None]
        h.tick(max(min(due) - h.now, 0))
        h.run()
        rounds += 1
    assert rounds <= 5 * MINUTE // 500


# --- who is not throttled ---


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_members_of_the_isr_are_never_held_back(side: str) -> None:
    """R6: that would push them out of the ISR. This holds while another replica of the partition is outside, too."""
    h = Harness((1, 2))
    throttled(h, side, 0)
    h.apply(partition(replicas=(1, 2, 3), isr=(1, 2)))
    h.run()
    for _ in range(100):
        h.produce(1, BATCH, acks=1)
        h.run()
    assert copied(h) == 100 * SIZE
    assert h[1].replica().log.hwm >= 99


def test_a_replica_proposed_for_the_isr_is_not_held_back() -> None:
    """R6, I3: the high watermark waits for it already."""
    h = copying(batches=10)
    h.run()
    assert len(h.proposals(1)) == 1
    throttled(h, "leader", 0)
    h.produce(1, BATCH, acks=1)
    h.run()
    assert copied(h) == 11 * SIZE


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_fetches_of_isr_members_do_not_count(side: str) -> None:
    """R6: the rate is for copies, so that live traffic cannot starve them."""
    h = copying(batches=4, sides=side)
    h.apply(partition(replicas=(1, 2, 3), isr=(1, 2), index=1))
    h.run()
    for _ in range(100):
        h.produce(1, BATCH, acks=1, index=1)
        h.run()
    h.advance(500)
    assert copied(h, 1) == 100 * SIZE
    assert copied(h) == 4 * SIZE


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_partitions_that_are_not_listed_are_copied_at_full_speed(side: str) -> None:
    """R6: throttled partitions in the same requests do not delay them."""
    h = copying(partitions=2, batches=100)
    throttled(h, side, 0, ThrottledPartitions(indexes=(0,)))
    h.shared.fenced = [2]  # so that it stays outside the ISR
    h.run(200)
    h.advance(5_000)
    assert copied(h, 1) == 100 * SIZE
    assert copied(h, 0) < 100 * SIZE


def test_consumers_are_not_held_back() -> None:
    """R6: replication only."""
    h = copying(sides="leader", rate=0)
    response = h.fetched(1, h.fetch(1, consumer_request(fetch_partition(0))))
    assert response is not None
    assert response.responses[0].partitions[0].records


@pytest.mark.parametrize(
    "half", [ThrottleRates(leader=0, follower=0), TopicThrottle(leader=EVERY, follower=EVERY), None]
)
def test_without_both_a_rate_and_a_list_nothing_is_held_back(half: ThrottleRates | TopicThrottle | None) -> None:
    """R6"""
    h = copying(batches=0)
    for broker in (1, 2):
        if isinstance(half, ThrottleRates):
            h.shared.rates[broker] = half
        elif half is not None:
            h.shared.throttles[broker] = half
    for _ in range(50):
        h.produce(1, BATCH, acks=1)
    h.run(200)
    assert (h.now, copied(h)) == (0, 50 * SIZE)
    assert notes(h[1]) == notes(h[2]) == []


# --- what the other side sees ---


def test_a_held_back_partition_gets_a_valid_response_without_records() -> None:
    """R6, F4: the follower gets the high watermark, and the leader records the fetch."""
    h = copying(sides="leader", batches=10, rate=0)
    h.now = 700
    entry = h.follower_fetch(1, 2, 0)
    assert (entry.error_code.name, entry.records, entry.high_watermark) == ("none", b"", 10)
    leader = h.leader()
    assert leader is not None
    assert (leader.followers[2].leo, leader.followers[2].last_fetch_ms) == (0, 700)


def requests(h: Harness) -> Iterator[fetch.FetchRequest]:
    h[2].collect()
    return (send.request for send in h[2].sends if send.channel == "fetch")


def test_a_held_back_partition_leaves_the_session_and_comes_back() -> None:
    """R6, F1: the other partitions stay in it."""
    h = copying(partitions=2, batches=10)
    throttled(h, "follower", 2 * SIZE, ThrottledPartitions(indexes=(0,)))
    requested, forgotten = [], []
    for _ in range(20):
        for request in requests(h):
            requested += [p.partition for t in request.topics for p in t.partitions if t.topic_id == TOPIC_ID]
            forgotten += [index for t in request.forgotten_topics_data for index in t.partitions]
        h.run(1)
    assert forgotten == [0]
    assert requested.count(0) == 1
    assert copied(h, 1) == 10 * SIZE
    h.advance(10_000)
    assert copied(h, 0) == 10 * SIZE
