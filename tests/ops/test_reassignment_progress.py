"""The progress of a reassignment from two samples of sizes and log end offsets (R6)."""

from __future__ import annotations

from insync.client.model import Partition, Reassignment
from insync.ops.reassignment.progress import ReplicaCopy, Sample, estimate_progress

MOVE = Reassignment(topic="t", partition=0, replicas=(3, 4, 1), adding=(3, 4), removing=(1,))
KEY = ("t", 0)


def sample(isr: tuple[int, ...] = (1,), **copies: tuple[int | None, int | None]) -> Sample:
    """`b3=(size, end)`"""
    partition = Partition(index=0, leader=1, leader_epoch=0, replicas=(3, 4, 1), isr=isr)
    return Sample(
        partitions={KEY: partition}, copies={(KEY, int(name[1:])): ReplicaCopy(*copy) for name, copy in copies.items()}
    )


def test_bytes_rate_time_and_the_slowest_replica() -> None:
    """R6: the replica with the most left is the blocker."""
    first = sample(b1=(1000, 100), b3=(0, 0), b4=(500, 50))
    second = sample(b1=(1000, 100), b3=(400, 40), b4=(900, 90))
    progress = estimate_progress(MOVE, first, second, 2.0)
    assert (progress.bytes_left, progress.bytes_per_s, progress.seconds_left) == (700, 400.0, 1.75)
    assert (progress.blocker, progress.reason) == (3, "broker 3 is copying, 60 records behind")


def test_a_replica_without_progress_has_no_estimate() -> None:
    still = sample(b1=(1000, 100), b3=(400, 40), b4=(1000, 100))
    progress = estimate_progress(MOVE, still, still, 1.0)
    assert (progress.bytes_left, progress.bytes_per_s, progress.seconds_left) == (600, 0.0, None)
    assert "broker 3 makes no progress, 60 records behind" in progress.reason


def test_a_stopped_target_is_named() -> None:
    still = sample(b1=(1000, 100), b4=(1000, 100))
    progress = estimate_progress(MOVE, still, still, 1.0)
    assert (progress.blocker, progress.reason, progress.bytes_left) == (3, "broker 3 is not running", None)


def test_the_same_log_in_other_segments_is_complete() -> None:
    """Sizes differ by nature; log ends decide."""
    same = sample(b1=(1000, 100), b3=(990, 100), b4=(990, 100))
    progress = estimate_progress(MOVE, same, same, 1.0)
    assert (progress.bytes_left, progress.seconds_left) == (0, 0.0)
    assert "about to join the ISR" in progress.reason


def test_all_copies_are_made_but_the_isr_is_incomplete() -> None:
    """R2: the ISR without the removed replicas must contain the whole target."""
    move = Reassignment(topic="t", partition=0, replicas=(3, 2, 1), adding=(3,), removing=(1,))
    partial = sample(isr=(1, 3), b1=(10, 1), b3=(10, 1))
    assert "2 must join" in estimate_progress(move, partial, partial, 1.0).reason
    whole = sample(isr=(1, 2, 3))
    assert "completes the reassignment" in estimate_progress(move, whole, whole, 1.0).reason


def test_a_deleted_topic() -> None:
    gone = Sample(partitions={}, copies={})
    assert estimate_progress(MOVE, gone, gone, 1.0).reason == "the topic was deleted"
