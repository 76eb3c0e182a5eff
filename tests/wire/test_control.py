"""Control batches: leader changes, and the header and footer of a snapshot."""

from __future__ import annotations

import pytest
from kafka.record.default_records import DefaultRecordBatch

from insync.wire import batch, control
from insync.wire.batch import NewRecord
from insync.wire.errors import MalformedBatchError

NOW = 1_700_000_000_123


def only_record(data: bytearray) -> batch.Record:
    header = batch.read_header(data)
    assert header.is_control
    assert batch.crc_ok(data, 0, header)
    (record,) = batch.records(data)
    return record


def test_a_leader_change_names_the_leader_and_its_voters() -> None:
    """Q5: the new leader's first batch, at the offset and in the epoch it begins with."""
    data = control.leader_change_batch(
        leader_id=2,
        voters=(1, 2, 3),
        granting_voters=(2, 3),
        base_offset=40,
        leader_epoch=6,
        timestamp_ms=NOW,
    )
    header = batch.read_header(data)
    assert (header.base_offset, header.leader_epoch, header.count, header.max_timestamp) == (40, 6, 1, NOW)
    record = only_record(data)
    assert control.control_type(record) == control.LEADER_CHANGE
    message = control.control_message(record)
    assert message is not None
    assert (message.version, message.leader_id) == (0, 2)
    assert [v.voter_id for v in message.voters] == [1, 2, 3]
    assert [v.voter_id for v in message.granting_voters] == [2, 3]


def test_a_leader_change_has_kafkas_bytes() -> None:
    """Version 0: no directory ids, which Kafka's own readers do not expect."""
    data = control.leader_change_batch(
        leader_id=1, voters=(1,), granting_voters=(), base_offset=0, leader_epoch=1, timestamp_ms=NOW
    )
    record = only_record(data)
    assert record.key == bytes.fromhex("00000002")
    assert record.value == bytes.fromhex("0000000000010200000001000100")


def test_a_snapshot_begins_with_a_header_and_ends_with_a_footer() -> None:
    """Q6."""
    header = only_record(
        control.snapshot_header_batch(last_contained_timestamp_ms=NOW - 9, leader_epoch=3, timestamp_ms=NOW)
    )
    assert (header.offset, header.key, header.value) == (
        0,
        bytes.fromhex("00000003"),
        b"\x00\x00" + (NOW - 9).to_bytes(8, "big") + b"\x00",
    )
    footer = only_record(control.snapshot_footer_batch(base_offset=12, leader_epoch=3, timestamp_ms=NOW))
    assert (footer.offset, footer.key, footer.value) == (12, bytes.fromhex("00000004"), b"\x00\x00\x00")
    header_message, footer_message = control.control_message(header), control.control_message(footer)
    assert header_message is not None
    assert header_message.last_contained_log_timestamp == NOW - 9
    assert footer_message is not None
    assert footer_message.version == 0


def test_kafka_python_sees_a_control_batch() -> None:
    data = control.snapshot_footer_batch(base_offset=0, leader_epoch=0, timestamp_ms=NOW)
    assert DefaultRecordBatch(bytes(data)).is_control_batch


def test_other_control_types_have_no_message() -> None:
    marker = batch.build([NewRecord(b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x05")], timestamp_ms=NOW, control=True)
    record = only_record(marker)
    assert control.control_type(record) == control.COMMIT
    assert control.control_message(record) is None


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00"])
def test_a_control_record_needs_a_type(key: bytes | None) -> None:
    record = only_record(batch.build([NewRecord(key, None)], timestamp_ms=NOW, control=True))
    with pytest.raises(MalformedBatchError):
        control.control_type(record)
