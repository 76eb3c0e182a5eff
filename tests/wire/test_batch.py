"""Record batches compared with an independent implementation (kafka-python), and batches that a broker refuses (P5)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from insync.wire import batch, compression
from insync.wire.batch import BatchHeader, NewRecord, Record
from insync.wire.errors import ErrorCode, MalformedBatchError, Refusal
from tests.wire.batch_harness import write_crc

LIMIT = 1 << 20
NOW = 1_700_000_000_123

some_bytes = st.none() | st.binary(max_size=300)
some_records = st.lists(
    st.builds(
        NewRecord,
        key=some_bytes,
        value=some_bytes,
        headers=st.lists(st.tuples(st.text(max_size=5), some_bytes), max_size=3).map(tuple),
        timestamp_ms=st.none() | st.integers(0, 2**45),
    ),
    min_size=1,
    max_size=8,
)


def one_batch(**options: Any) -> bytearray:
    return batch.build([NewRecord(b"k", b"v")] * 3, **{"timestamp_ms": NOW, **options})


def refused(data: bytes | bytearray, limit: int) -> ErrorCode:
    refusal = batch.validate_produce(data, limit)
    assert isinstance(refusal, Refusal)
    assert refusal.message
    return refusal.error


@given(some_records, st.sampled_from(compression.NAMES))
def test_records_of_a_built_batch_are_read_back(records: list[NewRecord], codec: str) -> None:
    data = batch.build(records, base_offset=40, timestamp_ms=NOW, compression=codec)
    expected = [
        Record(40 + i, NOW if r.timestamp_ms is None else r.timestamp_ms, r.key, r.value, tuple(r.headers))
        for i, r in enumerate(records)
    ]
    assert list(batch.records(data)) == expected


@given(some_records, st.sampled_from(compression.NAMES))
def test_a_broker_accepts_every_batch_that_build_returns(records: list[NewRecord], codec: str) -> None:
    """P5: header, count and CRC of a sound batch pass."""
    data = batch.build(records, timestamp_ms=NOW, compression=codec)
    header = batch.validate_produce(data, LIMIT)
    assert isinstance(header, BatchHeader)
    assert (header.length, header.count, header.compression) == (len(data), len(records), codec)


@given(some_records, st.sampled_from(["none", "gzip"]))
def test_kafka_python_reads_our_batches(records: list[NewRecord], codec: str) -> None:
    data = batch.build(
        records,
        base_offset=7,
        leader_epoch=3,
        timestamp_ms=NOW,
        producer_id=9,
        producer_epoch=1,
        base_sequence=5,
        compression=codec,
        transactional=True,
    )
    theirs = DefaultRecordBatch(bytes(data))
    assert theirs.validate_crc()
    assert (theirs.base_offset, theirs.leader_epoch, theirs.producer_id, theirs.producer_epoch) == (7, 3, 9, 1)
    assert (theirs.base_sequence, theirs.is_transactional, theirs.is_control_batch) == (5, True, False)
    got = [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs]
    assert got == [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in batch.records(data)]


@given(some_records, st.sampled_from([0, 1]))
def test_we_read_kafka_pythons_batches(records: list[NewRecord], codec: int) -> None:
    builder = DefaultRecordBatchBuilder(2, codec, 0, 77, 2, 30, 1 << 20)
    for offset, record in enumerate(records):
        assert builder.append(offset, record.timestamp_ms or 1, record.key, record.value, list(record.headers))
    data = bytes(builder.build())
    header = batch.validate_produce(data, LIMIT)
    assert isinstance(header, BatchHeader)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 2, 30)
    got = [(r.timestamp_ms, r.key, r.value, r.headers) for r in batch.records(data)]
    assert got == [(r.timestamp_ms or 1, r.key, r.value, tuple(r.headers)) for r in records]


def test_stamping_changes_offset_and_epoch_and_keeps_the_crc() -> None:
    """W13."""
    data = one_batch()
    batch.stamp(data, 1234567890123, 17)
    header = batch.read_header(data)
    assert (header.base_offset, header.leader_epoch) == (1234567890123, 17)
    assert (header.last_offset, header.next_offset) == (1234567890125, 1234567890126)
    assert batch.crc_ok(data, 0, header)


def test_a_batch_in_the_middle_of_others_is_stamped_and_checked_in_place() -> None:
    first, second = one_batch(), one_batch(leader_epoch=1)
    data = first + second
    batch.stamp(data, 3, 9, pos=len(first))
    assert data[: len(first)] == first
    header = batch.read_header(data, len(first))
    assert (header.base_offset, header.leader_epoch) == (3, 9)
    assert batch.crc_ok(data, len(first), header)


def test_log_append_time_overrides_every_records_timestamp_under_a_new_crc() -> None:
    data = one_batch()
    before = batch.read_header(data).crc
    batch.set_log_append_time(data, NOW + 5)
    header = batch.read_header(data)
    assert header.is_log_append_time
    assert header.crc != before
    assert batch.crc_ok(data, 0, header)
    assert {r.timestamp_ms for r in batch.records(data)} == {NOW + 5}
    theirs = DefaultRecordBatch(bytes(data))
    assert theirs.validate_crc()
    assert {r.timestamp for r in theirs} == {NOW + 5}


def test_iteration_stops_before_a_batch_that_is_incomplete() -> None:
    whole = one_batch() + one_batch(base_offset=3)
    ends = [[h.base_offset for _, h in batch.iter_headers(whole[:size])] for size in range(len(whole) + 1)]
    half = len(whole) // 2
    assert all(offsets == [] for offsets in ends[:half])
    assert all(offsets == [0] for offsets in ends[half : len(whole)])
    assert ends[len(whole)] == [0, 3]


@pytest.mark.parametrize("length", [-(2**31), -12, 0, 48])
def test_iteration_stops_at_a_length_that_no_batch_can_have(length: int) -> None:
    data = one_batch()
    data[8:12] = length.to_bytes(4, "big", signed=True)
    assert list(batch.iter_headers(bytes(data) + bytes(100))) == []


def test_sequences_wrap_after_the_largest_32_bit_number() -> None:
    """P4: sequence numbers continue at 0."""
    header = batch.read_header(one_batch(producer_id=1, producer_epoch=0, base_sequence=2**31 - 2))
    assert header.last_sequence == 0
    assert batch.read_header(one_batch()).last_sequence == -1


@given(st.data())
def test_any_flipped_bit_that_the_crc_covers_is_found(data: st.DataObject) -> None:
    """P5: a bad CRC is CORRUPT_MESSAGE, whatever else is wrong with the batch then."""
    sound = one_batch()
    at = data.draw(st.integers(17 * 8, len(sound) * 8 - 1))
    sound[at // 8] ^= 1 << at % 8
    assert refused(sound, LIMIT) is ErrorCode.corrupt_message


def test_a_batch_that_is_incomplete_is_corrupt() -> None:
    """P5: bad length."""
    data = one_batch()
    for size in (1, 16, 17, 60, 61, len(data) - 1):
        assert refused(data[:size], LIMIT) is ErrorCode.corrupt_message


@pytest.mark.parametrize("length", [-1, 0, 10, 48])
def test_an_impossible_length_is_corrupt(length: int) -> None:
    """P5: bad length."""
    data = one_batch()
    data[8:12] = length.to_bytes(4, "big", signed=True)
    assert refused(data, LIMIT) is ErrorCode.corrupt_message


def test_a_client_may_send_neither_no_batch_nor_two() -> None:
    """P5: exactly one batch per partition."""
    assert refused(b"", LIMIT) is ErrorCode.invalid_record
    assert refused(one_batch() + one_batch(), LIMIT) is ErrorCode.invalid_record


def test_a_batch_may_be_as_large_as_the_limit_and_no_larger() -> None:
    """P5: MESSAGE_TOO_LARGE counts every byte of the batch."""
    data = one_batch()
    assert isinstance(batch.validate_produce(data, len(data)), BatchHeader)
    assert refused(data, len(data) - 1) is ErrorCode.message_too_large


@pytest.mark.parametrize(
    ("magic", "error"),
    [
        (0, ErrorCode.unsupported_for_message_format),
        (1, ErrorCode.unsupported_for_message_format),
        (3, ErrorCode.corrupt_message),
        (255, ErrorCode.corrupt_message),
    ],
)
def test_other_formats_are_refused(magic: int, error: ErrorCode) -> None:
    """P5: bad magic; the old formats, which can be shorter than one of our headers, do not count as damage."""
    data = one_batch()
    data[16] = magic
    assert refused(data, LIMIT) is error
    assert refused(data[:30], LIMIT) is error


@pytest.mark.parametrize(("count", "last_delta"), [(0, -1), (-1, -2), (2, 2), (4, 2), (3, 3), (3, -1)])
def test_the_count_must_fit_the_offsets(count: int, last_delta: int) -> None:
    """P5: bad count; lastOffsetDelta + 1 = count > 0."""
    data = one_batch()
    data[23:27] = last_delta.to_bytes(4, "big", signed=True)
    data[57:61] = count.to_bytes(4, "big", signed=True)
    assert refused(write_crc(data), LIMIT) is ErrorCode.invalid_record


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec: int) -> None:
    """P5: bad compression."""
    data = one_batch()
    data[22] |= codec
    assert batch.read_header(data).compression == "unknown"
    assert refused(write_crc(data), LIMIT) is ErrorCode.invalid_record
    with pytest.raises(MalformedBatchError):
        list(batch.records(data))


def test_clients_may_not_write_control_batches_or_append_times() -> None:
    """P5: only brokers write them."""
    assert refused(one_batch(control=True), LIMIT) is ErrorCode.invalid_record
    stamped = one_batch()
    batch.set_log_append_time(stamped, NOW)
    assert refused(stamped, LIMIT) is ErrorCode.invalid_record


def test_a_producer_with_an_identity_needs_a_sequence() -> None:
    """P4, P5."""
    anonymous = one_batch(producer_id=5, producer_epoch=0, base_sequence=-1)
    assert refused(anonymous, LIMIT) is ErrorCode.invalid_record
    known = one_batch(producer_id=5, producer_epoch=0, base_sequence=0)
    assert isinstance(batch.validate_produce(known, LIMIT), BatchHeader)


@given(some_records, st.data())
def test_damaged_records_raise_and_nothing_else(records: list[NewRecord], data: st.DataObject) -> None:
    sound = batch.build(records, timestamp_ms=NOW)
    at = data.draw(st.integers(57, len(sound) - 1))
    sound[at] = data.draw(st.integers(0, 255))
    try:
        read = list(batch.records(sound))
    except MalformedBatchError:
        return
    assert len(read) == batch.read_header(sound).count


def test_an_empty_batch_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="at least one"):
        batch.build([], timestamp_ms=NOW)
