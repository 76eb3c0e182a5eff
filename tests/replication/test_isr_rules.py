"""The pure rules of the ISR."""

from __future__ import annotations

from uuid import UUID

import pytest

from insync.replication import isr
from insync.replication.fetch_session import CachedPartition, Session
from insync.replication.isr import Committed, PendingExpand, PendingRecovery, PendingShrink, Withdrawal
from insync.replication.leader import LONG_AGO, FollowerProgress


def position(offset: int) -> CachedPartition:
    cached = CachedPartition(Session(1, 2, 7), (UUID(int=1), 0))
    cached.fetch_offset = offset
    return cached


def test_a_fetch_at_the_leo_is_caught_up_now() -> None:
    """I1: level with the leader at this moment."""
    assert isr.caught_up_at(10, 10, 500, 10, 400, 300) == 500


def test_a_fetch_at_the_leo_of_the_previous_fetch_is_caught_up_then() -> None:
    """I1: a follower that is always one batch behind a busy leader stays in the ISR."""
    assert isr.caught_up_at(10, 20, 500, 10, 400, 300) == 400


def test_a_fetch_below_the_previous_leo_changes_nothing() -> None:
    """I1: it is falling behind."""
    assert isr.caught_up_at(9, 20, 500, 10, 400, 300) == 300


def test_caught_up_is_level_or_within_the_lag_time() -> None:
    """I1: an idle follower that is level is in sync however long ago it last fetched."""
    assert isr.is_caught_up(10, 10, 0, 1_000_000, 30)
    assert isr.is_caught_up(9, 10, 100, 130, 30)
    assert not isr.is_caught_up(9, 10, 100, 131, 30)


def test_a_slow_follower_that_never_reaches_an_old_leo_falls_behind() -> None:
    """I1: fetching alone is not catching up."""
    progress = FollowerProgress(2)
    progress.reset(0)
    for now, (offset, leo) in enumerate([(0, 10), (5, 20), (10, 30), (15, 40)], start=1):
        progress.record_fetch(position(offset), 7, leo, now * 100)
    assert progress.last_caught_up_ms == 0, "it never had what the leader had one fetch earlier"


def test_the_first_fetch_of_an_epoch_below_the_leo_is_not_caught_up() -> None:
    """I1: there is no previous fetch to be level with."""
    progress = FollowerProgress(2)
    progress.record_fetch(position(3), 7, 10, 100)
    assert progress.last_caught_up_ms == LONG_AGO
    assert (progress.leo, progress.broker_epoch, progress.fetched_in_epoch) == (3, 7, True)


@pytest.mark.parametrize(
    ("state", "maximal"),
    [
        (Committed((1, 2)), (1, 2)),
        (PendingExpand(Committed((1, 2)), (1, 2, 3), (), 0, 0), (1, 2, 3)),
        (PendingShrink(Committed((1, 2, 3)), (1,), (), 0, 0), (1, 2, 3)),
        (PendingRecovery(Committed((1,)), (1,), (), 0, 0), (1,)),
        (Withdrawal(Committed((1, 2)), (1, 2), (), 0, 0, (1, 2, 3)), (1, 2, 3)),
    ],
)
def test_the_maximal_isr_is_the_union_of_committed_and_proposed(state: isr.IsrState, maximal: tuple[int, ...]) -> None:
    """I3: whether the proposal is accepted or not, it includes every member of the controller's ISR."""
    assert state.maximal_isr == maximal
    assert state.isr == (state if isinstance(state, Committed) else state.committed).isr


def test_only_a_higher_partition_epoch_is_newer() -> None:
    """M3: the response and the metadata log may bring the same change twice."""
    assert isr.is_newer(5, 4)
    assert not isr.is_newer(4, 4)
    assert not isr.is_newer(3, 4)
