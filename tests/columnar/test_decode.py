"""Decoded columns hold what the record-by-record reader returns."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from insync.columnar.buffers import TYPES, rows_without_columns
from insync.columnar.decode import CorruptBatch, Decoded, DecodeOptions, decode
from insync.wire import batch, compression
from insync.wire.batch import NewRecord

ALL_COLUMNS = tuple(TYPES)
MS = 1_700_000_000_000

blobs = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3).map(tuple)
records = st.builds(NewRecord, key=blobs, value=blobs, headers=headers, timestamp_ms=st.integers(MS, MS + 10**6))


def _batches(contents: list[list[NewRecord]], codec: str = "none", **fields: Any) -> bytes:
    offsets = accumulate((len(records) for records in contents), initial=0)
    return b"".join(
        bytes(batch.build(records, base_offset=at, timestamp_ms=MS, compression=codec, leader_epoch=at, **fields))
        for records, at in zip(contents, offsets, strict=False)
    )


def _plain(count: int = 3, of: int = 4) -> list[list[NewRecord]]:
    return [[NewRecord(key=b"k%d" % i, value=b"v%d-%d" % (b, i)) for i in range(of)] for b in range(count)]


def _columns(decoded: Decoded) -> dict[str, list[Any]]:
    decoded.batch.validate(full=True)
    return {name: decoded.batch.column(name).to_pylist() for name in decoded.batch.schema.names}


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(records, min_size=1, max_size=6), max_size=5), st.sampled_from(compression.NAMES))
def test_every_column_is_what_the_plain_reader_returns(contents: list[list[NewRecord]], codec: str) -> None:
    data = _batches(contents, codec, producer_id=7, producer_epoch=2, base_sequence=11)
    decoded = decode(data, DecodeOptions(ALL_COLUMNS))
    columns = _columns(decoded)
    expected = [(h, r) for at, h in batch.iter_headers(data) for r in batch.records(data, at)]
    assert decoded.rows == len(expected)
    assert (decoded.used, decoded.corrupt) == (len(data), ())
    assert columns["key"] == [r.key for _, r in expected]
    assert columns["value"] == [r.value for _, r in expected]
    assert columns["offset"] == [r.offset for _, r in expected]
    assert [round(t.timestamp() * 1000) for t in columns["timestamp"]] == [r.timestamp_ms for _, r in expected]
    assert columns["headers"] == [[{"key": k, "value": v} for k, v in r.headers] or None for _, r in expected]
    assert columns["leader_epoch"] == [h.leader_epoch for h, _ in expected]
    assert columns["sequence"] == [11 + r.offset - h.base_offset for h, r in expected]
    assert columns["codec"] == [codec] * len(expected)
    assert set(columns["producer_id"]) <= {7}


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 14), st.integers(0, 14), st.sampled_from(compression.NAMES))
def test_a_range_of_offsets_may_start_and_end_within_batches(start: int, end: int, codec: str) -> None:
    data = _batches(_plain(3, 4), codec)
    inside = list(range(12))[start:end] if start < end else []
    assert decode(data, DecodeOptions(("offset",), start=start, end=end)).batch.column(0).to_pylist() == inside
    assert decode(data, DecodeOptions((), start=start, end=end)).rows == len(inside)


def test_column_types_are_those_that_spark_derives() -> None:
    decoded = decode(_batches(_plain()), DecodeOptions(ALL_COLUMNS))
    assert dict(zip(decoded.batch.schema.names, decoded.batch.schema.types, strict=True)) == TYPES


def test_an_incomplete_batch_at_the_end_is_left_for_the_next_call() -> None:
    data = _batches(_plain(3, 4))
    for missing in (1, 30, 61, 70):
        decoded = decode(data[:-missing], DecodeOptions(("offset",)))
        assert decoded.rows == 8
        assert decoded.next_offset == 8
        assert decode(data[decoded.used :], DecodeOptions(("offset",))).batch.column(0).to_pylist() == [8, 9, 10, 11]


def test_log_append_time_is_that_of_the_batch() -> None:
    data = bytearray(_batches(_plain(1, 3)))
    batch.set_log_append_time(data, MS + 5_000)
    columns = _columns(decode(bytes(data), DecodeOptions(("timestamp", "timestampType"))))
    assert columns["timestampType"] == [1, 1, 1]
    assert [t.timestamp() for t in columns["timestamp"]] == [(MS + 5_000) / 1000] * 3


def test_a_wrong_checksum_affects_only_its_batch() -> None:
    data = bytearray(_batches(_plain(3, 4)))
    second = len(data) // 3
    data[second + 70] ^= 1
    decoded = decode(bytes(data), DecodeOptions(("offset",), base_position=1_000))
    assert decoded.batch.column(0).to_pylist() == [0, 1, 2, 3, 8, 9, 10, 11]
    assert decoded.corrupt == (CorruptBatch(1_000 + second, 4, "the checksum is wrong"),)


def test_with_crc_ok_damaged_records_are_rows_and_marked() -> None:
    data = bytearray(_batches(_plain(2, 2)))
    data[-2] ^= 1  # in the last value
    columns = _columns(decode(bytes(data), DecodeOptions(("offset", "crc_ok"))))
    assert columns == {"offset": [0, 1, 2, 3], "crc_ok": [True, True, False, False]}


@pytest.mark.parametrize("damage", range(61, 100))
def test_malformed_records_produce_no_row(damage: int) -> None:
    """Whatever byte of the records changes, the rows of the other batches are unharmed."""
    data = bytearray(_batches(_plain(3, 4)))
    at = len(data) // 3 + damage
    data[at] ^= 0xFF
    decoded = decode(bytes(data), DecodeOptions(ALL_COLUMNS, check_crc=False))
    decoded.batch.validate(full=True)
    columns = _columns(decoded)
    outside = [v for o, v in zip(columns["offset"], columns["value"], strict=True) if not 4 <= o < 8]
    assert [v for v in outside if v is not None][:4] == [b"v0-0", b"v0-1", b"v0-2", b"v0-3"]
    assert columns["offset"][-4:] == [8, 9, 10, 11]


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("count", [-1, 5, 2**31 - 1])
def test_an_impossible_record_count_is_not_used_to_count_rows(count: int, codec: str) -> None:
    """P5: the batch has a right CRC and four offsets. Counting returns what reading returns."""
    data = bytearray(_batches(_plain(1, 4), codec))
    data[57:61] = count.to_bytes(4, "big", signed=True)
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    counted, read = decode(bytes(data), DecodeOptions(())), decode(bytes(data), DecodeOptions(("value",)))
    assert (counted.rows, counted.corrupt) == (read.rows, read.corrupt)
    assert counted.rows <= 4
    assert len(counted.corrupt) == 1


def test_an_invalid_batch_length_ends_decoding() -> None:
    good = _batches(_plain(1, 2))
    decoded = decode(good + bytes(100), DecodeOptions(("offset",)))
    assert decoded.rows == 2
    assert decoded.used == len(good) + 100
    assert decoded.corrupt[0].reason == "not a valid batch length"


def test_records_that_cannot_be_decompressed_are_reported() -> None:
    data = bytearray(_batches(_plain(1, 50), "zstd"))
    data[80] ^= 0xFF
    decoded = decode(bytes(data), DecodeOptions(("value",), check_crc=False))
    assert decoded.rows == 0
    assert len(decoded.corrupt) == 1


def test_an_old_format_is_reported() -> None:
    data = bytearray(_batches(_plain(1, 2)))
    data[16] = 1
    assert decode(bytes(data), DecodeOptions(("value",))).corrupt[0].reason == "format 1 instead of 2"


def test_many_headers_fit() -> None:
    many = tuple((f"header-{i}", b"x" * 50) for i in range(3_000))
    data = _batches([[NewRecord(key=None, value=b"v", headers=many)] for _ in range(3)])
    columns = _columns(decode(data, DecodeOptions(("headers",))))
    assert columns["headers"] == [[{"key": k, "value": v} for k, v in many]] * 3


def test_a_header_key_that_is_not_utf8_gets_replacement_characters() -> None:
    data = bytearray(_batches([[NewRecord(key=None, value=b"", headers=(("abc", b"x"),))]]))
    data[data.index(b"abc") + 1] = 0xFF
    columns = _columns(decode(bytes(data), DecodeOptions(("headers",), check_crc=False)))
    assert columns["headers"] == [[{"key": "a\ufffdc", "value": b"x"}]]


def test_aborted_transactions_are_skipped_and_markers_are_not_rows() -> None:
    def part(at: int, producer: int, value: bytes, key: bytes | None = None, *, control: bool = False) -> bytes:
        fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        records = [NewRecord(key=key, value=value)]
        return bytes(batch.build(records, base_offset=at, timestamp_ms=MS, control=control, **fields))  # type: ignore[arg-type]

    abort, commit = b"\x00\x00\x00\x00", b"\x00\x00\x00\x01"
    data = b"".join(
        (
            part(0, 1, b"gone"),
            part(1, 2, b"kept"),
            part(2, 1, b"", key=abort, control=True),
            part(3, 1, b"kept too"),
            part(4, 2, b"", key=commit, control=True),
        )
    )
    options = DecodeOptions(("offset",), isolation="read_committed", aborted=((1, 0),))
    decoded = decode(data, options)
    assert decoded.batch.column(0).to_pylist() == [1, 3]
    assert decoded.next_offset == 5
    assert decode(data, DecodeOptions(("offset",))).batch.column(0).to_pylist() == [0, 1, 3]
    assert _columns(decode(data, DecodeOptions(("control",))))["control"] == [False, False, True, False, True]


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(ValueError, match="unknown column 'valu'; known are key, value"):
        DecodeOptions(("valu",))


def test_a_count_has_rows_without_columns() -> None:
    rows = rows_without_columns(17)
    assert (rows.num_rows, rows.num_columns) == (17, 0)
