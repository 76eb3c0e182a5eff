"""Offsets of a consumer: beginnings and ends, lookup by timestamp, positions, seeks and commits."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient
from kafka import TopicPartition as PythonPartition
from kafka.structs import OffsetAndMetadata

from tests.interop.interop_clients import (
    CLIENTS,
    Client,
    Confluent,
    MakeTopic,
    Record,
    aio_consumer,
    client_id,
    confluent_consumer,
    contents,
    error_code,
    poll_message,
    python_consumer,
    run_with_timeout,
)
from tests.polling import TIMEOUT_S, wait_until

COUNT, DELETED = 20, 5
FIRST_TIMESTAMP_MS = 1_000_000


@pytest.fixture
def topic(bootstrap: str, admin: AdminClient, make_topic: MakeTopic) -> str:
    """Has offsets 5 to 19; the timestamp of the record at offset n is 1,000,000 + 10 n."""
    name = make_topic()
    Confluent.send(bootstrap, name, [Record(b"%d" % i, timestamp_ms=FIRST_TIMESTAMP_MS + 10 * i) for i in range(COUNT)])
    (deletion,) = admin.delete_records([ConfluentPartition(name, 0, DELETED)]).values()
    assert deletion.result(TIMEOUT_S).low_watermark == DELETED
    return name


def test_confluent_looks_up_seeks_and_commits(bootstrap: str, topic: str) -> None:
    consumer = confluent_consumer(bootstrap, group_id=topic, enable_partition_eof=True)
    partition = ConfluentPartition(topic, 0)
    assert consumer.get_watermark_offsets(partition, TIMEOUT_S) == (DELETED, COUNT)
    first = FIRST_TIMESTAMP_MS
    for timestamp_ms, offset in {first + 71: 8, first + 80: 8, 0: DELETED, first + 10_000: -1}.items():
        (result,) = consumer.offsets_for_times([ConfluentPartition(topic, 0, timestamp_ms)], TIMEOUT_S)
        assert (result.error, result.offset) == (None, offset)
    consumer.assign([ConfluentPartition(topic, 0, OFFSET_BEGINNING)])
    assert _next_offset(consumer) == DELETED
    consumer.seek(ConfluentPartition(topic, 0, 12))
    assert _next_offset(consumer) == 12
    assert consumer.position([partition])[0].offset == 13
    consumer.seek(ConfluentPartition(topic, 0, OFFSET_END))
    end = poll_message(consumer)
    assert (error_code(end.error()), end.offset()) == (KafkaError._PARTITION_EOF, COUNT)
    Confluent.send(bootstrap, topic, [Record(b"late")])
    assert _next_offset(consumer) == COUNT
    consumer.commit(offsets=[ConfluentPartition(topic, 0, 7, metadata="seven")], asynchronous=False)
    (committed,) = consumer.committed([partition], TIMEOUT_S)
    assert (committed.offset, committed.metadata) == (7, "seven")
    consumer.close()


def _next_offset(consumer: Consumer) -> int | None:
    message = poll_message(consumer)
    assert message.error() is None
    return message.offset()


def test_kafka_python_looks_up_seeks_and_commits(bootstrap: str, topic: str) -> None:
    consumer = python_consumer(bootstrap, group_id=topic, auto_offset_reset="earliest", max_poll_records=1)
    partition = PythonPartition(topic, 0)
    assert consumer.beginning_offsets([partition]) == {partition: DELETED}
    assert consumer.end_offsets([partition]) == {partition: COUNT}
    result = consumer.offsets_for_times({partition: FIRST_TIMESTAMP_MS + 71})[partition]
    assert (result.offset, result.timestamp, result.leader_epoch) == (8, FIRST_TIMESTAMP_MS + 80, 0)
    assert consumer.offsets_for_times({partition: FIRST_TIMESTAMP_MS + 10_000}) == {partition: None}
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    assert _next_python_offset(consumer, partition) == DELETED
    consumer.seek(partition, 12)
    assert _next_python_offset(consumer, partition) == 12
    assert consumer.position(partition) == 13
    consumer.seek_to_end(partition)
    assert consumer.position(partition) == COUNT
    Confluent.send(bootstrap, topic, [Record(b"late")])
    assert _next_python_offset(consumer, partition) == COUNT
    assert consumer.committed(partition) is None
    consumer.commit({partition: OffsetAndMetadata(7, "seven", 0)})
    assert consumer.committed(partition, metadata=True) == OffsetAndMetadata(7, "seven", 0)
    consumer.close()


def _next_python_offset(consumer: Any, partition: PythonPartition) -> int:
    (message,) = wait_until(lambda: consumer.poll(200).get(partition), "the consumer polls a record")
    offset: int = message.offset
    return offset


def test_aiokafka_looks_up_seeks_and_commits(bootstrap: str, topic: str) -> None:
    async def check() -> None:
        partition = AioPartition(topic, 0)
        async with aio_consumer(bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
            assert await consumer.beginning_offsets([partition]) == {partition: DELETED}
            assert await consumer.end_offsets([partition]) == {partition: COUNT}
            result = (await consumer.offsets_for_times({partition: FIRST_TIMESTAMP_MS + 71}))[partition]
            assert (result.offset, result.timestamp) == (8, FIRST_TIMESTAMP_MS + 80)
            assert await consumer.offsets_for_times({partition: FIRST_TIMESTAMP_MS + 10_000}) == {partition: None}
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            assert (await consumer.getone()).offset == DELETED
            consumer.seek(partition, 12)
            assert (await consumer.getone()).offset == 12
            assert await consumer.position(partition) == 13
            await consumer.seek_to_end(partition)
            assert await consumer.position(partition) == COUNT
            assert await consumer.committed(partition) is None
            await consumer.commit({partition: 7})
            assert await consumer.committed(partition) == 7

    run_with_timeout(check())


@pytest.mark.parametrize("client", CLIENTS, ids=client_id)
def test_an_offset_out_of_range_resets_the_reader_to_the_beginning(
    bootstrap: str, topic: str, client: type[Client]
) -> None:
    below = client.read(bootstrap, topic, COUNT - DELETED, offset=2, auto_offset_reset="earliest")
    assert [record.offset for record in below] == list(range(DELETED, COUNT))
    above = client.read(bootstrap, topic, 1, offset=1_000, auto_offset_reset="earliest")
    assert above[0].offset == DELETED


def test_without_a_reset_policy_the_reader_gets_an_error(bootstrap: str, topic: str) -> None:
    consumer = confluent_consumer(bootstrap, auto_offset_reset="error")
    consumer.assign([ConfluentPartition(topic, 0, 1_000)])
    assert error_code(poll_message(consumer).error()) == KafkaError._AUTO_OFFSET_RESET
    consumer.close()


@pytest.mark.parametrize("client", CLIENTS, ids=client_id)
def test_a_read_committed_reader_reads_all_records(bootstrap: str, topic: str, client: type[Client]) -> None:
    """Without transactions the last stable offset is the high watermark."""
    records = client.read(bootstrap, topic, COUNT - DELETED, offset=DELETED, isolation_level="read_committed")
    assert [record.value for record in contents(records)] == [b"%d" % i for i in range(DELETED, COUNT)]


def test_offsets_of_missing_partitions_are_errors(bootstrap: str, topic: str) -> None:
    consumer = confluent_consumer(bootstrap)
    with pytest.raises(KafkaException) as missing:
        consumer.get_watermark_offsets(ConfluentPartition(topic, 9), TIMEOUT_S)
    assert error_code(missing.value.args[0]) == KafkaError._UNKNOWN_PARTITION
    consumer.close()
