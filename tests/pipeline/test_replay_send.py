"""How far a replay is, according to the log itself."""

from __future__ import annotations

from insync.pipeline.fenced_sender import SEQUENCES, Producer, Written, advance
from insync.wire import batch

OURS = Producer(7, 0)


def batches(*made: tuple[int, int, int, int]) -> bytes:
    """(offset, producer id, first sequence, records)"""
    records = [batch.NewRecord(None, b"x")] * 99
    return b"".join(
        bytes(
            batch.build(
                records[:count],
                base_offset=offset,
                timestamp_ms=0,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequence,
            )
        )
        for offset, producer, sequence, count in made
    )


def test_the_replays_last_batch_tells_how_many_rows_are_written() -> None:
    data = batches((10, 7, 0, 5), (15, 3, 40, 9), (24, 7, 5, 2), (26, 3, 49, 1))
    assert advance(Written(0, 10), data, OURS) == (Written(7, 26), 27)


def test_batches_of_other_producers_are_ignored() -> None:
    assert advance(Written(4, 10), batches((10, 3, 0, 5)), OURS) == (Written(4, 10), 15)


def test_batches_before_the_known_offset_are_ignored() -> None:
    """A response begins with the whole batch that contains the requested offset."""
    assert advance(Written(5, 15), batches((10, 7, 0, 5), (15, 3, 0, 5)), OURS) == (Written(5, 15), 20)


def test_sequences_wrap_around() -> None:
    rows = SEQUENCES - 3
    assert advance(Written(rows, 10), batches((10, 7, rows, 5)), OURS) == (Written(SEQUENCES + 2, 15), 15)
    assert advance(Written(3 * SEQUENCES + 1, 10), batches((10, 7, 1, 5)), OURS) == (Written(3 * SEQUENCES + 6, 15), 15)


def test_a_batch_counted_before_its_offset_was_known_counts_once() -> None:
    assert advance(Written(9, 10), batches((10, 7, 0, 5)), OURS) == (Written(9, 15), 15)
