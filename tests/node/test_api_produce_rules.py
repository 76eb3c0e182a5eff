"""Sound batches that a topic's settings refuse or change, and the timestamps in produce responses (P5)."""

from __future__ import annotations

from typing import Any

import pytest

from insync.replication import produce_server
from insync.wire import batch, record_check
from insync.wire.errors import ErrorCode
from insync.wire.messages import produce
from insync.wire.types import instant_millis, ms
from tests.node.node_harness import Net, config, config_request
from tests.wire.batch_harness import write_crc

HOUR = 3_600_000


def send(net: Net, name: str, *records: batch.NewRecord, timestamp: int | None = None, **fields: Any) -> Any:
    at = net.now if timestamp is None else timestamp
    data = bytes(batch.build(records, timestamp_ms=at, **fields))
    return send_bytes(net, name, data)


def send_bytes(net: Net, name: str, data: bytes) -> Any:
    partition = net.partition(name)
    line = produce.PartitionProduceData(index=0, records=data)
    topic = produce.TopicProduceData(topic_id=partition.topic_id, partition_data=(line,))
    request = produce.ProduceRequest(acks=-1, timeout=ms(1_000), topic_data=(topic,))
    return net.answered(1, request).responses[0].partition_responses[0]


KEYED, UNKEYED = batch.NewRecord(b"k", b"v"), batch.NewRecord(None, b"v")


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_topic_takes_no_record_without_a_key(policy: str) -> None:
    """P5; W15."""
    net = Net().up()
    net.create("t", cleanup_policy=policy)
    assert send(net, "t", KEYED, UNKEYED, compression="zstd").error_code is ErrorCode.invalid_record
    assert send(net, "t", UNKEYED).error_code is ErrorCode.invalid_record
    assert send(net, "t", KEYED, batch.NewRecord(b"", None), compression="zstd").error_code is ErrorCode.none
    net.create("u")
    assert send(net, "u", UNKEYED).error_code is ErrorCode.none


def test_a_compacted_topic_takes_no_undecodable_records() -> None:
    """P5: compaction could not tell what they supersede."""
    net = Net().up()
    net.create("t", cleanup_policy="compact")
    data = batch.build([KEYED], timestamp_ms=net.now)
    data[61] = 0x7F  # the record's length
    assert send_bytes(net, "t", bytes(write_crc(data))).error_code is ErrorCode.invalid_record


def test_a_refused_record_is_named_with_its_error() -> None:
    """P5: KIP-467. The batch is refused as a whole, other partitions of the request are served."""
    net = Net().up()
    net.create("t", cleanup_policy="compact")
    net.create("u")
    answer = send(net, "t", KEYED, UNKEYED, KEYED, UNKEYED, compression="zstd")
    assert answer.error_code is ErrorCode.invalid_record
    assert [error.batch_index for error in answer.record_errors] == [1, 3]
    assert all("key" in error.batch_index_error_message for error in answer.record_errors)
    assert "2 records" in answer.error_message
    assert net.log("t").leo == 0
    lines = [
        produce.TopicProduceData(
            topic_id=net.partition(name).topic_id,
            partition_data=(
                produce.PartitionProduceData(
                    index=0, records=bytes(batch.build([record], timestamp_ms=net.now))
                ),
            ),
        )
        for name, record in (("t", UNKEYED), ("u", KEYED))
    ]  # fmt: skip
    request = produce.ProduceRequest(acks=-1, timeout=ms(1_000), topic_data=tuple(lines))
    first, second = net.answered(1, request).responses
    assert first.partition_responses[0].error_code is ErrorCode.invalid_record
    assert (second.partition_responses[0].error_code, second.partition_responses[0].base_offset) == (ErrorCode.none, 0)


def test_a_compacted_topic_takes_no_batch_of_endless_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """P5: a small batch may decompress to more keys than compaction can process while others wait."""
    monkeypatch.setattr(produce_server, "MAX_COMPACTED_RECORDS", 3)
    net = Net().up()
    net.create("t", cleanup_policy="compact")
    assert send(net, "t", *[KEYED] * 3, compression="zstd").error_code is ErrorCode.none
    assert send(net, "t", *[KEYED] * 4, compression="zstd").error_code is ErrorCode.message_too_large


