"""The ISR as one leader sees it (I1-I3), and the high watermark that follows from it (H1, H2).

    Committed --expand--> PendingExpand ---+
        |-------shrink--> PendingShrink ---+--> Committed, by a response or by the metadata log
        |-----recovered-> PendingRecovery -+
                          PendingExpand --refused, but a copy of it may be in flight--> Withdrawal --> Committed

A state knows its committed `isr` and its `maximal_isr`: every replica that is in the controller's ISR, whether the
proposal was accepted or not. From the moment of proposing that is the union of both; a lost response does not change
it.

A record is committed once every electable replica holds it. The leader does not know for certain which replicas the
controller may elect: a proposed ISR may have been accepted while the response is still on its way. So it counts the
maximal ISR, and commits only what all of these hold. Offsets are exclusive ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

UNKNOWN_LEO = -1
"""Of a follower that has not fetched."""

MemberEpochs = tuple[tuple[int, int], ...]
"""(broker id, broker epoch) of each proposed member; the epoch is -1 if the member has not fetched in this leader
epoch."""


@dataclass(frozen=True, slots=True, eq=False)
class Committed:
    isr: tuple[int, ...]

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return self.isr


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """I3: one change in flight, based on one partition epoch. Compared by identity, to recognise late responses."""

    committed: Committed
    proposed: tuple[int, ...]
    members: MemberEpochs
    leader_epoch: int
    partition_epoch: int

    @property
    def isr(self) -> tuple[int, ...]:
        return self.committed.isr

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return union(self.committed.isr, self.proposed)


class PendingExpand(Proposal):
    __slots__ = ()


class PendingShrink(Proposal):
    __slots__ = ()


class PendingRecovery(Proposal):
    """E7: the ISR does not change; a leader that was elected uncleanly declares that it has recovered."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class Withdrawal(Proposal):
    """I3: the ISR does not change. Once this is accepted, its partition epoch voids every copy of the earlier proposal.

    Until then the controller may add the `doubtful` replicas, which were proposed, to its ISR at any moment.
    """

    doubtful: tuple[int, ...]

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return union(self.committed.isr, self.doubtful)


IsrState = Committed | Proposal


def is_newer(partition_epoch: int, known_epoch: int) -> bool:
    """M3, I6: metadata and responses overtake each other; only a higher partition epoch is applied."""
    return partition_epoch > known_epoch


def union(isr: tuple[int, ...], proposed: tuple[int, ...]) -> tuple[int, ...]:
    """I3: the maximal ISR of a proposal."""
    return isr + tuple(broker for broker in proposed if broker not in isr)


def caught_up_at(
    fetch_offset: int, leader_leo: int, now: int, leo_at_last_fetch: int, last_fetch_ms: int, last_caught_up_ms: int
) -> int:
    """I1: when a follower was last level with the leader: now, at its previous fetch, or no later than before.

    The second case keeps a follower in the ISR that always fetches a little behind a leader that always writes.
    """
    if fetch_offset >= leader_leo:
        return max(last_caught_up_ms, now)
    if fetch_offset >= leo_at_last_fetch:
        return max(last_caught_up_ms, last_fetch_ms)
    return last_caught_up_ms


def is_caught_up(leo: int, leader_leo: int, last_caught_up_ms: int, now: int, lag_time_max_ms: int) -> bool:
    """I1: level with the leader, or behind for no longer than the lag time."""
    return leo == leader_leo or now - last_caught_up_ms <= lag_time_max_ms


def is_fetching(last_fetch_ms: int, now: int, lag_time_max_ms: int) -> bool:
    """I1, for joining: a follower that stopped fetching would only have to leave again."""
    return now - last_fetch_ms <= lag_time_max_ms


def has_reached_hwm(leo: int, hwm: int) -> bool:
    """I2: a member holds every record that the leader knows to be committed."""
    return leo >= hwm


def has_reached_leso(leo: int, leso: int) -> bool:
    """I2: the leader's own HWM may be stale below LESO, so a joining replica has to hold everything up to there."""
    return leo >= leso


def is_same_incarnation(fetched_broker_epoch: int, registered_broker_epoch: int | None) -> bool:
    """I2: the broker has not restarted since it fetched; a restart may have lost records."""
    return fetched_broker_epoch == registered_broker_epoch


def advance_hwm(current: int, leader_leo: int, follower_leos: Iterable[int]) -> int:
    """H1: the lowest LEO of the leader and these followers; H2: it never goes back within a leader epoch."""
    lowest = leader_leo
    for leo in follower_leos:
        if leo < lowest:
            lowest = leo
    return lowest if lowest > current else current
