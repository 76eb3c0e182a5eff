"""Opening a log: after a clean stop without reading it, after an unclean stop from what is on disk."""

from __future__ import annotations

from random import Random

import pytest

from insync.storage import disk as disks
from insync.storage import epoch_cache
from insync.storage.recovery import RecoveryReport
from insync.storage.segment import Segment
from tests.storage.storage_harness import LogHarness, content, shape

NAMES = ("00000000000000000000", "00000000000000000004", "00000000000000000008")


@pytest.fixture
def harness() -> LogHarness:
    """Offsets 0-9 in batches of two, epochs 1 1 2 2 4, in segments at 0, 4 and 8, nothing flushed."""
    harness = LogHarness(segment_bytes=200, index_interval_bytes=1)
    for epoch in (1, 1, 2, 2, 4):
        harness.append(2, epoch=epoch, producer_id=9, producer_epoch=0, base_sequence=harness.log.leo)
    assert [segment.base for segment in harness.log.segments] == [0, 4, 8]
    return harness


def crash_and_recover(harness: LogHarness, recovery_point: int = 0) -> RecoveryReport:
    harness.disk.crash()
    harness.disk.bytes_read.clear()
    report = harness.open(recovery_point=recovery_point).recovery
    assert report is not None
    return report


def damage(harness: LogHarness, name: str, position: int) -> None:
    file = harness.disk.open(harness.path(name))
    data = bytearray(file.read(0, file.size))
    data[position] ^= 0xFF
    file.truncate(0)
    file.append(bytes(data))


def test_a_clean_restart_reads_no_log_data(harness: LogHarness) -> None:
    harness.log.set_hwm(7)
    before, rows = content(harness.log), shape(harness.log)
    harness.disk.bytes_read.clear()
    log = harness.reopen_clean()
    assert harness.bytes_read() == 0
    assert log.recovery is None
    assert (log.leo, log.recovery_point, log.epochs.last_epoch) == (10, 10, 4)
    assert log.producers.producers[9].last_sequence == 9
    assert content(log) == before
    assert shape(log) == rows
    assert harness.append(1, epoch=4) == 10


def test_a_segment_without_index_entries_has_no_index_files(harness: LogHarness) -> None:
    """A thousand small partitions would have two thousand files, to save reading a few headers."""
    newest = harness.log.max_timestamp
    harness.reopen_clean()
    assert [harness.disk.exists(harness.path(f"{name}.index")) for name in NAMES] == [True, True, False]
    assert harness.log.max_timestamp == newest
    assert harness.log.offset_for_timestamp(newest, 10) == (0, newest)


def test_truncated_index_entries_are_removed_on_disk_too(harness: LogHarness) -> None:
    harness.append(2, epoch=4)
    harness.reopen_clean()
    assert harness.disk.size(harness.path(f"{NAMES[2]}.index")) > 0
    harness.log.truncate_to(10)
    harness.reopen_clean()
    assert harness.disk.size(harness.path(f"{NAMES[2]}.index")) == 0
    assert content(harness.log)


