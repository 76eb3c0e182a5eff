"""Filtering the records of a batch, compared with the decoder of whole batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insync.wire import batch, batch_filter, compression
from insync.wire.batch_filter import RawRecord
from insync.wire.errors import MalformedBatchError

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

records = st.lists(
    st.builds(
        batch.NewRecord,
        key=st.none() | st.binary(max_size=20),
        value=st.none() | st.binary(max_size=300),
        headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2).map(tuple),
        timestamp_ms=st.integers(0, 2**45),
    ),
    min_size=1,
    max_size=12,
)


@given(records, st.sampled_from(CODECS), st.integers(0, 2**12), st.integers(0, 2**45))
def test_kept_records_and_the_header_stay_the_same(
    made: list[batch.NewRecord], codec: str, chosen: int, horizon: int
) -> None:
    data = bytes(batch.build(made, base_offset=70, leader_epoch=4, timestamp_ms=9, compression=codec, producer_id=3))
    before = batch.read_header(data)

    def keep(record: RawRecord) -> bool:
        return bool(chosen >> (record.offset - 70) & 1)

    expected = [record for record in batch.records(data) if chosen >> (record.offset - 70) & 1]
    after = batch_filter.filter_batch(b"pad" + data, 3, before, keep, horizon)
    assert (after is None) == (not expected)
    if after is None:
        return
    header = batch.read_header(after)
    assert list(batch.records(after)) == expected
    assert batch.crc_ok(after, 0, header)
    same = ("base_offset", "last_offset_delta", "leader_epoch", "producer_id", "producer_epoch", "base_sequence")
    assert [getattr(header, name) for name in same] == [getattr(before, name) for name in same]
    assert header.max_timestamp == max(record.timestamp_ms for record in expected)
    has_tombstone = any(record.value is None for record in expected)
    assert batch_filter.delete_horizon(header) == (horizon if has_tombstone else None)
    if len(expected) == len(made) and not has_tombstone:
        assert after == data


def test_an_emptied_batch_keeps_offsets_epoch_and_producer() -> None:
    data = batch.build(
        [batch.NewRecord(b"k", b"v")] * 3, base_offset=5, leader_epoch=2, timestamp_ms=8, compression="zstd",
        producer_id=9, producer_epoch=1, base_sequence=40,
    )  # fmt: skip
    empty = batch_filter.make_empty_batch(batch.read_header(data))
    header = batch.read_header(empty)
    assert (header.base_offset, header.last_offset, header.leader_epoch, header.count) == (5, 7, 2, 0)
    assert (header.producer_id, header.producer_epoch, header.last_sequence, header.max_timestamp) == (9, 1, 42, 8)
    assert batch.crc_ok(empty, 0, header)
    assert list(batch.records(empty)) == []


@given(st.binary(max_size=200), st.integers(0, 1_000), st.integers(0, 300))
def test_any_payload_is_read_or_malformed(payload: bytes, count: int, last: int) -> None:
    data = batch.build([batch.NewRecord(b"k", b"v")], timestamp_ms=8)
    header = batch.read_header(data)
    header.length, header.count, header.last_offset_delta = 61 + len(payload), count, last
    try:
        records = list(batch_filter.raw_records(bytes(data[:61]) + payload, 0, header))
    except MalformedBatchError:
        return
    assert len(records) == count


@pytest.mark.parametrize("codec", CODECS[1:])
def test_batches_above_the_limit_are_not_decompressed(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """P5: a few kilobytes can stand for gigabytes."""
    data = bytes(batch.build([batch.NewRecord(b"k", bytes(3_000_000))], timestamp_ms=8, compression=codec))
    header = batch.read_header(data)
    assert len(list(batch.records(data))) == 1
    assert batch_filter.all_have_keys(data, 0, header)
    monkeypatch.setattr(compression, "MAX_UNPACKED", 2_000_000)
    with pytest.raises(MalformedBatchError):
        list(batch.records(data))
    assert not batch_filter.all_have_keys(data, 0, header)
