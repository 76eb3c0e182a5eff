"""Throttling the copy traffic of reassignments (R6), so that it does not crowd out live traffic.

A topic lists which of its partitions are throttled on which brokers, once for brokers as leaders and once as followers;
a broker has one rate for each side. Only copying counts against a rate and is held back while the rate is exceeded:
fetches of a listed partition by a replica outside the ISR. Holding back a member would push it out of the ISR, and
holding back a replica that is about to join would stall the high watermark.

A leader answers a held-back partition without records; a follower leaves it out of its requests. Both check again with
the next fetch. The broker named in a list is the one that throttles: "0:1" in the leader's list slows down what broker
1, as leader of partition 0, sends to any follower.

Notes: replica_throttled(partition, replica, side), once per replica and leader epoch, when throttling begins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from insync.metadata.partition import Partition
from insync.sansio import Outbox

UNLIMITED = (1 << 63) - 1
"""The default of both rates."""
BURST_MS = 1_000
"""A rate is exceeded when more bytes are outstanding than drain in this time."""
MAX_RETRY_MS = 1_000
"""The longest wait before checking again: the rate, the lists or the ISR may have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleRates:
    """Bytes per second of one broker, as leader and as follower."""

    leader: int = UNLIMITED
    follower: int = UNLIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottledPartitions:
    """The partitions of a topic that one broker throttles on one side."""

    every: bool = False
    indexes: tuple[int, ...] = ()

    def __contains__(self, index: int) -> bool:
        return self.every or index in self.indexes


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicThrottle:
    """What one broker throttles of one topic."""

    leader: ThrottledPartitions = ThrottledPartitions()
    follower: ThrottledPartitions = ThrottledPartitions()


NO_THROTTLE = TopicThrottle()
NO_RATES = ThrottleRates()


class ThrottleSettings(Protocol):
    @property
    def throttle_rates(self) -> ThrottleRates:
        """R6: the rates of this broker."""

    def throttle(self, topic: str) -> TopicThrottle: ...


def parse_throttled_replicas(items: Iterable[str], broker: int) -> ThrottledPartitions:
    """The entries for `broker` in a validated list of "partition:broker" or "*"."""
    pairs = [item.partition(":") for item in items]
    return ThrottledPartitions(
        every=any(index == "*" for index, _, _ in pairs),
        indexes=tuple(int(index) for index, _, named in pairs if named and int(named) == broker),
    )


class Quota:
    """A leaky bucket that drains at the rate. The level is an integer, in thousandths of a byte."""

    __slots__ = ("_level", "_updated_ms")

    def __init__(self) -> None:
        self._level = 0
        self._updated_ms = 0

    def count(self, size: int, rate: int, now: int) -> None:
        """Copied bytes count in full, even beyond the rate: the next copy waits longer."""
        self._drain(rate, now)
        self._level += size * 1000

    def is_exceeded(self, rate: int, now: int) -> bool:
        self._drain(rate, now)
        return self._level >= rate * BURST_MS

    def retry_at(self, rate: int, now: int) -> int:
        """When to check an exceeded quota again. A rate of 0 stops all copying until it is changed."""
        self._drain(rate, now)
        wait = (self._level - rate * BURST_MS) // rate + 1 if rate else MAX_RETRY_MS
        return now + min(max(wait, 1), MAX_RETRY_MS)

    def _drain(self, rate: int, now: int) -> None:
        self._level = max(0, self._level - rate * (now - self._updated_ms))
        self._updated_ms = now


class CopyThrottle:
    """One side of one broker: its rate, what the rate covers, and how much of it is used."""

    __slots__ = ("_as_leader", "_out", "_quota", "_settings")

    def __init__(self, settings: ThrottleSettings, out: Outbox, *, as_leader: bool) -> None:
        self._settings = settings
        self._out = out
        self._as_leader = as_leader
        self._quota = Quota()

    @property
    def rate(self) -> int:
        rates = self._settings.throttle_rates
        return rates.leader if self._as_leader else rates.follower

    def covers(self, partition: Partition, replica: int, in_sync: tuple[int, ...]) -> bool:
        """R6: whether records of this partition for this replica count against the rate.

        A replica that is in the ISR, or proposed for it, is not throttled.
        """
        if replica in in_sync or self.rate == UNLIMITED:
            return False
        throttle = self._settings.throttle(partition.topic)
        return partition.index in (throttle.leader if self._as_leader else throttle.follower)

    def is_exceeded(self, now: int) -> bool:
        rate = self.rate
        return rate < UNLIMITED and self._quota.is_exceeded(rate, now)

    def count(self, size: int, now: int) -> None:
        self._quota.count(size, self.rate, now)

    def retry_at(self, now: int) -> int:
        return self._quota.retry_at(self.rate, now)

    def note_throttled(self, partition: Partition, replica: int) -> None:
        side = "leader" if self._as_leader else "follower"
        self._out.note("replica_throttled", partition=partition.name, replica=replica, side=side)
