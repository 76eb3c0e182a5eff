"""The arithmetic of the high watermark (H1-H5, F5): a record is committed once all who could be elected hold it.

The leader does not know for certain whom the controller may elect: a proposed ISR may have been accepted while the
answer is still on its way. It therefore counts the maximal ISR, every replica that might be in the controller's ISR,
and commits only what all of these hold. Offsets are exclusive ends; UNKNOWN stands for a follower not heard from.
"""

from __future__ import annotations

from collections.abc import Iterable

from insync.replication.isr import IsrState

UNKNOWN = -1


def advance(current: int, leader_leo: int, waited_for: Iterable[int]) -> int:
    """H1: the lowest LEO among the leader and those waited for; H2: never down within a term."""
    lowest = leader_leo
    for leo in waited_for:
        if leo < lowest:
            lowest = leo
    return monotonic(current, lowest)


def monotonic(current: int, candidate: int) -> int:
    """H2: a leader's high watermark does not go back."""
    return candidate if candidate > current else current


def replication_quorum(state: IsrState) -> tuple[int, ...]:
    """H1, S4: whoever may be in the controller's ISR has a say, so the maximal ISR and not the committed one."""
    return state.maximal_isr


def enough_in_sync(isr_size: int, min_isr: int) -> bool:
    """H1: below MinISR nothing is committed; the committed ISR counts, since the maximal one may never come true."""
    return isr_size >= min_isr


def waits_for_joiner(*, caught_up: bool, in_sync: bool, eligible: bool) -> bool:
    """H3: a follower about to join holds the high watermark back, or it would run after it for ever."""
    return caught_up and in_sync and eligible


def is_true(hwm: int, leso: int) -> bool:
    """H4: from LESO on the local high watermark cannot be stale: this leader has moved it there itself."""
    return hwm >= leso


def follower_hwm(answered: int, own_leo: int) -> int:
    """F5: what the leader says, but never more than this log holds. It may go down after an election (6.4)."""
    return answered if answered < own_leo else own_leo
