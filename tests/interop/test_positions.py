"""Where a consumer stands and may go: beginnings, ends, times, positions and commits."""

from __future__ import annotations

import time
from typing import Any

import pytest
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient
from kafka import TopicPartition as PythonPartition
from kafka.structs import OffsetAndMetadata

from tests.interop.interop_clients import (
    CLIENTS,
    PATIENCE_S,
    Confluent,
    MakeTopic,
    Rec,
    aio_consumer,
    client_id,
    confluent_consumer,
    contents,
    deadline,
    python_consumer,
    run,
)

COUNT, DELETED = 20, 5
FIRST_TIME = 1_000_000


@pytest.fixture
def topic(bootstrap: str, admin: AdminClient, make_topic: MakeTopic) -> str:
    """Offsets 5 to 19 are left; the record at offset n has time 1,000,000 + 10 n."""
    name = make_topic()
    Confluent.send(bootstrap, name, [Rec(b"%d" % i, at=FIRST_TIME + 10 * i) for i in range(COUNT)])
    for done in admin.delete_records([ConfluentPartition(name, 0, DELETED)]).values():
        assert done.result(PATIENCE_S).low_watermark == DELETED
    return name


def test_confluent_finds_its_way(bootstrap: str, topic: str) -> None:
    consumer = confluent_consumer(bootstrap, group_id=topic, enable_partition_eof=True)
    here = ConfluentPartition(topic, 0)
    assert consumer.get_watermark_offsets(here, PATIENCE_S) == (DELETED, COUNT)
    asked = {FIRST_TIME + 71: 8, FIRST_TIME + 80: 8, 0: DELETED, FIRST_TIME + 10_000: -1}
    for at, offset in asked.items():
        (found,) = consumer.offsets_for_times([ConfluentPartition(topic, 0, at)], PATIENCE_S)
        assert (found.error, found.offset) == (None, offset)
    consumer.assign([ConfluentPartition(topic, 0, OFFSET_BEGINNING)])
    assert _next(consumer) == DELETED
    consumer.seek(ConfluentPartition(topic, 0, 12))
    assert _next(consumer) == 12
    assert consumer.position([here])[0].offset == 13
    consumer.seek(ConfluentPartition(topic, 0, OFFSET_END))
    end = consumer.poll(PATIENCE_S)
    assert (end.error().code(), end.offset()) == (KafkaError._PARTITION_EOF, COUNT)
    Confluent.send(bootstrap, topic, [Rec(b"late")])
    assert _next(consumer) == COUNT
    consumer.commit(offsets=[ConfluentPartition(topic, 0, 7, metadata="seven")], asynchronous=False)
    (committed,) = consumer.committed([here], PATIENCE_S)
    assert (committed.offset, committed.metadata) == (7, "seven")
    consumer.close()


def _next(consumer: Any) -> int:
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert message.error() is None
    offset: int = message.offset()
    return offset


def test_kafka_python_finds_its_way(bootstrap: str, topic: str) -> None:
    consumer = python_consumer(bootstrap, group_id=topic, auto_offset_reset="earliest", max_poll_records=1)
    here = PythonPartition(topic, 0)
    assert consumer.beginning_offsets([here]) == {here: DELETED}
    assert consumer.end_offsets([here]) == {here: COUNT}
    found = consumer.offsets_for_times({here: FIRST_TIME + 71})[here]
    assert (found.offset, found.timestamp, found.leader_epoch) == (8, FIRST_TIME + 80, 0)
    assert consumer.offsets_for_times({here: FIRST_TIME + 10_000}) == {here: None}
    consumer.assign([here])
    consumer.seek_to_beginning(here)
    assert _next_python(consumer, here) == DELETED
    consumer.seek(here, 12)
    assert _next_python(consumer, here) == 12
    assert consumer.position(here) == 13
    consumer.seek_to_end(here)
    assert consumer.position(here) == COUNT
    Confluent.send(bootstrap, topic, [Rec(b"late")])
    assert _next_python(consumer, here) == COUNT
    assert consumer.committed(here) is None
    consumer.commit({here: OffsetAndMetadata(7, "seven", 0)})
    assert consumer.committed(here, metadata=True) == OffsetAndMetadata(7, "seven", 0)
    consumer.close()


def _next_python(consumer: Any, here: PythonPartition) -> int:
    end = deadline()
    while time.monotonic() < end:
        for message in consumer.poll(200).get(here, ()):
            offset: int = message.offset
            return offset
    raise AssertionError("nothing came")


def test_aiokafka_finds_its_way(bootstrap: str, topic: str) -> None:
    async def wander() -> None:
        here = AioPartition(topic, 0)
        async with aio_consumer(bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
            assert await consumer.beginning_offsets([here]) == {here: DELETED}
            assert await consumer.end_offsets([here]) == {here: COUNT}
            found = (await consumer.offsets_for_times({here: FIRST_TIME + 71}))[here]
            assert (found.offset, found.timestamp) == (8, FIRST_TIME + 80)
            assert await consumer.offsets_for_times({here: FIRST_TIME + 10_000}) == {here: None}
            consumer.assign([here])
            await consumer.seek_to_beginning(here)
            assert (await consumer.getone()).offset == DELETED
            consumer.seek(here, 12)
            assert (await consumer.getone()).offset == 12
            assert await consumer.position(here) == 13
            await consumer.seek_to_end(here)
            assert await consumer.position(here) == COUNT
            assert await consumer.committed(here) is None
            await consumer.commit({here: 7})
            assert await consumer.committed(here) == 7

    run(wander())


@pytest.mark.parametrize("client", CLIENTS, ids=client_id)
def test_an_offset_that_is_gone_sends_the_reader_to_the_beginning(bootstrap: str, topic: str, client: Any) -> None:
    reset = {"auto_offset_reset": "earliest"}
    found = client.read(bootstrap, topic, COUNT - DELETED, offset=2, **reset)
    assert [each.offset for each in found] == list(range(DELETED, COUNT))
    (again,) = client.read(bootstrap, topic, 1, offset=1_000, **reset)[:1]
    assert again.offset == DELETED


def test_without_a_reset_policy_the_reader_is_told(bootstrap: str, topic: str) -> None:
    consumer = confluent_consumer(bootstrap, auto_offset_reset="error")
    consumer.assign([ConfluentPartition(topic, 0, 1_000)])
    message = consumer.poll(PATIENCE_S)
    assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
    consumer.close()


@pytest.mark.parametrize("client", CLIENTS, ids=client_id)
def test_a_reader_of_committed_records_sees_all_of_them(bootstrap: str, topic: str, client: Any) -> None:
    """Without transactions the last stable offset is the high watermark."""
    found = client.read(bootstrap, topic, 15, offset=DELETED, isolation_level="read_committed")
    assert contents(found)[-1].value == b"19"


def test_offsets_of_missing_partitions_are_errors(bootstrap: str, topic: str) -> None:
    consumer = confluent_consumer(bootstrap)
    with pytest.raises(KafkaException) as missing:
        consumer.get_watermark_offsets(ConfluentPartition(topic, 9), PATIENCE_S)
    assert missing.value.args[0].code() == KafkaError._UNKNOWN_PARTITION
    consumer.close()
