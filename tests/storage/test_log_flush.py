"""When a log becomes durable."""

from __future__ import annotations

from random import Random

import pytest

from insync.sim.engine.disk import SimDisk
from insync.storage.config import LogConfig
from insync.storage.log_store import LogStore
from tests.storage.storage_harness import TOPIC_ID, LogHarness, batch, shape


def end_after_power_loss(harness: LogHarness, seed: int = 1) -> int:
    recovery_point = harness.log.recovery_point
    harness.disk.lossy_crash(Random(seed))
    return harness.open(recovery_point=recovery_point).leo


@pytest.mark.parametrize("seed", range(8))
def test_with_flush_messages_of_one_every_append_survives_a_power_loss(seed: int) -> None:
    harness = LogHarness(flush_messages=1, segment_bytes=300)
    for _ in range(10):
        harness.append(1)
        assert harness.log.recovery_point == harness.log.leo
    assert end_after_power_loss(harness, seed) == 10


def test_every_n_records_the_append_itself_flushes() -> None:
    harness = LogHarness(flush_messages=5)
    points = []
    for _ in range(4):
        harness.append(2)
        points.append(harness.log.recovery_point)
    assert points == [0, 0, 6, 6]


def test_a_follower_flushes_by_the_same_policy() -> None:
    leader = LogHarness()
    leader.append(3)
    follower = LogHarness(flush_messages=2)
    follower.log.append_as_follower(leader.log.read(0, 1000, limit_offset=3))
    assert follower.log.recovery_point == 3


def test_data_is_due_for_a_flush_after_flush_ms() -> None:
    harness = LogHarness(flush_ms=100)
    assert not harness.log.is_flush_due(0)
    harness.append()
    assert not harness.log.is_flush_due(50)
    assert not harness.log.is_flush_due(149)
    assert harness.log.is_flush_due(150)
    job = harness.log.begin_flush()
    assert not harness.log.is_flush_due(1_000), "one at a time"
    job.run()
    harness.log.finish_flush(job)
    assert harness.log.recovery_point == 1
    assert not harness.log.is_flush_due(10_000)


def test_a_closed_segment_is_due_for_a_flush_at_once() -> None:
    harness = LogHarness()
    harness.append()
    assert not harness.log.is_flush_due(0)
    harness.log.roll()
    assert harness.log.is_flush_due(0)


def test_a_flush_covers_what_was_there_when_it_began() -> None:
    harness = LogHarness()
    harness.append()
    job = harness.log.begin_flush()
    harness.append()
    job.run()
    harness.log.finish_flush(job)
    assert (job.end_offset, harness.log.recovery_point) == (1, 1)


def test_a_flush_does_not_count_if_the_log_was_truncated_meanwhile() -> None:
    """D4: the offsets that it covered have been rewritten since."""
    harness = LogHarness()
    for _ in range(4):
        harness.append()
    job = harness.log.begin_flush()
    job.run()
    harness.log.truncate_to(1)
    harness.append(5, epoch=2)
    harness.log.finish_flush(job)
    assert harness.log.recovery_point <= 1


def test_a_flush_may_run_after_its_log_was_deleted() -> None:
    harness = LogHarness(segment_bytes=1)
    harness.append()
    harness.append()
    job = harness.log.begin_flush()
    path = harness.log.delete()
    syncs = harness.disk.syncs
    job.run()
    assert harness.disk.syncs > syncs
    assert harness.disk.listdir("data") == [path.removeprefix("data/")]


@pytest.mark.parametrize("seed", range(10))
def test_a_flush_across_segments_survives_a_power_loss(seed: int) -> None:
    harness = LogHarness(segment_bytes=150)
    for _ in range(6):
        harness.append(2)
    rows = shape(harness.log)
    harness.log.flush()
    harness.append(2)
    assert end_after_power_loss(harness, seed) >= 12
    assert shape(harness.log)[:6] == rows


@pytest.mark.parametrize("seed", range(20))
def test_an_epoch_is_durable_before_the_recovery_point_passes_it(seed: int) -> None:
    """T1, D1: recovery reads no segment below the recovery point, so the file must have the epoch."""
    harness = LogHarness(segment_bytes=1)
    harness.append(2, epoch=1)
    harness.append(2, epoch=5)
    harness.log.flush()
    harness.append(2, epoch=5)
    assert end_after_power_loss(harness, seed) >= 4
    assert harness.log.epochs.entries == [(1, 0), (5, 2)]


def test_an_epoch_that_starts_within_the_active_segment_is_durable_once_that_is_flushed_and_closed() -> None:
    """D1: the recovery point does not move when the next segment begins there."""
    harness = LogHarness()
    harness.append(2, epoch=1)
    harness.log.flush()
    harness.append(2, epoch=5)
    harness.log.flush()
    harness.log.roll()
    harness.append(1, epoch=5)
    end_after_power_loss(harness)
    assert harness.log.epochs.entries == [(1, 0), (5, 2)]


def test_assigning_an_epoch_does_not_wait_for_the_disk() -> None:
    """T1: a broker that takes over a thousand partitions must not sync a thousand files before it serves the first."""
    harness = LogHarness()
    harness.append(2, epoch=1)
    before = harness.disk.syncs
    harness.log.epochs.assign(5, 2)
    harness.append(1, epoch=5)
    assert harness.disk.syncs == before


@pytest.mark.parametrize("seed", range(20))
def test_the_topic_id_is_durable_with_the_first_flush(seed: int) -> None:
    """T7: a directory without a topic id is not used."""
    disk = SimDisk()
    store = LogStore(disk, "data")
    store.start()
    log = store.create("t", 0, TOPIC_ID, LogConfig())
    data, header = batch(1)
    log.append_as_leader(data, header, 1, 0)
    log.flush()
    disk.lossy_crash(Random(seed))
    store = LogStore(disk, "data")
    store.start()
    assert store.logs[TOPIC_ID, 0].leo == 1


def test_a_flush_to_a_failing_disk_raises() -> None:
    harness = LogHarness()
    harness.append()
    harness.disk.failing = True
    with pytest.raises(OSError, match="Input/output"):
        harness.log.flush()
    assert harness.log.recovery_point == 0
