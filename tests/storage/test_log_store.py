"""All logs of a broker, through clean and unclean stops."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from insync.sim.engine.disk import SimDisk
from insync.storage import disk as disks
from insync.storage.config import LogConfig
from insync.storage.log import Log
from insync.storage.log_store import LogStore
from insync.wire.batch import HEADER_SIZE
from tests.storage.storage_harness import batch

A, B = UUID(int=10), UUID(int=11)


def start_store(disk: SimDisk) -> LogStore:
    store = LogStore(disk, "data")
    store.start()
    return store


def write(log: Log, batches: int = 1, epoch: int = 1) -> None:
    for _ in range(batches):
        data, header = batch(2)
        log.append_as_leader(data, header, epoch, 0)


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def test_a_clean_stop_keeps_its_broker_epoch_for_one_start(disk: SimDisk) -> None:
    """B5"""
    store = LogStore(disk, "data")
    assert store.start() == -1
    write(store.create("a", 0, A, LogConfig()), 3)
    store.close_cleanly(42)
    store = LogStore(disk, "data")
    assert store.start() == 42
    assert store.clean
    log = store.get(A, 0)
    assert log is not None
    assert (log.leo, log.recovery) == (6, None)
    assert LogStore(disk, "data").start() == -1, "the file is gone"


@pytest.mark.parametrize("seed", range(20))
def test_a_clean_stop_survives_a_power_loss(disk: SimDisk, seed: int) -> None:
    """B5: every log is flushed before the file is written."""
    store = start_store(disk)
    for index in range(3):
        write(store.create("a", index, A, LogConfig(segment_bytes=200)), 4)
    store.close_cleanly(42)
    assert disk.lossy_crash(Random(seed), corrupt=True) == {}
    again = LogStore(disk, "data")
    assert again.start() == 42
    assert [log.leo for log in again.logs.values()] == [8, 8, 8]


def test_opening_a_thousand_logs_after_a_clean_stop_reads_one_header_of_each(disk: SimDisk) -> None:
    store = start_store(disk)
    for index in range(1_000):
        write(store.create("a", index, A, LogConfig()))
    store.close_cleanly(1)
    disk.bytes_read.clear()
    store = start_store(disk)
    assert len(store.logs) == 1_000
    reads = [size for path, size in disk.bytes_read.items() if path.endswith(".log")]
    assert reads == [HEADER_SIZE] * 1_000
    assert not any(segment.is_open for log in store.logs.values() for segment in log.segments)


def test_high_watermarks_and_log_starts_come_back_after_a_crash(disk: SimDisk) -> None:
    store = start_store(disk)
    log = store.create("a", 0, A, LogConfig())
    write(log, 3)
    log.set_hwm(4)
    log.delete_records(3)
    path, data = store.checkpoint_high_watermarks()
    disks.write_atomically(disk, path, data)
    store.checkpoint_log_starts()
    assert data == b"0\n1\na 0 4\n"
    disk.crash()
    store = start_store(disk)
    log = store.logs[A, 0]
    assert (log.log_start, log.hwm, log.leo) == (3, 4, 6)
    assert not store.clean


def create_flushed_log(disk: SimDisk) -> Log:
    """A log of three batches whose recovery point, its end, is on disk."""
    store = start_store(disk)
    log = store.create("a", 0, A, LogConfig())
    write(log, 3)
    log.flush()
    store.checkpoint_recovery_points()
    return log


def test_only_what_lies_above_the_recovery_point_is_checked_after_a_crash(disk: SimDisk) -> None:
    log = create_flushed_log(disk)
    write(log, 1)
    disk.crash()
    report = start_store(disk).logs[A, 0].recovery
    assert report is not None
    assert report.recovery_point == 6
    assert report.checked_bytes == log.size_bytes // 4


def test_a_truncation_lowers_the_recovery_point_on_disk_before_the_next_append(disk: SimDisk) -> None:
    """D4: else recovery would trust bytes that were never synced."""
    log = create_flushed_log(disk)
    log.truncate_to(2)
    write(log, 1, epoch=2)
    assert disks.read_all(disk, "data/recovery-point-offset-checkpoint") == b"0\n1\na 0 2\n"


def test_a_topic_created_again_with_its_old_name_starts_empty(disk: SimDisk) -> None:
    """T7: nothing of the earlier topic, no record and no checkpoint, is taken for the new one's."""
    store = start_store(disk)
    write(store.create("a", 0, A, LogConfig()), 3)
    store.logs[A, 0].set_hwm(6)
    store.logs[A, 0].delete_records(3)
    store.close_cleanly(1)
    store = start_store(disk)
    log = store.create("a", 0, B, LogConfig())
    assert store.get(A, 0) is None
    assert (log.leo, log.log_start) == (0, 0)
    disk.crash()
    log = start_store(disk).logs[B, 0]
    assert (log.leo, log.log_start, log.hwm) == (0, 0, 0)


