"""Divergence on real logs: the seven cases (D5), and the lookups that they use."""

from __future__ import annotations

import pytest

from insync.replication import divergence
from insync.replication.divergence import EpochEnd
from insync.storage.config import LogConfig
from insync.storage.log import Log
from tests.replication.replication_harness import TOPIC, TOPIC_ID, Harness, epochs_of, partition, records


def write_log(harness: Harness, broker: int, epochs: list[int]) -> Log:
    """A log with one record per epoch in `epochs`, as if replicated long ago."""
    log = harness[broker].store.create(TOPIC, 0, TOPIC_ID, LogConfig())
    for offset, epoch in enumerate(epochs):
        log.append_as_follower(bytes(records(1, b"e%d" % epoch, base_offset=offset, leader_epoch=epoch)))
    return log


CASES = [
    # case, leader's record epochs, follower's, new leader epoch, cut to (None: not cut)
    ("A", [1, 1, 1, 1], [1, 1], 2, None),
    ("B", [1, 1, 2, 2], [1, 1], 3, None),
    ("C", [1, 1], [1, 1, 1, 1], 2, 2),
    ("D", [1, 1], [1, 1, 2, 2], 3, 2),
    ("E", [1, 1, 3, 3], [1, 1, 2, 2], 4, 2),
    ("F", [1, 1], [1, 2, 2], 3, 1),
    ("G", [1, 3, 3], [2, 2], 4, 0),
]


@pytest.mark.parametrize(("case", "leader", "follower", "epoch", "cut"), CASES, ids=[case[0] for case in CASES])
def test_the_seven_cases_end_with_the_leaders_log(
    case: str, leader: list[int], follower: list[int], epoch: int, cut: int | None
) -> None:
    """D5: the follower is truncated to a prefix of the leader's log, and then copies the rest."""
    h = Harness((1, 2))
    write_log(h, 1, leader)
    write_log(h, 2, follower)
    h.apply(partition(1, epoch, replicas=(1, 2), isr=(1,)))
    h.run()
    assert epochs_of(h[2].replica()) == leader
    truncations = h[2].notes_of("truncated")
    if cut is None:
        assert truncations == []
    else:
        assert [(note["from_offset"], note["to_offset"]) for note in truncations] == [(len(follower), cut)]
        assert case in str(truncations[0]["case"])


def test_a_log_ahead_by_several_epochs_is_truncated_until_nothing_diverges() -> None:
    """D3: it repeats until no divergence is reported."""
    h = Harness((1, 2))
    write_log(h, 1, [1, 1, 4, 4])
    write_log(h, 2, [1, 2, 3, 3, 3])
    h.apply(partition(1, 6, replicas=(1, 2), isr=(1,)))
    h.run()
    assert epochs_of(h[2].replica()) == [1, 1, 4, 4]


def test_truncation_goes_below_the_high_watermark_if_the_epochs_say_so_and_not_to_it() -> None:
    """D4: the follower's HWM does not matter; here it is below the shared prefix, which stays."""
    h = Harness((1, 2))
    write_log(h, 1, [1, 1, 1])
    write_log(h, 2, [1, 1, 1, 2]).set_hwm(1)
    h.apply(partition(1, 3, replicas=(1, 2), isr=(1,)))
    h.run()
    assert [note["to_offset"] for note in h[2].notes_of("truncated")] == [3]


@pytest.mark.parametrize("position", [8, 16, 23])
@pytest.mark.parametrize("batch", [0, 1, 2])
def test_a_truncation_over_a_damaged_header_keeps_everything_below_it(batch: int, position: int) -> None:
    """D3, D6: the length, the magic byte or the last offset delta of a batch before, at or after the truncation offset
    is damaged. Damage below that offset is suspected at once, so that it is repaired."""
    h = Harness((1, 2))
    write_log(h, 1, [1, 1])
    log = write_log(h, 2, [1, 1, 2, 2])
    log.active.hints.clear()
    size = log.active.size // 4
    h[2].disk.rot(log.active.paths()[0], batch * size + position)
    h.apply(partition(1, 3, replicas=(1, 2), isr=(1,)))
    h.run()
    assert [note["to_offset"] for note in h[2].notes_of("truncated")] == [2]
    assert log.leo == 2
    suspected = h[2].notes_of("batch_suspected")
    assert bool(suspected) == (batch < 2)


def test_a_deposed_leader_that_wrote_nothing_in_its_epoch_loses_only_that_epoch() -> None:
    """D3: its last epoch has no records; the leader never had that epoch, and nothing is truncated."""
    h = Harness((1, 2))
    write_log(h, 1, [1, 1])
    write_log(h, 2, [1, 1])
    h.apply(partition(2, 2, replicas=(1, 2), isr=(1, 2)), 2)
    assert h[2].replica().log.epochs.last_epoch == 2
    h.apply(partition(1, 3, version=1, replicas=(1, 2), isr=(1, 2)))
    h.run()
    assert epochs_of(h[2].replica()) == [1, 1]
    assert h[2].replica().log.epochs.last_epoch == 1
    h.write(1)
    h.run()
    assert epochs_of(h[2].replica()) == [1, 1, 3]


def test_the_end_of_an_epoch_is_the_start_of_the_next_or_the_leo() -> None:
    """D1, D2: the highest epoch not above the requested one; below all of them, where the lowest starts."""
    log = write_log(Harness((1,)), 1, [2, 2, 5, 5, 5])
    assert divergence.end_of_epoch(log, 5) == EpochEnd(5, 5)
    assert divergence.end_of_epoch(log, 9) == EpochEnd(5, 5)
    assert divergence.end_of_epoch(log, 4) == EpochEnd(2, 2)
    assert divergence.end_of_epoch(log, 1) == EpochEnd(1, 0)


@pytest.mark.parametrize(
    ("last_epoch", "offset", "expected"),
    [
        (-1, 0, None),
        (5, 5, None),
        (5, 3, None),
        (2, 2, None),
        (2, 3, EpochEnd(2, 2)),
        (4, 2, EpochEnd(2, 2)),
        (5, 6, EpochEnd(5, 5)),
        (1, 4, EpochEnd(1, 0)),
    ],
)
def test_the_leader_reports_a_lower_epoch_or_a_lower_end(
    last_epoch: int, offset: int, expected: EpochEnd | None
) -> None:
    """D2: the logs diverge if the epoch is lower than requested, or ends below the fetch offset."""
    log = write_log(Harness((1,)), 1, [2, 2, 5, 5, 5])
    assert divergence.find_divergence(log, last_epoch, offset) == expected


def test_a_diverging_response_has_no_records_and_moves_no_follower_state() -> None:
    """D2, F4: the fetch offset is not a position in the leader's log, so the leader learns nothing from it."""
    h = Harness((1, 2))
    write_log(h, 1, [1, 1])
    h.apply(partition(1, 3, replicas=(1, 2), isr=(1, 2)), 1)
    entry = h.follower_fetch(1, 2, 3, epoch=3, last_epoch=2)
    assert (entry.diverging_epoch.epoch, entry.diverging_epoch.end_offset, entry.records) == (1, 2, b"")
    leader = h.leader()
    assert leader is not None
    assert not leader.followers[2].fetched_in_epoch
    assert h[1].replica().log.hwm == 0