def test_a_clean_restart_keeps_the_indexes(harness: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.append(2, epoch=4)
    harness.reopen_clean()
    monkeypatch.delattr(Segment, "rebuild_index")
    content(harness.log)
    assert harness.log.max_timestamp == 1_000


def test_a_process_crash_loses_nothing_that_was_written(harness: LogHarness) -> None:
    before, epochs = content(harness.log), harness.log.epochs.entries
    report = crash_and_recover(harness)
    assert (report.end_offset, report.truncated_bytes, report.dropped_segments) == (10, 0, 0)
    assert content(harness.log) == before
    assert harness.log.epochs.entries == epochs
    assert harness.log.producers.producers[9].last_sequence == 9
    assert harness.log.recovery_point == 0


def test_of_segments_below_the_recovery_point_only_the_end_is_read() -> None:
    harness = LogHarness(segment_bytes=50_000, index_interval_bytes=500)
    for _ in range(60):
        harness.append(1, value=b"v" * 1_000)
    harness.log.flush()
    report = crash_and_recover(harness, recovery_point=harness.log.leo)
    sizes = [segment.size for segment in harness.log.segments]
    assert len(sizes) == 2
    assert harness.disk.bytes_read[harness.path(NAMES[0] + ".log")] < sizes[0] / 3
    assert (report.checked_bytes, report.is_truncated, harness.log.leo) == (0, False, 60)


@pytest.mark.parametrize("damage", ["removed", "truncated", "emptied"])
def test_a_damaged_segment_below_the_recovery_point_ends_the_log(harness: LogHarness, damage: str) -> None:
    """B5: synced data is missing. What lies behind it is no longer part of the log, and is set aside."""
    harness.log.flush()
    name = harness.path(NAMES[1] + ".log")
    if damage == "removed":
        harness.disk.remove(name)
    else:
        size = harness.disk.size(name)
        harness.disk.open(name).truncate(size - 5 if damage == "truncated" else 0)
    end = harness.log.leo
    report = crash_and_recover(harness, recovery_point=end)
    assert report.below_recovery_point
    assert report.damaged_segment in (0, int(NAMES[1]))
    assert harness.log.leo <= int(NAMES[2])
    assert [header.next_offset for header in harness.log.iter_headers(0, end)][-1] == harness.log.leo
    assert any(name.endswith("-dropped") for name in harness.disk.listdir(harness.path("").rstrip("/")))


def test_an_old_epoch_checkpoint_is_not_used() -> None:
    """D1: recovery takes epochs below the recovery point from the file, unless batches contradict it."""
    harness = LogHarness(segment_bytes=200)
    for epoch in (1, 1, 2, 2, 3, 3, 4, 4):
        harness.append(1, epoch=epoch)
    harness.log.flush()
    entries = harness.log.epochs.entries
    disks.write_plainly(harness.disk, harness.path("leader-epoch-checkpoint"), b"0\n1\n1 0\n")
    report = crash_and_recover(harness, recovery_point=harness.log.leo)
    assert report.epochs_rebuilt
    assert harness.log.epochs.entries == entries


def test_below_the_recovery_point_only_headers_are_read() -> None:
    harness = LogHarness()
    for _ in range(20):
        harness.append(1, value=b"v" * 50_000)
    harness.log.flush()
    harness.append(1, value=b"v" * 50_000)
    report = crash_and_recover(harness, recovery_point=20)
    assert report.checked_bytes < 51_000
    assert harness.bytes_read() < 51_000 + 3 * 21 * 4_096
    assert harness.log.leo == 21


@pytest.mark.parametrize("position", [0, 8, 16, 17, 40, 61, 65])
def test_a_corrupt_batch_and_all_after_it_are_truncated(harness: LogHarness, position: int) -> None:
    length = harness.log.segments[0].size // 2
    damage(harness, NAMES[1] + ".log", length + position)
    report = crash_and_recover(harness)
    assert harness.log.leo == report.end_offset == 6
    assert [segment.base for segment in harness.log.segments] == [0, 4]
    assert report.dropped_segments == 1
    assert harness.log.epochs.entries == [(1, 0), (2, 4)]
    assert harness.log.producers.producers[9].last_sequence == 5
    assert harness.append(1, epoch=5) == 6


@pytest.mark.parametrize("missing", [1, 30, 61, 70])
def test_a_torn_tail_is_truncated_after_the_last_sound_batch(harness: LogHarness, missing: int) -> None:
    file = harness.disk.open(harness.path(NAMES[2] + ".log"))
    file.truncate(file.size - missing)
    report = crash_and_recover(harness)
    assert (report.end_offset, report.truncated_bytes) == (8, max(0, batch_size(harness) - missing))
    assert harness.append(1, epoch=5) == 8


def batch_size(harness: LogHarness) -> int:
    return harness.log.segments[0].size // 2


def test_a_log_shorter_than_its_recovery_point_is_reported(harness: LogHarness) -> None:
    harness.log.flush()
    file = harness.disk.open(harness.path(NAMES[2] + ".log"))
    file.truncate(20)
    report = crash_and_recover(harness, recovery_point=10)
    assert report.below_recovery_point
    assert (harness.log.leo, harness.log.recovery_point) == (8, 8)


def test_a_missing_segment_drops_everything_after_it(harness: LogHarness) -> None:
    harness.disk.remove(harness.path(NAMES[1] + ".log"))
    report = crash_and_recover(harness)
    assert (harness.log.leo, report.dropped_segments) == (4, 1)
    assert not harness.disk.exists(harness.path(NAMES[1] + ".index"))
    assert not harness.disk.exists(harness.path(NAMES[2] + ".log"))


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("how", ["missing", "short", "garbage"])
def test_indexes_are_rebuilt_when_they_cannot_be_right(harness: LogHarness, suffix: str, how: str) -> None:
    before = content(harness.log)
    harness.log.close()
    path = harness.path(NAMES[0] + suffix)
    if how == "missing":
        harness.disk.remove(path)
    else:
        file = harness.disk.open(path)
        file.truncate(0)
        file.append(b"\xff" * (5 if how == "short" else 24))
    log = harness.open(recovery_point=10, clean=True)
    assert content(log) == before
    assert log.max_timestamp == 1_000
    for offset in range(10):
        assert log.read(offset, 1, limit_offset=10)


def test_an_index_with_wrong_positions_is_not_followed(harness: LogHarness) -> None:
    """Its values rise, but they are not positions of batches."""
    harness.log.close()
    file = harness.disk.open(harness.path(NAMES[0] + ".index"))
    file.truncate(0)
    file.append((1).to_bytes(4, "big") + (13).to_bytes(4, "big"))
    log = harness.open(recovery_point=10, clean=True)
    assert log.read(2, 1, limit_offset=10)[:8] == (2).to_bytes(8, "big")


@pytest.mark.parametrize(
    "checkpoint",
    [None, b"", b"0\n2\n1 0\n", b"0\n4\n1 0\n2 4\n4 8\n6 12\n", b"0\n2\n1 0\n7 6\n", b"0\n1\n9 0\n"],
)
def test_epochs_agree_with_the_batches_whatever_is_in_the_checkpoint(
    harness: LogHarness, checkpoint: bytes | None
) -> None:
    """D1: the checkpoint is missing, damaged, older or newer than the log."""
    harness.log.flush()
    path = harness.path("leader-epoch-checkpoint")
    harness.disk.remove(path)
    if checkpoint is not None:
        harness.disk.open(path).append(checkpoint)
    for recovery_point in (10, 0, 8, 6):
        crash_and_recover(harness, recovery_point)
        assert harness.log.epochs.entries == [(1, 0), (2, 4), (4, 8)], recovery_point


@pytest.mark.parametrize("checkpoint", [b"0\n0\n", b"0\n1\n1 0\n", b"0\n2\n1 0\n2 4\n"])
def test_epochs_that_the_checkpoint_lacks_come_from_the_checked_batches(harness: LogHarness, checkpoint: bytes) -> None:
    """D1"""
    disks.write_plainly(harness.disk, harness.path("leader-epoch-checkpoint"), checkpoint)
    crash_and_recover(harness, recovery_point=4)
    assert harness.log.epochs.entries == [(1, 0), (2, 4), (4, 8)]


@pytest.mark.parametrize("stop", ["clean", "power loss"])
def test_an_epoch_without_records_that_was_dropped_on_opening_does_not_come_back(
    harness: LogHarness, stop: str
) -> None:
    """D1: it led in epoch 5, wrote nothing, stopped cleanly, and then followed a leader that continued in epoch 4."""
    harness.log.epochs.assign(5, 10)
    log = harness.reopen_clean()
    assert log.epochs.last_epoch == 4
    harness.append(2, epoch=4)
    harness.log.roll()  # so that recovery takes the epoch of these records from the checkpoint
    if stop == "clean":
        harness.reopen_clean()
    else:
        harness.log.flush()
        harness.disk.lossy_crash(Random(1))
        harness.open(recovery_point=harness.log.leo)
    assert harness.log.epochs.entries == [(1, 0), (2, 4), (4, 8)]
    assert harness.log.epochs.end_offset_for(4, harness.log.leo) == (4, 12)


def test_epochs_dropped_on_opening_are_off_the_disk_before_anything_is_written(harness: LogHarness) -> None:
    """D1: records of a known epoch do not cause another write of the checkpoint."""
    harness.log.epochs.assign(5, 10)
    harness.reopen_clean()
    harness.disk.lossy_crash(Random(1))
    assert epoch_cache.read_checkpoint(harness.disk, harness.log.directory) == [(1, 0), (2, 4), (4, 8)]


def test_bytes_that_come_back_after_a_truncation_are_dropped(harness: LogHarness) -> None:
    """D4: an old batch that fits by offset and checksum is recognized by its older epoch."""
    old = harness.log.read(8, 1 << 20, limit_offset=10)
    harness.log.truncate_to(6)
    harness.append(2, epoch=5)
    file = harness.disk.open(harness.log.segments[-1].paths()[0])
    file.append(old)
    report = crash_and_recover(harness)
    assert (harness.log.leo, report.truncated_bytes) == (8, len(old))
    assert harness.log.epochs.entries == [(1, 0), (2, 4), (5, 6)]


@pytest.mark.parametrize("victims", [(4,), (8,), (4, 8)])
def test_producers_survive_lost_and_damaged_snapshots(harness: LogHarness, victims: tuple[int, ...]) -> None:
    """P4: the state is rebuilt from the log."""
    for offset in victims:
        damage(harness, f"{offset:020d}.snapshot", 3)
    crash_and_recover(harness, recovery_point=8)
    producer = harness.log.producers.producers[9]
    assert (producer.last_sequence, producer.last_offset) == (9, 9)


def test_a_snapshot_above_the_end_of_the_log_is_not_used(harness: LogHarness) -> None:
    """P4"""
    damage(harness, NAMES[1] + ".log", 70)
    crash_and_recover(harness)
    assert harness.log.leo == 4
    assert harness.log.producers.producers[9].last_sequence == 3
    assert not harness.disk.exists(harness.path(NAMES[2] + ".snapshot"))


def test_records_deleted_before_the_stop_stay_deleted(harness: LogHarness) -> None:
    report = crash_and_recover(harness)
    assert report.end_offset == 10
    log = harness.open(log_start=5)
    assert (log.log_start, log.epochs.entries) == (5, [(2, 5), (4, 8)])
    log = harness.open(log_start=20)
    assert (log.log_start, log.leo) == (20, 20)


def test_a_second_crash_during_recovery_changes_nothing(harness: LogHarness) -> None:
    damage(harness, NAMES[1] + ".log", 70)
    crash_and_recover(harness)
    rows = shape(harness.log)
    harness.disk.lossy_crash(Random(3))
    harness.open()
    assert shape(harness.log) == rows[: len(shape(harness.log))]
