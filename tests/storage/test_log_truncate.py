"""Truncating a log at its end, as a diverged follower does, and at its start."""

from __future__ import annotations

import pytest

from insync.wire.errors import ErrorCode
from tests.storage.storage_bench import Bench, content, shape


@pytest.fixture
def bench() -> Bench:
    """Offsets 0-11 in batches of two, epochs 1 1 2 2 4 4, over several segments."""
    bench = Bench(segment_bytes=200, index_interval_bytes=1)
    for epoch in (1, 1, 2, 2, 4, 4):
        bench.append(2, epoch=epoch)
    assert len(bench.log.segments) == 3
    return bench


@pytest.mark.parametrize("offset", range(13))
def test_a_truncated_log_is_exactly_a_prefix(bench: Bench, offset: int) -> None:
    """D4: epochs, high watermark and recovery point follow."""
    before, whole, epochs = shape(bench.log), content(bench.log), bench.log.epochs.entries
    bench.log.flush()
    bench.log.set_hwm(12)
    bench.log.truncate_to(offset)
    log = bench.log
    end = offset - offset % 2
    assert shape(log) == [row for row in before if row[1] < end]
    assert whole.startswith(content(log))
    assert log.leo == log.hwm == log.recovery_point == end
    assert log.epochs.entries == [entry for entry in epochs if entry[1] < end]
    assert bench.append(1, epoch=9) == end
    assert log.epochs.end_offset_for(9, log.leo) == (9, end + 1)


def test_a_truncation_that_removes_no_batch_still_removes_an_epoch_without_records(bench: Bench) -> None:
    """D3: a leader that wrote nothing must not keep its epoch when it follows another."""
    bench.log.epochs.assign(7, 12)
    assert bench.log.epochs.last_epoch == 7
    bench.log.truncate_to(12)
    assert bench.log.epochs.last_epoch == 4
    assert bench.log.leo == 12


def test_a_truncation_is_durable_before_anything_is_written_over_it(bench: Bench) -> None:
    """D4: else old bytes could come back behind new ones."""
    bench.log.flush()
    bench.log.truncate_to(8)
    syncs = bench.disk.syncs
    bench.append(1, epoch=5)
    assert bench.disk.syncs > syncs
    last = bench.log.segments[-1].paths()[0]
    assert bench.disk.unsynced_bytes(last) > 0, "the new batch itself need not be"
    lowered: list[int] = []
    bench.log.stored_recovery_point = 9
    bench.log.on_offsets_lowered = lambda: lowered.append(bench.log.recovery_point)
    bench.log.truncate_to(4)
    assert lowered == []
    bench.append(1, epoch=6)
    assert lowered == [4]


def test_only_the_first_append_after_a_truncation_syncs(bench: Bench) -> None:
    bench.log.truncate_to(8)
    bench.append(1, epoch=4)
    syncs = bench.disk.syncs
    bench.append(1, epoch=4)
    assert bench.disk.syncs == syncs


def test_truncating_fully_starts_an_empty_log_elsewhere(bench: Bench) -> None:
    """F7"""
    bench.log.truncate_fully(50)
    log = bench.log
    assert (log.log_start, log.leo, log.hwm, log.epochs.last_epoch, log.size_bytes) == (50, 50, 50, -1, 0)
    assert bench.append(2, epoch=8) == 50
    log = bench.open()
    assert (log.log_start, log.leo, log.epochs.entries) == (50, 52, [(8, 50)])


def test_a_truncation_below_the_first_segment_empties_the_log(bench: Bench) -> None:
    bench.log.truncate_fully(50)
    bench.append(2)
    bench.log.truncate_to(20)
    assert (bench.log.log_start, bench.log.leo) == (20, 20)


def test_deleting_records_moves_the_log_start_but_never_past_the_high_watermark(bench: Bench) -> None:
    log = bench.log
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
    bench = Bench(segment_bytes=1, retention_ms=100)
    for timestamp in (0, 10, 20, 1_000):
        bench.append(1, timestamp=timestamp)
    log = bench.log
    assert log.apply_retention(500) == 0, "nothing is committed"
    log.set_hwm(2)
    assert log.apply_retention(500) == 2
    assert log.log_start == 2
    log.set_hwm(4)
    assert log.apply_retention(500) == 1
    assert (log.log_start, log.leo) == (3, 4)


def test_an_idle_log_becomes_empty() -> None:
    bench = Bench(retention_ms=100)
    bench.append(3, timestamp=0)
    bench.log.set_hwm(3)
    assert bench.log.apply_retention(5_000) == 1
    assert (bench.log.log_start, bench.log.leo, bench.log.size_bytes) == (3, 3, 0)
    assert bench.append(1) == 3


def test_retention_by_size_keeps_at_least_the_configured_size() -> None:
    bench = Bench(segment_bytes=1, retention_ms=-1)
    for _ in range(10):
        bench.append(1)
    size = bench.log.size_bytes // 10
    bench.log.set_hwm(10)
    bench.log.config = type(bench.config)(segment_bytes=1, retention_ms=-1, retention_bytes=3 * size + 1)
    assert bench.log.apply_retention(0) == 6
    assert bench.log.log_start == 6


def test_a_deleted_log_makes_room_for_another(bench: Bench) -> None:
    """T7"""
    path = bench.log.delete()
    assert bench.disk.listdir("data") == [path.removeprefix("data/")]
    assert bench.open().leo == 0


def test_truncated_epochs_are_gone_from_the_checkpoint_before_the_next_append(bench: Bench) -> None:
    """D1, D4: batches of an older epoch may follow, and below the recovery point recovery trusts the checkpoint."""
    bench.log.truncate_to(4)
    assert bench.append(2, epoch=1) == 4
    assert bench.disk.open(bench.path("leader-epoch-checkpoint")).read(0, 99) == b"0\n1\n1 0\n"
    bench.log.roll()
    bench.append(2, epoch=1)
    bench.log.flush()
    bench.disk.crash()
    assert bench.open(recovery_point=bench.log.leo).epochs.entries == [(1, 0)]
