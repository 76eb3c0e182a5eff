"""Truncating a log at its end, as a diverged follower does, and at its start."""

from __future__ import annotations

import pytest

from insync.wire.errors import ErrorCode
from tests.storage.storage_harness import LogHarness, content, shape


@pytest.fixture
def harness() -> LogHarness:
    """Offsets 0-11 in batches of two, epochs 1 1 2 2 4 4, over several segments."""
    harness = LogHarness(segment_bytes=200, index_interval_bytes=1)
    for epoch in (1, 1, 2, 2, 4, 4):
        harness.append(2, epoch=epoch)
    assert len(harness.log.segments) == 3
    return harness


@pytest.mark.parametrize("offset", range(13))
def test_a_truncated_log_is_exactly_a_prefix(harness: LogHarness, offset: int) -> None:
    """D4: epochs, high watermark and recovery point follow."""
    before, whole, epochs = shape(harness.log), content(harness.log), harness.log.epochs.entries
    harness.log.flush()
    harness.log.set_hwm(12)
    harness.log.truncate_to(offset)
    log = harness.log
    end = offset - offset % 2
    assert shape(log) == [row for row in before if row[1] < end]
    assert whole.startswith(content(log))
    assert log.leo == log.hwm == log.recovery_point == end
    assert log.epochs.entries == [entry for entry in epochs if entry[1] < end]
    assert harness.append(1, epoch=9) == end
    assert log.epochs.end_offset_for(9, log.leo) == (9, end + 1)


def test_a_truncation_that_removes_no_batch_still_removes_an_epoch_without_records(harness: LogHarness) -> None:
    """D3: a leader that wrote nothing must not keep its epoch when it follows another."""
    harness.log.epochs.assign(7, 12)
    assert harness.log.epochs.last_epoch == 7
    harness.log.truncate_to(12)
    assert harness.log.epochs.last_epoch == 4
    assert harness.log.leo == 12


def test_a_truncation_is_durable_before_anything_is_written_over_it(harness: LogHarness) -> None:
    """D4: else old bytes could come back behind new ones."""
    harness.log.flush()
    harness.log.truncate_to(8)
    syncs = harness.disk.syncs
    harness.append(1, epoch=5)
    assert harness.disk.syncs > syncs
    last = harness.log.segments[-1].paths()[0]
    assert harness.disk.unsynced_bytes(last) > 0, "the new batch itself need not be"
    lowered: list[int] = []
    harness.log.stored_recovery_point = 9
    harness.log.on_offsets_lowered = lambda: lowered.append(harness.log.recovery_point)
    harness.log.truncate_to(4)
    assert lowered == []
    harness.append(1, epoch=6)
    assert lowered == [4]


def test_only_the_first_append_after_a_truncation_syncs(harness: LogHarness) -> None:
    harness.log.truncate_to(8)
    harness.append(1, epoch=4)
    syncs = harness.disk.syncs
    harness.append(1, epoch=4)
    assert harness.disk.syncs == syncs


def test_truncating_fully_starts_an_empty_log_elsewhere(harness: LogHarness) -> None:
    """F7"""
    harness.log.truncate_fully(50)
    log = harness.log
    assert (log.log_start, log.leo, log.hwm, log.epochs.last_epoch, log.size_bytes) == (50, 50, 50, -1, 0)
    assert harness.append(2, epoch=8) == 50
    log = harness.open()
    assert (log.log_start, log.leo, log.epochs.entries) == (50, 52, [(8, 50)])


def test_a_truncation_below_the_first_segment_empties_the_log(harness: LogHarness) -> None:
    harness.log.truncate_fully(50)
    harness.append(2)
    harness.log.truncate_to(20)
    assert (harness.log.log_start, harness.log.leo) == (20, 20)


def test_deleting_records_moves_the_log_start_but_never_past_the_high_watermark(harness: LogHarness) -> None:
    log = harness.log
    log.set_hwm(9)
    assert log.delete_records(10) is ErrorCode.offset_out_of_range
    assert log.delete_records(5) == 5
    assert [segment.base for segment in log.segments] == [4, 8]
    assert log.epochs.entries == [(2, 5), (4, 8)]
    assert log.delete_records(-1) == 9
    assert [segment.base for segment in log.segments] == [8]
    log.raise_log_start(3)
    assert log.log_start == 9


def test_retention_by_time_never_passes_the_high_watermark() -> None:
    harness = LogHarness(segment_bytes=1, retention_ms=100)
    for timestamp in (0, 10, 20, 1_000):
        harness.append(1, timestamp=timestamp)
    log = harness.log
    assert log.apply_retention(500) == 0, "nothing is committed"
    log.set_hwm(2)
    assert log.apply_retention(500) == 2
    assert log.log_start == 2
    log.set_hwm(4)
    assert log.apply_retention(500) == 1
    assert (log.log_start, log.leo) == (3, 4)


def test_an_idle_log_becomes_empty() -> None:
    harness = LogHarness(retention_ms=100)
    harness.append(3, timestamp=0)
    harness.log.set_hwm(3)
    assert harness.log.apply_retention(5_000) == 1
    assert (harness.log.log_start, harness.log.leo, harness.log.size_bytes) == (3, 3, 0)
    assert harness.append(1) == 3


def test_retention_by_size_keeps_at_least_the_configured_size() -> None:
    harness = LogHarness(segment_bytes=1, retention_ms=-1)
    for _ in range(10):
        harness.append(1)
    size = harness.log.size_bytes // 10
    harness.log.set_hwm(10)
    harness.log.config = type(harness.config)(segment_bytes=1, retention_ms=-1, retention_bytes=3 * size + 1)
    assert harness.log.apply_retention(0) == 6
    assert harness.log.log_start == 6


def test_a_deleted_log_makes_room_for_another(harness: LogHarness) -> None:
    """T7"""
    path = harness.log.delete()
    assert harness.disk.listdir("data") == [path.removeprefix("data/")]
    assert harness.open().leo == 0


def test_truncated_epochs_are_gone_from_the_checkpoint_before_the_next_append(harness: LogHarness) -> None:
    """D1, D4: batches of an older epoch may follow, and below the recovery point recovery trusts the checkpoint."""
    harness.log.truncate_to(4)
    assert harness.append(2, epoch=1) == 4
    assert harness.disk.open(harness.path("leader-epoch-checkpoint")).read(0, 99) == b"0\n1\n1 0\n"
    harness.log.roll()
    harness.append(2, epoch=1)
    harness.log.flush()
    harness.disk.crash()
    assert harness.open(recovery_point=harness.log.leo).epochs.entries == [(1, 0)]
