"""Batches of the mirror have the records of the source, in order, numbered without gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insync.client.errors import ClientError
from insync.columnar.decode import DecodeOptions, decode
from insync.pipeline.fenced_sender import SEQUENCES, Producer
from insync.pipeline.mirror import batches as mirror_batches
from insync.pipeline.mirror.batches import BatchLimits, MirrorBatch, MirrorBatches
from insync.wire import batch

OURS = Producer(77, 2)
LIMITS = BatchLimits(merged_bytes=2_000, max_bytes=1 << 20)
CONTENT = ("key", "value", "headers", "timestamp")


def make_batch(offset: int, count: int, **settings: Any) -> bytes:
    records = [
        batch.NewRecord(None if i % 3 else b"k%d" % i, None if i % 5 == 4 else b"v%d" % (offset + i), (("h", None),))
        for i in range(count)
    ]
    built = batch.build(
        records, base_offset=offset, timestamp_ms=1_700_000_000_000 + offset, producer_id=5, base_sequence=9,
        **{"producer_epoch": 0, **settings},
    )  # fmt: skip
    return bytes(built)


def mirror(
    parts: Sequence[bytes], start: int = 0, end: int = 1_000, *, position: int = 0, skip: int = 0
) -> tuple[list[MirrorBatch], MirrorBatches]:
    mirrored = MirrorBatches("t-0", start, end, position=position, skip=skip, producer=OURS, limits=LIMITS)
    made = [made for part in parts for made in mirrored.add(part, ())]
    return [*made, *mirrored.finish()], mirrored


def rows(data: bytes, columns: tuple[str, ...] = CONTENT, start: int = 0, end: int | None = None) -> list[Any]:
    listed: list[Any] = decode(data, DecodeOptions(columns, start, end)).batch.to_pylist()
    return listed


def test_a_large_batch_is_forwarded_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_batches, "MIN_FORWARDED_BYTES", 100)
    source = make_batch(40, 30, compression="lz4")
    (made,), state = mirror([source], start=40, position=7)
    header = batch.read_header(made.data)
    assert (state.forwarded, made.source, made.position, made.count) == (1, 40, 7, 30)
    assert (header.base_offset, header.producer_id, header.producer_epoch, header.base_sequence) == (0, 77, 2, 7)
    assert batch.crc_ok(made.data, 0, header)
    assert made.data[batch.HEADER_SIZE :] == source[batch.HEADER_SIZE :]
    assert rows(made.data) == rows(source)


def test_small_batches_are_merged_by_codec() -> None:
    sources = [make_batch(10 * i, 10, compression="lz4" if i < 3 else "none") for i in range(6)]
    made, state = mirror(sources)
    assert [(entry.source, entry.position, entry.count) for entry in made] == [(0, 0, 30), (30, 30, 30)]
    assert [row for entry in made for row in rows(entry.data)] == rows(b"".join(sources))
    assert (state.position, state.source) == (60, 1_000)


def test_control_batches_and_aborted_transactions_are_left_out() -> None:
    aborted = make_batch(10, 5, transactional=True)
    sources = b"".join([make_batch(0, 10), aborted, make_batch(16, 4)])
    mirrored = MirrorBatches("t-0", 0, 20, position=0, skip=0, producer=OURS, limits=LIMITS)
    made = [*mirrored.add(sources, ((5, 10),)), *mirrored.finish()]
    assert [(entry.source, entry.count) for entry in made] == [(0, 14)]


def test_a_damaged_batch_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for least in (100, 1 << 20):  # forwarded, merged
        monkeypatch.setattr(mirror_batches, "MIN_FORWARDED_BYTES", least)
        damaged = bytearray(make_batch(0, 30))
        damaged[-3] ^= 1
        with pytest.raises(ClientError, match="t-0 at offset 0 of the source is damaged: the checksum is wrong"):
            mirror([bytes(damaged)])


@given(st.data())
def test_whatever_was_written_before_the_rest_follows_without_gap(data: st.DataObject) -> None:
    """Any range, any number of skipped records, batches forwarded or merged: the same records and numbers."""
    sizes = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=8))
    sources, offset = list[bytes](), 0
    for size in sizes:
        offset += data.draw(st.integers(0, 3))  # a gap
        sources.append(make_batch(offset, size, compression=data.draw(st.sampled_from(["none", "lz4"]))))
        offset += size
    start, end = data.draw(st.integers(0, offset - 1)), data.draw(st.integers(1, offset))
    expected = rows(b"".join(sources), CONTENT, start, end) if start < end else []
    offsets = [row["offset"] for row in rows(b"".join(sources), ("offset",), start, end)] if start < end else []
    skip = data.draw(st.integers(0, len(expected)))
    position = data.draw(st.sampled_from([0, 5, SEQUENCES - 3]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mirror_batches, "MIN_FORWARDED_BYTES", data.draw(st.sampled_from([200, 600, 1 << 20])))
        made, state = mirror(sources, start, max(start, end), position=position, skip=skip)
    assert [row for entry in made for row in rows(entry.data)] == expected[skip:]
    numbers = [entry.position + i for entry in made for i in range(entry.count)]
    assert numbers == list(range(position + skip, position + len(expected)))
    assert [entry.source for entry in made] == [offsets[entry.position - position] for entry in made]
    assert [batch.read_header(entry.data).base_sequence for entry in made] == [
        entry.position % SEQUENCES for entry in made
    ]
    assert (state.position, state.source) == (position + len(expected), max(start, end))