def test_creating_an_existing_log_returns_it(disk: SimDisk) -> None:
    store = start_store(disk)
    log = store.create("a", 0, A, LogConfig())
    assert store.create("a", 0, A, LogConfig()) is log
    assert store.names() == {("a", 0): (A, 0)}


@pytest.mark.parametrize("seed", range(20))
def test_a_deleted_log_stays_deleted(disk: SimDisk, seed: int) -> None:
    """T7"""
    store = start_store(disk)
    log = store.create("a", 0, A, LogConfig())
    write(log, 3)
    log.flush()
    store.delete(A, 0)
    store.delete(A, 0)
    store.sweep()
    disk.lossy_crash(Random(seed))
    store = start_store(disk)
    assert store.logs == {}
    assert [name for name in disk.listdir("data") if "a-0" in name] == []


def test_directories_that_are_not_logs_are_left_alone(disk: SimDisk) -> None:
    for name in ("data/lost+found", "data/x-y", "data/a-7"):
        disk.mkdir(name)
    store = start_store(disk)
    assert store.logs == {}
    assert disk.listdir("data") == ["a-7", "lost+found", "x-y"]
    disk.open("data/a-7/00000000000000000000.log").append(b"?" * 100)
    assert store.create("a", 7, A, LogConfig()).leo == 0


def test_many_logs_stop_and_start_with_few_syncs(disk: SimDisk) -> None:
    """B5, D1, D4: after a clean stop with epochs in which nothing was written, and after a crash."""
    store = start_store(disk)
    many = 50
    for index in range(many):
        write(store.create("a", index, A, LogConfig()), 3)
        store.logs[A, index].epochs.assign(9, 6)
    before = disk.syncs
    store.close_cleanly(5)
    store = start_store(disk)
    assert [log.epochs.last_epoch < 9 for log in store.logs.values()] == [True] * many
    disk.crash()
    store = start_store(disk)
    for log in store.logs.values():
        write(log, 1)
    assert disk.syncs - before < many


def test_a_checkpoint_takes_effect_when_its_files_are_synced(disk: SimDisk) -> None:
    """B5: written off the event loop, renamed on it."""
    store = start_store(disk)
    log = store.create("a", 0, A, LogConfig())
    write(log, 3)
    log.flush()
    job = store.begin_checkpoint()
    assert not disk.exists("data/recovery-point-offset-checkpoint")
    job.run()
    store.finish_checkpoint(job)
    assert disks.read_all(disk, "data/recovery-point-offset-checkpoint") == b"0\n1\na 0 6\n"


def test_a_checkpoint_begun_before_a_truncation_does_not_undo_it(disk: SimDisk) -> None:
    """D4: (1) a checkpoint begins with recovery point 6; (2) the log is truncated at 2 and written over; (3) the
    checkpoint is done. With 6 in the file, a crash would leave unsynced bytes that recovery does not check."""
    store = start_store(disk)
    log = store.create("a", 0, A, LogConfig())
    write(log, 3)
    log.flush()
    job = store.begin_checkpoint()
    log.truncate_to(2)
    write(log, 1, epoch=2)
    job.run()
    store.finish_checkpoint(job)
    assert disks.read_all(disk, "data/recovery-point-offset-checkpoint") == b"0\n1\na 0 2\n"
