"""Records from empty to megabytes, and which clock their timestamps come from."""

from __future__ import annotations

import time

import pytest
from aiokafka.errors import MessageSizeTooLargeError as AioTooLargeError
from confluent_kafka import KafkaError
from kafka.errors import MessageSizeTooLargeError as PythonTooLargeError

from tests.interop.interop_clients import (
    CLIENTS,
    LOG_APPEND_TIME,
    Aiokafka,
    Client,
    Confluent,
    DeliveryError,
    KafkaPython,
    MakeTopic,
    Record,
    client_id,
    contents,
    stored_bytes,
)

MEGABYTE = 1024 * 1024
NOISE = bytes((i * 7919 >> 3) & 0xFF for i in range(MEGABYTE))
TOO_LARGE_ERRORS: dict[type[Client], type[Exception]] = {
    Confluent: DeliveryError,
    KafkaPython: PythonTooLargeError,
    Aiokafka: AioTooLargeError,
}


@pytest.mark.parametrize("writer", CLIENTS, ids=client_id)
def test_records_of_all_sizes_up_to_the_limit_are_read_back(
    bootstrap: str, make_topic: MakeTopic, writer: type[Client]
) -> None:
    topic = make_topic()
    sizes = (0, 1, 100, 1_000, 65_536, MEGABYTE - 200)
    sent = [Record(NOISE[:size], timestamp_ms=1) for size in sizes]
    writer.send(bootstrap, topic, sent)
    for reader in CLIENTS:
        assert contents(reader.read(bootstrap, topic, len(sizes))) == sent, reader.name


@pytest.mark.parametrize("writer", CLIENTS, ids=client_id)
def test_a_higher_limit_admits_larger_records(bootstrap: str, make_topic: MakeTopic, writer: type[Client]) -> None:
    """They are also larger than any client's fetch limit of a partition: the first batch is returned whole."""
    topic = make_topic(max_message_bytes=6 * MEGABYTE)
    sent = [Record(NOISE * 2, timestamp_ms=1), Record(b"small", timestamp_ms=2), Record(NOISE * 5, timestamp_ms=3)]
    writer.send(bootstrap, topic, sent)
    for reader in CLIENTS:
        assert contents(reader.read(bootstrap, topic, len(sent))) == sent, reader.name


@pytest.mark.parametrize("writer", CLIENTS, ids=client_id)
def test_a_record_over_the_limit_is_refused_with_the_clients_own_error(
    bootstrap: str, make_topic: MakeTopic, writer: type[Client]
) -> None:
    topic = make_topic()
    with pytest.raises(TOO_LARGE_ERRORS[writer]) as refused:
        writer.send(bootstrap, topic, [Record(NOISE + b"more", timestamp_ms=1)])
    if isinstance(refused.value, DeliveryError):
        assert refused.value.code == KafkaError.MSG_SIZE_TOO_LARGE
    writer.send(bootstrap, topic, [Record(b"fits", timestamp_ms=1)])
    assert contents(writer.read(bootstrap, topic, 1)) == [Record(b"fits", timestamp_ms=1)]


def test_the_limit_applies_to_the_compressed_size(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=10_000)
    sent = [Record(b"a" * MEGABYTE, timestamp_ms=1)]
    Confluent.send(bootstrap, topic, sent, codec="zstd")
    assert contents(KafkaPython.read(bootstrap, topic, 1)) == sent


@pytest.mark.parametrize(
    ("topic_codec", "sent_codec", "is_small"),
    [("producer", "none", False), ("producer", "zstd", True), ("gzip", "none", True), ("uncompressed", "lz4", False)],
)
def test_the_topic_decides_which_codec_is_stored(
    bootstrap: str, make_topic: MakeTopic, topic_codec: str, sent_codec: str, is_small: bool
) -> None:
    topic = make_topic(compression_type=topic_codec)
    batch = [Record(b"a" * 100_000, timestamp_ms=1)]
    Confluent.send(bootstrap, topic, batch, codec=sent_codec)
    assert (stored_bytes(bootstrap, topic) < 50_000) is is_small
    for reader in CLIENTS:
        assert contents(reader.read(bootstrap, topic, 1)) == batch, reader.name


@pytest.mark.parametrize("writer", CLIENTS, ids=client_id)
def test_without_a_timestamp_the_clients_clock_is_used(
    bootstrap: str, make_topic: MakeTopic, writer: type[Client]
) -> None:
    topic = make_topic()
    before = _now_ms()
    writer.send(bootstrap, topic, [Record(b"now")])
    (record,) = writer.read(bootstrap, topic, 1)
    assert before <= record.timestamp_ms <= _now_ms()


@pytest.mark.parametrize("writer", CLIENTS, ids=client_id)
def test_with_log_append_time_the_brokers_clock_is_used(
    bootstrap: str, make_topic: MakeTopic, writer: type[Client]
) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before = _now_ms()
    writer.send(bootstrap, topic, [Record(b"a", timestamp_ms=5), Record(b"b", timestamp_ms=6)], codec="gzip")
    for reader in CLIENTS:
        records = reader.read(bootstrap, topic, 2)
        assert [record.value for record in contents(records)] == [b"a", b"b"]
        assert {record.timestamp_type for record in records} == {LOG_APPEND_TIME}
        assert all(before <= record.timestamp_ms <= _now_ms() for record in records)


def test_a_timestamp_far_in_the_future_is_refused(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(message_timestamp_after_max_ms=1_000)
    with pytest.raises(DeliveryError) as refused:
        Confluent.send(bootstrap, topic, [Record(b"tomorrow", timestamp_ms=_now_ms() + 86_400_000)])
    assert refused.value.code == KafkaError.INVALID_TIMESTAMP


def test_a_compacted_topic_refuses_a_record_without_a_key(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(cleanup_policy="compact")
    with pytest.raises(DeliveryError) as refused:
        Confluent.send(bootstrap, topic, [Record(b"keyless", timestamp_ms=1)])
    assert refused.value.code == KafkaError.INVALID_RECORD
    keyed = [Record(b"v", b"k", timestamp_ms=1), Record(None, b"k", timestamp_ms=2)]
    assert Confluent.send(bootstrap, topic, keyed) == [0, 1]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
