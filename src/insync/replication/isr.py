"""Who is in sync, as one leader sees it (I1-I3).

    Committed --expand--> PendingExpand ---+
        |-------shrink--> PendingShrink ---+--> Committed, by an answer or by the metadata log
        |-----recovered-> PendingRecovery -+
                          PendingExpand --refused, and a copy of it may be under way--> Withdrawal --> Committed

A state knows its committed `isr` and its `maximal_isr`: everyone who is in the ISR that the controller has, whichever
way the proposal went. From the moment of proposing that is the union of both; a lost answer leaves it so.
"""

from __future__ import annotations

from dataclasses import dataclass

MemberEpochs = tuple[tuple[int, int], ...]
"""(broker id, broker epoch) of each proposed member; -1 where the leader has not heard from it in this epoch."""


@dataclass(frozen=True, slots=True, eq=False)
class Committed:
    isr: tuple[int, ...]

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return self.isr


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """I3: one change under way, based on exactly one partition epoch. Its identity tells its answers from late ones."""

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
    """E7: the ISR stays as it is; the leader elected in spite of possible loss says that it has recovered."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class Withdrawal(Proposal):
    """I3: the ISR stays as it is; once this is accepted, no copy of an earlier proposal can be, by its partition epoch.

    Until then whoever was proposed may be in the controller's ISR at any moment.
    """

    doubtful: tuple[int, ...]

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return union(self.committed.isr, self.doubtful)


IsrState = Committed | Proposal


def is_newer(partition_epoch: int, held: int) -> bool:
    """M3, I6: metadata and answers overtake each other; only a higher partition epoch is news."""
    return partition_epoch > held


def union(isr: tuple[int, ...], proposed: tuple[int, ...]) -> tuple[int, ...]:
    """I3: the maximal ISR of a proposal."""
    return isr + tuple(broker for broker in proposed if broker not in isr)


def caught_up_at(
    fetch_offset: int, leader_leo: int, now: int, leo_at_last_fetch: int, last_fetch_ms: int, last_caught_up_ms: int
) -> int:
    """I1: when a follower was last level with the leader: now, or at its previous fetch, or no later than before.

    The second case keeps a follower in that always fetches a little behind a leader that always writes.
    """
    if fetch_offset >= leader_leo:
        return max(last_caught_up_ms, now)
    if fetch_offset >= leo_at_last_fetch:
        return max(last_caught_up_ms, last_fetch_ms)
    return last_caught_up_ms


def is_caught_up(leo: int, leader_leo: int, last_caught_up_ms: int, now: int, lag_time_max_ms: int) -> bool:
    """I1: level with the leader, or within the lag time."""
    return leo == leader_leo or now - last_caught_up_ms <= lag_time_max_ms


def is_alive(last_fetch_ms: int, now: int, lag_time_max_ms: int) -> bool:
    """I1, for joining: a follower that stopped fetching would only have to leave again."""
    return now - last_fetch_ms <= lag_time_max_ms


def reached_hwm(leo: int, hwm: int) -> bool:
    """I2: a member holds all that the leader knows to be committed."""
    return leo >= hwm


def reached_leso(leo: int, leso: int) -> bool:
    """I2: the leader's own HWM may be stale below LESO, so a joiner has to hold everything up to there."""
    return leo >= leso


def fetched_in_this_epoch(fetched: bool) -> bool:
    """I2: what an earlier epoch told of a follower may be about a log that has since been deleted."""
    return fetched


def not_fenced(fenced: bool) -> bool:
    """I2: a fenced broker cannot be a candidate."""
    return not fenced


def not_shutting_down(shutting_down: bool) -> bool:
    """I2, B7: a broker on its way out does not come in."""
    return not shutting_down


def same_uptime(fetched_broker_epoch: int, registered_broker_epoch: int | None) -> bool:
    """I2: the follower that fetched is the one that is registered now; it may have restarted and lost data since."""
    return fetched_broker_epoch == registered_broker_epoch