def test_each_record_with_a_bad_timestamp_is_named() -> None:
    """P5: by its own timestamp, whatever the header says of the batch."""
    net = Net().up()
    net.create("t", message_timestamp_before_max_ms="5000")
    times = (net.now, net.now - 6_000, None, net.now + HOUR + 1)
    records = [batch.NewRecord(b"k", b"v", (), at) for at in times]
    answer = send(net, "t", *records)
    assert answer.error_code is ErrorCode.invalid_timestamp
    assert [error.batch_index for error in answer.record_errors] == [1, 3]


def test_a_wrong_max_timestamp_in_the_header_is_corrected() -> None:
    """P5: retention and lookups by time go by it; Apache Kafka corrects it too."""
    net = Net().up()
    net.create("t")
    data = batch.build([KEYED, batch.NewRecord(b"k", b"v", (), net.now + 70)], timestamp_ms=net.now)
    data[35:43] = (net.now + HOUR * 10).to_bytes(8, "big")
    assert send_bytes(net, "t", bytes(write_crc(data))).error_code is ErrorCode.none
    log = net.log("t")
    stored = log.read(0, 1 << 20, limit_offset=log.leo)
    ((pos, header),) = batch.iter_headers(stored)
    assert header.max_timestamp == net.now + 70
    assert batch.crc_ok(stored, pos, header)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_undecodable_records_are_refused(compression: str) -> None:
    """P5: whatever the CRC says; nothing of them is stored."""
    net = Net().up()
    net.create("t")
    sound = batch.build([KEYED] * 3, timestamp_ms=net.now, compression=compression)
    garbage = bytearray(sound[:61]) + bytes(range(200, 256))
    garbage[8:12] = (len(garbage) - 12).to_bytes(4, "big")
    endless = bytearray(sound)
    endless[23:27], endless[57:61] = (2**31 - 2).to_bytes(4, "big"), (2**31 - 1).to_bytes(4, "big")
    short = bytearray(sound)
    short[23:27], short[57:61] = (1).to_bytes(4, "big"), (2).to_bytes(4, "big")
    for data in (garbage, endless, short):
        answer = send_bytes(net, "t", bytes(write_crc(data)))
        too_many = data is endless and compression != "none"
        assert answer.error_code is (ErrorCode.message_too_large if too_many else ErrorCode.invalid_record)
        assert answer.error_message
    assert net.log("t").leo == 0


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_a_decompression_bomb_is_refused(compression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """P5: a batch may be 16 times max.message.bytes when decompressed, and 16 MiB in any case."""
    monkeypatch.setattr(record_check, "LEAST_UNCOMPRESSED", 50_000)
    net = Net().up()
    net.create("t", max_message_bytes="10000")
    fits, bomb = batch.NewRecord(b"k", b"v" * 150_000), batch.NewRecord(b"k", b"v" * 170_000)
    assert send(net, "t", fits, compression=compression).error_code is ErrorCode.none
    answer = send(net, "t", bomb, compression=compression)
    assert answer.error_code is ErrorCode.message_too_large
    assert "decompressed" in answer.error_message


def test_the_batches_of_one_request_decompress_to_no_more_than_the_request_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """P5: many small bombs are as bad as a large one; what fits is stored."""
    monkeypatch.setattr(record_check, "LEAST_OF_REQUEST", 500_000)
    net = Net().up()
    names = [f"t{number}" for number in range(4)]
    for name in names:
        net.create(name)
    large = bytes(batch.build([batch.NewRecord(b"k", bytes(200_000))], timestamp_ms=net.now, compression="zstd"))
    topics = tuple(
        produce.TopicProduceData(
            topic_id=net.partition(name).topic_id,
            partition_data=(produce.PartitionProduceData(index=0, records=large),),
        )
        for name in names
    )
    response = net.answered(1, produce.ProduceRequest(acks=-1, timeout=ms(1_000), topic_data=topics))
    errors = [topic.partition_responses[0].error_code for topic in response.responses]
    assert errors == [ErrorCode.none] * 2 + [ErrorCode.message_too_large] * 2


def test_timestamps_too_far_ahead_or_behind_are_refused() -> None:
    """P5."""
    net = Net().up()
    net.create("t", message_timestamp_before_max_ms="5000")
    assert send(net, "t", KEYED, timestamp=net.now + HOUR).error_code is ErrorCode.none
    assert send(net, "t", KEYED, timestamp=net.now + HOUR + 1).error_code is ErrorCode.invalid_timestamp
    assert send(net, "t", KEYED, timestamp=net.now - 5_000).error_code is ErrorCode.none
    assert send(net, "t", KEYED, timestamp=net.now - 5_001).error_code is ErrorCode.invalid_timestamp


def test_the_broker_stamps_log_append_time_and_returns_it() -> None:
    net = Net(config(1)).up()
    net.create("t", message_timestamp_type="LogAppendTime")
    answer = send(net, "t", KEYED, timestamp=net.now + 10 * HOUR)
    assert answer.error_code is ErrorCode.none
    assert instant_millis(answer.log_append_time) == net.now
    (record,) = batch.records(net.log("t").read(0, 1 << 20, limit_offset=1))
    assert record.timestamp_ms == net.now
    net.create("u")
    assert instant_millis(send(net, "u", KEYED).log_append_time) == -1


def test_the_answer_to_a_duplicate_has_the_time_of_the_append() -> None:
    """P4."""
    net = Net().up()
    net.create("t", message_timestamp_type="LogAppendTime")
    ids = {"producer_id": 4, "producer_epoch": 0, "base_sequence": 0}
    first = send(net, "t", KEYED, timestamp=1_000, **ids)
    net.advance(5_000)
    again = send(net, "t", KEYED, timestamp=1_000, **ids)
    assert (again.base_offset, again.log_append_time) == (first.base_offset, first.log_append_time)


def test_a_null_key_is_refused_once_the_topic_becomes_compacted() -> None:
    """P5."""
    net = Net().up()
    net.create("t")
    assert send(net, "t", UNKEYED).error_code is ErrorCode.none
    net.answered(1, config_request("t", "cleanup.policy", "compact"))
    assert send(net, "t", UNKEYED).error_code is ErrorCode.invalid_record


# --- compression.type -------------------------------------------------------------------------------------------------

LONG = batch.NewRecord(b"k", b"v" * 5_000)


@pytest.mark.parametrize("sent", ["none", "gzip", "zstd"])
@pytest.mark.parametrize(
    ("wanted", "stored"), [("uncompressed", "none"), ("gzip", "gzip"), ("snappy", "snappy"), ("lz4", "lz4")]
)
def test_a_topic_with_a_codec_of_its_own_stores_everything_in_it(wanted: str, stored: str, sent: str) -> None:
    """P5: only the codec of the batch changes; its producer and sequence stay."""
    net = Net().up()
    net.create("t", compression_type=wanted)
    identity = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    assert send(net, "t", LONG, KEYED, compression=sent, **identity).error_code is ErrorCode.none
    assert send(net, "t", LONG, KEYED, compression=sent, **identity).base_offset == 0  # again: a duplicate
    log = net.log("t")
    data = log.read(0, 1 << 20, limit_offset=log.leo)
    ((pos, header),) = batch.iter_headers(data)
    assert (header.compression, header.producer_id, header.base_sequence, header.count) == (stored, 7, 0, 2)
    assert batch.crc_ok(data, pos, header)
    assert [(record.key, record.value) for record in batch.records(data)] == [(b"k", b"v" * 5_000), (b"k", b"v")]


def test_what_a_topics_codec_makes_too_large_is_refused() -> None:
    """P5."""
    net = Net().up()
    net.create("t", compression_type="uncompressed", max_message_bytes="1000")
    assert send(net, "t", LONG, compression="gzip").error_code is ErrorCode.message_too_large


def test_what_cannot_be_unpacked_or_is_endless_is_not_compressed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """P5: others wait while a batch is compressed."""
    net = Net().up()
    net.create("t", compression_type="lz4")
    damaged = batch.build([LONG], timestamp_ms=net.now, compression="zstd")
    damaged[70] ^= 0xFF
    assert send_bytes(net, "t", bytes(write_crc(damaged))).error_code is ErrorCode.invalid_record
    monkeypatch.setattr(batch, "MOST_RECOMPRESSED", 4_000)
    assert send(net, "t", LONG, compression="zstd").error_code is ErrorCode.message_too_large
