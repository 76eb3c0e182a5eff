"""P5: every record of a produced batch is checked, with the same result by compiled code and by Python."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from insync.wire import batch, compression, record_walk
from insync.wire.batch import NewRecord
from insync.wire.errors import ErrorCode, Refusal
from insync.wire.record_check import CheckedRecords, DecompressionBudget, RecordRules, check_records, max_uncompressed
from tests.wire.batch_harness import write_crc

NOW = 1_700_000_000_123
MIB = 1 << 20


def check(data: bytes | bytearray, **rules: Any) -> CheckedRecords | Refusal:
    budget = DecompressionBudget(len(data))
    return check_records(data, batch.read_header(data), RecordRules(**rules), budget)


def with_payload(payload: bytes, count: int, codec: str = "none") -> bytes:
    """A batch around these bytes, with a good length and CRC."""
    data = batch.build([NewRecord(None, None)], timestamp_ms=NOW, compression=codec)[:61]
    data += compression.compress(compression.NAMES.index(codec), payload)
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[23:27] = (count - 1).to_bytes(4, "big")
    data[57:61] = count.to_bytes(4, "big")
    return bytes(write_crc(data))


def payload_of(*records: NewRecord) -> bytes:
    return bytes(batch.build(records, timestamp_ms=NOW)[61:])


def test_the_check_is_compiled_where_tests_run() -> None:
    """P5: in Python it would cost more than everything else that a broker does with a record."""
    assert record_walk.COMPILED


GOOD = payload_of(NewRecord(b"k", b"v", (("h", b"x"), ("é", None))))
BAD_PAYLOADS = {
    "empty": b"",
    "a length past the end": bytes([GOOD[0] + 2]) + GOOD[1:],
    "a negative length": b"\x01" + GOOD[1:],
    "an endless length": b"\xff" * 12,
    "a short length": bytes([GOOD[0] - 2]) + GOOD[1:],
    "another offset delta": GOOD[:3] + b"\x02" + GOOD[4:],
    "a negative offset delta": GOOD[:3] + b"\x01" + GOOD[4:],
    "a key past the end": GOOD[:4] + b"\x7e" + GOOD[5:],
    "a key length of -2": GOOD[:4] + b"\x03" + GOOD[5:],
    "too many headers": GOOD[:8] + b"\x7e" + GOOD[9:],
    "a negative number of headers": GOOD[:8] + b"\x01" + GOOD[9:],
    "a header without a key": GOOD[:9] + b"\x01" + GOOD[10:],
    "a header key that is not text": GOOD.replace(b"h", b"\xff"),
    "bytes after the record": GOOD + b"\x00",
}


@pytest.mark.parametrize("name", BAD_PAYLOADS)
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_record_that_breaks_the_format_is_refused_and_named(name: str, codec: str) -> None:
    """P5."""
    data = with_payload(BAD_PAYLOADS[name], 1, codec)
    refusal = check(data)
    assert isinstance(refusal, Refusal)
    assert refusal.error is ErrorCode.invalid_record
    assert refusal.message
    assert [index for index, _ in refusal.records] in ([0], [])


@given(st.integers(0, 2**32), st.booleans())
@example(114_074, False)  # the number of headers, 0, lies behind the end of its record
def test_the_compiled_check_and_the_one_in_python_agree(seed: int, keys: bool) -> None:
    """P5: on damaged records and on sound ones."""
    rng = Random(seed)
    count = rng.choice((1, 2, 70))
    payload = bytearray(payload_of(*[some_record(rng) for _ in range(count)]))
    for _ in range(rng.randrange(3)):
        at = rng.randrange(len(payload))
        if rng.random() < 0.5:
            payload[at] ^= 1 << rng.randrange(8)
        else:
            del payload[at : at + rng.randrange(3)]
    arguments = (bytes(payload), 0, count, -200.0, 200.0, -100.0, keys)
    assert record_walk.walk(*arguments) == record_walk.walk_in_python(*arguments)


@given(st.integers(0, 2**32), st.sampled_from(compression.NAMES))
def test_kafka_python_and_our_decoder_read_every_accepted_batch(seed: int, codec: str) -> None:
    """P5: no consumer gets stuck at a batch that was accepted."""
    rng = Random(seed)
    count = rng.choice((1, 2, 20))
    payload = bytearray(payload_of(*[some_record(rng) for _ in range(count)]))
    for _ in range(rng.choice((0, 1, 1, 2))):
        at = rng.randrange(min(len(payload), 30))
        payload[at] = rng.choice((payload[at] ^ 1 << rng.randrange(8), rng.randrange(256)))
    data = with_payload(bytes(payload), count, codec)
    checked = check(data)
    if isinstance(checked, Refusal):
        return
    ours = list(batch.records(data))
    theirs = list(DefaultRecordBatch(data))
    assert [(r.offset, r.timestamp_ms, r.key, r.value, list(r.headers)) for r in ours] == [
        (r.offset, r.timestamp, r.key, r.value, r.headers) for r in theirs
    ]
    assert [record.offset for record in ours] == list(range(count))
    assert checked.max_timestamp == max(record.timestamp_ms for record in ours)


def some_record(rng: Random) -> NewRecord:
    headers = tuple((rng.choice(("a", "é", "")), rng.choice((None, b"x"))) for _ in range(rng.choice((0, 0, 1, 3))))
    key = rng.choice((None, b"", b"k" * rng.randrange(80)))
    return NewRecord(key, rng.choice((None, b"v" * rng.randrange(9))), headers, NOW + rng.randrange(-300, 300))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_decompression_has_a_limit(codec: str) -> None:
    """P5: decompression bombs; a good batch of the same codec passes."""
    assert isinstance(check(with_payload(payload_of(NewRecord(None, bytes(100_000))), 1, codec)), CheckedRecords)
    refusal = check(with_payload(bytes(17 * MIB), 1, codec), max_message_bytes=MIB)
    assert isinstance(refusal, Refusal)
    assert refusal.error is ErrorCode.message_too_large
    assert isinstance(check(with_payload(b"", 1, codec)[:61] + b"nonsense"), Refusal)


def test_the_decompression_limit_grows_with_max_message_bytes() -> None:
    """P5: 16 times, between 16 and 128 MiB."""
    assert [max_uncompressed(size) for size in (1_000, 1_048_588, 4 * MIB, 2**31 - 1)] == [
        16 * MIB, 16_777_408, 64 * MIB, 128 * MIB,
    ]  # fmt: skip


def test_an_impossible_count_is_refused_before_any_record_is_read() -> None:
    """P5: a count of 2**31 - 1 costs no walk."""
    refusal = check(with_payload(GOOD, 2**31 - 1))
    assert isinstance(refusal, Refusal)
    assert "do not fit" in refusal.message


@pytest.mark.parametrize(("base", "delta"), [(2**63 - 1, 1), (-(2**63), -1), (0, 2**48), (0, -(2**62))])
def test_timestamps_that_are_no_64_bit_numbers_or_absurd_are_refused(base: int, delta: int) -> None:
    """P5: nothing overflows."""
    data = bytearray(with_payload(payload_of(NewRecord(b"k", b"v"), NewRecord(b"k", b"v", (), NOW + delta)), 2))
    data[27:35] = base.to_bytes(8, "big", signed=True)
    assert isinstance(check(data), Refusal)


def test_no_timestamp_is_always_in_range() -> None:
    """P5: -1 says that there is none."""
    data = batch.build([NewRecord(b"k", b"v", (), at) for at in (NOW, -1)], timestamp_ms=NOW)
    checked = check(data, earliest=NOW - 10, latest=NOW + 10)
    assert checked == CheckedRecords(None, NOW)


def test_at_most_a_thousand_bad_records_are_listed() -> None:
    data = batch.build([NewRecord(None, b"v")] * 1_500, timestamp_ms=NOW)
    refusal = check(data, keys=True)
    assert isinstance(refusal, Refusal)
    assert [index for index, _ in refusal.records] == list(range(record_walk.MAX_LISTED))
    assert len(refusal.message) < 500
