"""ISR changes that reach their leader through the metadata log before the response."""

from __future__ import annotations

from dataclasses import replace

from tests.replication.replication_harness import Harness, partition


def test_a_change_that_the_metadata_log_brings_first_is_counted_and_noted_once() -> None:
    """I6: the response that comes second does not count again."""
    h = Harness((1, 2))
    start = partition(replicas=(1, 2), isr=(1,))
    h.apply(start, 1)
    h.follower_fetch(1, 2, 0)
    send = h.take_proposal(1)
    changed = replace(start, isr=(1, 2), partition_epoch=1)
    h.apply(changed, 1)
    assert h[1].manager.counters["isr_expands"] == 1
    (note,) = h[1].notes_of("isr_committed")
    assert (note["isr"], note["before"], note["partition_epoch"], note["leader_epoch"]) == ((1, 2), (1,), 1, 0)
    h.answer(send, changed)
    assert h[1].manager.counters["isr_expands"] == 1
    assert len(h[1].notes_of("isr_committed")) == 1


def test_another_change_of_the_metadata_log_does_not_count_as_the_proposed_one() -> None:
    """I6."""
    h = Harness((1, 2))
    start = partition(replicas=(1, 2), isr=(1,))
    h.apply(start, 1)
    h.follower_fetch(1, 2, 0)
    h.take_proposal(1)
    h.apply(replace(start, partition_epoch=1), 1)
    assert h[1].manager.counters["isr_expands"] == 0
