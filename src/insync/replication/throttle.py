"""Throttling the copy traffic of reassignments (R6): what a new replica fetches must not crowd out the live traffic.

A topic lists which of its partitions are throttled on which brokers, once for brokers as leaders and once as followers;
a broker has one rate for each side. What counts against a rate, and what is held back while it is exceeded, is only
the copying: fetches of a listed partition by a replica outside the ISR. Holding back a member would throw it out, and
holding back one that is about to be a member would stall the high watermark.

The leader answers a held-back partition without records, the follower leaves it out of its requests; both look again
with the next fetch. The broker that a list names is the one that throttles, so "0:1" in the leader's list slows
down what broker 1, leading partition 0, sends to whomever.

Notes: replica_throttled(partition, replica, side), once per replica and leader epoch, when it begins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from insync.metadata.partition import Partition
from insync.sansio import Outbox

if TYPE_CHECKING:
    from insync.replication.cluster import ClusterView

UNLIMITED = (1 << 63) - 1
"""The default of both rates."""
BURST_MS = 1_000
"""A rate is exceeded when more is outstanding than flows off in this time."""
LOOK_AGAIN_MS = 1_000
"""The longest wait before looking again: meanwhile the rate, the lists or the ISR may have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Bytes per second of one broker, as leader and as follower."""

    leader: int = UNLIMITED
    follower: int = UNLIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The partitions of a topic that one broker throttles on one side."""

    every: bool = False
    indexes: tuple[int, ...] = ()

    def __contains__(self, index: int) -> bool:
        return self.every or index in self.indexes


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """What one broker throttles of one topic."""

    leader: Listed = Listed()
    follower: Listed = Listed()


NO_THROTTLE = Throttle()
NO_RATES = Rates()


def listed(items: Iterable[str], broker: int) -> Listed:
    """A checked "partition:broker" list, or "*", as `broker` reads it."""
    pairs = [item.partition(":") for item in items]
    return Listed(
        every=any(index == "*" for index, _, _ in pairs),
        indexes=tuple(int(index) for index, _, named in pairs if named and int(named) == broker),
    )


class Quota:
    """A bucket that bytes are poured into and that leaks at the rate; all whole numbers, in thousandths of a byte."""

    __slots__ = ("_at", "_level")

    def __init__(self) -> None:
        self._level = 0
        self._at = 0

    def count(self, size: int, rate: int, now: int) -> None:
        """What has been copied cannot be taken back: it counts in full and the next one waits the longer."""
        self._leak(rate, now)
        self._level += size * 1000

    def exceeded(self, rate: int, now: int) -> bool:
        self._leak(rate, now)
        return self._level >= rate * BURST_MS

    def ready_at(self, rate: int, now: int) -> int:
        """When an exceeded quota is worth another look. A rate of 0 stops all copying until it is changed."""
        self._leak(rate, now)
        wait = (self._level - rate * BURST_MS) // rate + 1 if rate else LOOK_AGAIN_MS
        return now + min(max(wait, 1), LOOK_AGAIN_MS)

    def _leak(self, rate: int, now: int) -> None:
        self._level = max(0, self._level - rate * (now - self._at))
        self._at = now


def is_copying(replica: int, in_sync: tuple[int, ...]) -> bool:
    """R6: only a replica that is not in the ISR, nor proposed for it, is a copy in the making."""
    return replica not in in_sync


class CopyThrottle:
    """One side of one broker: its rate, what the rate covers, and how much of it is used."""

    __slots__ = ("_as_leader", "_cluster", "_out", "_quota")

    def __init__(self, cluster: ClusterView, out: Outbox, *, as_leader: bool) -> None:
        self._cluster = cluster
        self._out = out
        self._as_leader = as_leader
        self._quota = Quota()

    @property
    def rate(self) -> int:
        rates = self._cluster.throttle_rates
        return rates.leader if self._as_leader else rates.follower

    def covers(self, partition: Partition, replica: int, in_sync: tuple[int, ...]) -> bool:
        """R6: whether records of this partition for this replica count against the rate."""
        return is_copying(replica, in_sync) and self.rate < UNLIMITED and self._lists(partition)

    def _lists(self, partition: Partition) -> bool:
        throttle = self._cluster.throttle(partition.topic)
        return partition.index in (throttle.leader if self._as_leader else throttle.follower)

    def exceeded(self, now: int) -> bool:
        rate = self.rate
        return rate < UNLIMITED and self._quota.exceeded(rate, now)

    def count(self, size: int, now: int) -> None:
        self._quota.count(size, self.rate, now)

    def ready_at(self, now: int) -> int:
        return self._quota.ready_at(self.rate, now)

    def note(self, partition: Partition, replica: int) -> None:
        side = "leader" if self._as_leader else "follower"
        self._out.note("replica_throttled", partition=partition.name, replica=replica, side=side)
