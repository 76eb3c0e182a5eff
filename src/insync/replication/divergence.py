"""Where two logs diverge (D1-D5), found by leader epochs alone.

A log remembers the offset at which each leader epoch starts. Two logs that both have epoch e agree on everything up to
the lower of their ends of e, since each epoch had one leader. The leader names the last epoch that the follower's log
can share with it, and where that epoch ends; the follower truncates its log to the lower of the two ends and asks
again.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

NO_EPOCH = -1


class EpochEnd(NamedTuple):
    epoch: int
    end_offset: int


class Epochs(Protocol):
    def lowest(self) -> tuple[int, int] | None: ...
    def end_offset_for(self, epoch: int, leo: int) -> tuple[int, int] | None: ...


class EpochLog(Protocol):
    """What a log knows of its epochs, and where it starts and ends."""

    leo: int
    log_start: int

    @property
    def epochs(self) -> Epochs: ...


def find_divergence(log: EpochLog, last_fetched_epoch: int, fetch_offset: int) -> EpochEnd | None:
    """D2: where the leader's `log` diverges from one that ends at `fetch_offset` in `last_fetched_epoch`; None if the
    leader's log continues it."""
    if last_fetched_epoch == NO_EPOCH:
        return None  # an empty log agrees with every other
    end = end_of_epoch(log, last_fetched_epoch)
    # The leader never had that epoch, or has less of it than the follower.
    return end if end.epoch < last_fetched_epoch or end.end_offset < fetch_offset else None


def end_of_epoch(log: EpochLog, epoch: int) -> EpochEnd:
    """D2: the highest epoch <= `epoch`, and its end; without one, `epoch` ends where the log's lowest epoch starts."""
    end = log.epochs.end_offset_for(epoch, log.leo)
    if end is not None:
        return EpochEnd(*end)
    lowest = log.epochs.lowest()
    return EpochEnd(epoch, log.log_start if lowest is None else lowest[1])


def truncation_offset(log: EpochLog, leader_end: EpochEnd) -> int:
    """D3, D4: the follower keeps no more than both logs can have of the leader's epoch, whatever its HWM is."""
    return lower_end(end_of_epoch(log, leader_end.epoch).end_offset, leader_end.end_offset, log.leo)


def lower_end(own_end: int, leader_end: int, own_leo: int) -> int:
    """D3: the minimum includes the follower's own end of the epoch; the leader's end alone would keep records of an
    epoch that the leader never had."""
    return min(own_end, leader_end, own_leo)


def divergence_case(log: EpochLog, last_epoch: int, leader_end: EpochEnd) -> str:
    """Which divergence (D5) a follower's truncation is, as far as the follower can tell.

    C: ahead in the same epoch. D: ahead with a newer epoch. E: both went on in epochs of their own, seen as D or F
    here. F: the follower left the shared epoch before the leader did. G: no epoch in common.
    """
    own = end_of_epoch(log, leader_end.epoch)
    if leader_end.epoch == last_epoch:
        return "C"
    if log.epochs.end_offset_for(leader_end.epoch, log.leo) is None or own.end_offset <= log.log_start:
        return "G"
    return "F" if own.end_offset < leader_end.end_offset else "D/E"
