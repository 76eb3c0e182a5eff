"""D1, and the lookup of D2: which offsets were written in which epoch."""

from __future__ import annotations

import pytest

from insync.sim.engine.disk import SimDisk
from insync.storage.epoch_cache import EpochCache, read_checkpoint


def cache(*entries: tuple[int, int]) -> EpochCache:
    disk = SimDisk()
    disk.mkdir("t-0")
    return EpochCache(disk, "t-0", entries)


@pytest.mark.parametrize(
    ("requested", "answer"),
    [(0, None), (1, (1, 10)), (2, (2, 20)), (3, (2, 20)), (5, (5, 35)), (9, (5, 35))],
)
def test_the_lookup_returns_the_highest_epoch_not_above_the_requested_one(
    requested: int, answer: tuple[int, int] | None
) -> None:
    """D1, D2: an epoch ends where the next one starts, the newest at the log's end."""
    epochs = cache((1, 5), (2, 10), (5, 20))
    assert epochs.end_offset_for(requested, 35) == answer
    assert epochs.lowest() == (1, 5)
    assert cache().end_offset_for(requested, 35) is None


def test_assigning_drops_what_it_contradicts() -> None:
    """D1: epochs in which nothing was written are dropped, and so are those that a truncation removed."""
    epochs = cache((1, 0), (2, 10))
    epochs.assign(3, 10)
    assert epochs.entries == [(1, 0), (3, 10)]
    epochs.assign(3, 15)
    epochs.assign(2, 12)
    assert epochs.entries == [(1, 0), (2, 12)]
    epochs.assign(4, 0)
    assert epochs.entries == [(4, 0)]
    assert epochs.last_epoch == 4


@pytest.mark.parametrize(("offset", "left"), [(0, []), (5, [(1, 0)]), (10, [(1, 0)]), (11, [(1, 0), (2, 10)])])
def test_truncating_the_end_drops_epochs_that_started_there_or_later(offset: int, left: list[tuple[int, int]]) -> None:
    """D3"""
    epochs = cache((1, 0), (2, 10))
    epochs.truncate_from_end(offset)
    assert epochs.entries == left
    assert epochs.dirty == (len(left) < 2)


@pytest.mark.parametrize(
    ("offset", "left"), [(0, [(1, 0), (2, 10)]), (5, [(1, 5), (2, 10)]), (10, [(2, 10)]), (30, [(2, 30)])]
)
def test_truncating_the_start_keeps_the_epoch_that_covers_it(offset: int, left: list[tuple[int, int]]) -> None:
    epochs = cache((1, 0), (2, 10))
    epochs.truncate_from_start(offset)
    assert epochs.entries == left
    assert epochs.epoch_at(offset - 1) == -1
    assert epochs.epoch_at(max(offset, 10)) == 2


def test_a_persisted_cache_reads_back() -> None:
    disk = SimDisk()
    disk.mkdir("t-0")
    assert read_checkpoint(disk, "t-0") is None
    epochs = EpochCache(disk, "t-0")
    epochs.assign(3, 0)
    assert epochs.dirty
    epochs.persist()
    assert not epochs.dirty
    assert read_checkpoint(disk, "t-0") == [(3, 0)]
