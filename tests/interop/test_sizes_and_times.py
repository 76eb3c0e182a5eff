"""Records from nothing to megabytes, and whose clock their timestamps come from."""

from __future__ import annotations

import time
from typing import Any

import pytest
from aiokafka.errors import MessageSizeTooLargeError as AioTooLarge
from confluent_kafka import KafkaError
from kafka.errors import MessageSizeTooLargeError as PythonTooLarge

from tests.interop.interop_clients import (
    CLIENTS,
    LOG_APPEND_TIME,
    Aiokafka,
    Confluent,
    ConfluentRefused,
    KafkaPython,
    MakeTopic,
    Rec,
    client_id,
    contents,
    stored_bytes,
)

MEGABYTE = 1024 * 1024
NOISE = bytes((i * 7919 >> 3) & 0xFF for i in range(MEGABYTE))
TOO_LARGE = {Confluent: ConfluentRefused, KafkaPython: PythonTooLarge, Aiokafka: AioTooLarge}


@pytest.mark.parametrize("writer", CLIENTS, ids=client_id)
def test_records_of_all_sizes_up_to_the_limit_come_back(bootstrap: str, make_topic: MakeTopic, writer: Any) -> None:
    topic = make_topic()
    sizes = (0, 1, 100, 1_000, 65_536, MEGABYTE - 200)
    sent = [Rec(NOISE[:size], at=1) for size in sizes]
    writer.send(bootstrap, topic, sent)
    for reader in CLIENTS:
        assert contents(reader.read(bootstrap, topic, len(sizes))) == sent, reader.name


@pytest.mark.parametrize("writer", CLIENTS, ids=client_id)
def test_a_raised_limit_lets_larger_records_through(bootstrap: str, make_topic: MakeTopic, writer: Any) -> None:
    """They are also larger than what any of the clients asks a partition for at once: the first batch comes whole."""
    topic = make_topic(max_message_bytes=6 * MEGABYTE)
    sent = [Rec(NOISE * 2, at=1), Rec(b"small", at=2), Rec(NOISE * 5, at=3)]
    writer.send(bootstrap, topic, sent)
    for reader in CLIENTS:
        assert contents(reader.read(bootstrap, topic, len(sent))) == sent, reader.name


@pytest.mark.parametrize("writer", CLIENTS, ids=client_id)
def test_a_record_over_the_limit_is_refused_with_the_clients_own_error(
    bootstrap: str, make_topic: MakeTopic, writer: Any
) -> None:
    topic = make_topic()
    with pytest.raises(TOO_LARGE[writer]) as refused:
        writer.send(bootstrap, topic, [Rec(NOISE + b"more", at=1)])
    if isinstance(refused.value, ConfluentRefused):
        assert refused.value.error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    writer.send(bootstrap, topic, [Rec(b"fits", at=1)])
    assert contents(writer.read(bootstrap, topic, 1)) == [Rec(b"fits", at=1)]


def test_the_limit_counts_what_is_compressed(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=10_000)
    sent = [Rec(b"a" * MEGABYTE, at=1)]
    Confluent.send(bootstrap, topic, sent, codec="zstd")
    assert contents(KafkaPython.read(bootstrap, topic, 1)) == sent


@pytest.mark.parametrize(
    ("wanted", "sent", "small"),
    [("producer", "none", False), ("producer", "zstd", True), ("gzip", "none", True), ("uncompressed", "lz4", False)],
)
def test_a_topic_may_choose_the_codec_that_is_stored(
    bootstrap: str, make_topic: MakeTopic, wanted: str, sent: str, small: bool
) -> None:
    topic = make_topic(compression_type=wanted)
    batch = [Rec(b"a" * 100_000, at=1)]
    Confluent.send(bootstrap, topic, batch, codec=sent)
    assert (stored_bytes(bootstrap, topic) < 50_000) is small
    for reader in CLIENTS:
        assert contents(reader.read(bootstrap, topic, 1)) == batch, reader.name


@pytest.mark.parametrize("writer", CLIENTS, ids=client_id)
def test_without_a_timestamp_the_clients_clock_counts(bootstrap: str, make_topic: MakeTopic, writer: Any) -> None:
    topic = make_topic()
    before = _now()
    writer.send(bootstrap, topic, [Rec(b"now")])
    (found,) = writer.read(bootstrap, topic, 1)
    assert before <= found.rec.at <= _now()


@pytest.mark.parametrize("writer", CLIENTS, ids=client_id)
def test_with_log_append_time_the_brokers_clock_counts(bootstrap: str, make_topic: MakeTopic, writer: Any) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before = _now()
    writer.send(bootstrap, topic, [Rec(b"a", at=5), Rec(b"b", at=6)], codec="gzip")
    for reader in CLIENTS:
        found = reader.read(bootstrap, topic, 2)
        assert [each.rec.value for each in found] == [b"a", b"b"]
        assert {each.timestamp_type for each in found} == {LOG_APPEND_TIME}
        assert all(before <= each.rec.at <= _now() for each in found)


def test_a_timestamp_far_in_the_future_is_refused(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(message_timestamp_after_max_ms=1_000)
    with pytest.raises(ConfluentRefused) as refused:
        Confluent.send(bootstrap, topic, [Rec(b"tomorrow", at=_now() + 86_400_000)])
    assert refused.value.error.code() == KafkaError.INVALID_TIMESTAMP


def test_a_compacted_topic_takes_no_record_without_a_key(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(cleanup_policy="compact")
    with pytest.raises(ConfluentRefused) as refused:
        Confluent.send(bootstrap, topic, [Rec(b"keyless", at=1)])
    assert refused.value.error.code() == KafkaError.INVALID_RECORD
    Confluent.send(bootstrap, topic, [Rec(b"v", b"k", at=1), Rec(None, b"k", at=2)])


def _now() -> int:
    return time.time_ns() // 1_000_000
