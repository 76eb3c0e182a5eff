"""Appends of the node itself: stored, waited for and refused like those of an acks=all producer (P1-P3)."""

from __future__ import annotations

from insync.metadata.partition import PartitionKey
from insync.wire.errors import ErrorCode
from tests.replication.replication_harness import TOPIC_ID, Harness, partition, records

OK = ErrorCode.none
KEY = (TOPIC_ID, 0)


class Appender:
    def __init__(self, h: Harness, broker: int = 1) -> None:
        self.h = h
        self.broker = h[broker]
        self.outcomes: list[tuple[ErrorCode, int, int]] = []

    def append(self, count: int = 1, key: PartitionKey = KEY) -> None:
        self.broker.manager.append(key, bytearray(records(count)), self.done, self.h.now, 1_000)
        self.broker.collect()

    def done(self, error: ErrorCode, base_offset: int, now: int) -> None:
        self.outcomes.append((error, base_offset, now))


def test_an_append_is_done_when_the_hwm_has_passed_its_last_offset() -> None:
    """P1, H5."""
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    appender = Appender(h)
    appender.append(3)
    h.follower_fetch(1, 2, 2)
    assert appender.outcomes == []
    h.now = 7
    h.follower_fetch(1, 2, 3)
    assert appender.outcomes == [(OK, 0, 7)]


def test_an_append_to_a_sole_replica_is_done_at_once() -> None:
    h = Harness((1,))
    h.apply(partition(replicas=(1,), isr=(1,)))
    appender = Appender(h)
    appender.append(2)
    appender.append(1)
    assert appender.outcomes == [(OK, 0, 0), (OK, 2, 0)]


def test_nothing_is_stored_below_min_isr() -> None:
    """P2."""
    h = Harness(min_isr=2)
    h.apply(partition(isr=(1,)), 1)
    appender = Appender(h)
    appender.append()
    assert appender.outcomes == [(ErrorCode.not_enough_replicas, -1, 0)]
    assert h[1].replica().log.leo == 0


def test_an_append_times_out() -> None:
    """P3."""
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    appender = Appender(h)
    appender.append()
    h[1].manager.tick(1_000)
    assert appender.outcomes == [(ErrorCode.request_timed_out, -1, 1_000)]


def test_a_deposed_leader_fails_its_appends() -> None:
    """T4."""
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    appender = Appender(h)
    appender.append()
    h.apply(partition(2, 1, version=1, isr=(1, 2)), 1)
    assert appender.outcomes == [(ErrorCode.not_leader_or_follower, -1, 0)]
    appender.append()
    assert appender.outcomes[1:] == [(ErrorCode.not_leader_or_follower, -1, 0)]


def test_the_callback_of_an_append_may_append_again() -> None:
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    appender = Appender(h)
    seen: list[int] = []

    def again(error: ErrorCode, base_offset: int, now: int) -> None:
        seen.append(base_offset)
        if len(seen) < 3:
            h[1].manager.append(KEY, bytearray(records(1)), again, now)

    h[1].manager.append(KEY, bytearray(records(1)), again, 0)
    appender.append()
    for offset in range(2, 6):
        h.follower_fetch(1, 2, offset)
    assert seen == [0, 2, 3]
    assert appender.outcomes == [(OK, 1, 0)]


def test_records_that_commit_after_the_timeout_still_take_effect() -> None:
    """P3: the records stay after a timeout. They take effect in log order, and once."""
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    events: list[str] = []

    def append(name: str, timeout_ms: int) -> None:
        h[1].manager.append(
            KEY,
            bytearray(records(1)),
            lambda error, _offset, _now: events.append(f"{name} {error.name}"),
            h.now,
            timeout_ms,
            on_committed=lambda _now: events.append(f"{name} committed"),
        )

    append("first", 1_000)
    append("second", 9_000)
    h[1].manager.tick(1_000)
    assert events == ["first request_timed_out"]
    h.follower_fetch(1, 2, 2)
    assert events[1:] == ["first committed", "second committed", "second none"]
    h[1].manager.tick(20_000)
    h.apply(partition(2, 1, version=1, isr=(1, 2)), 1)
    assert len(events) == 4


def test_records_appended_before_the_isr_fell_below_min_isr_take_effect_when_it_has_recovered() -> None:
    """P2: the append fails with NOT_ENOUGH_REPLICAS_AFTER_APPEND; a leader that is deposed later commits nothing."""
    h = Harness(min_isr=2)
    h.apply(partition(isr=(1, 2)), 1)
    appender = Appender(h)
    committed: list[int] = []
    for _ in range(2):
        h[1].manager.append(KEY, bytearray(records(1)), appender.done, 0, 9_000, on_committed=committed.append)
    h.apply(partition(version=1, isr=(1,)), 1)
    assert [error for error, _, _ in appender.outcomes] == [ErrorCode.not_enough_replicas_after_append] * 2
    assert committed == []
    h.apply(partition(version=2, isr=(1, 2)), 1)
    h.now = 5
    h.follower_fetch(1, 2, 1)
    assert committed == [5]
    h.apply(partition(2, 1, version=3, isr=(1, 2)), 1)
    assert (len(appender.outcomes), committed) == (2, [5])
