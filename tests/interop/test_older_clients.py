"""Clients that speak as they did years ago. kafka-python can be told which broker it is talking to, and then keeps to
the versions of that broker's time: from 0.11, the first with today's records, every one of them is served."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaAdminClient, TopicPartition
from kafka.structs import OffsetAndMetadata

from tests.interop.interop_clients import (
    Confluent,
    KafkaPython,
    MakeTopic,
    Rec,
    confluent_consumer,
    contents,
    kcat,
    python_consumer,
)
from tests.interop.interop_members import eventually

AGES = [(0, 11), (1, 0), (1, 1), (2, 0), (2, 1), (2, 3), (2, 4), (2, 6), (2, 8), (3, 1), (3, 5), (3, 9), (4, 0), (4, 1)]
ZSTD_SINCE = (2, 1)


@pytest.mark.parametrize("age", AGES, ids=lambda age: ".".join(map(str, age)))
def test_a_client_of_any_age_writes_reads_and_commits(
    bootstrap: str, make_topic: MakeTopic, age: tuple[int, ...]
) -> None:
    topic = make_topic()
    codec = "zstd" if age >= ZSTD_SINCE else "gzip"
    sent = [Rec(b"%d" % i, b"k", (("h", b"1"),), 1_000 + i) for i in range(20)]
    assert KafkaPython.send(bootstrap, topic, sent, codec=codec, api_version=age) == list(range(20))
    assert contents(Confluent.read(bootstrap, topic, 20)) == sent
    consumer = python_consumer(bootstrap, api_version=age, group_id=topic, auto_offset_reset="earliest")
    consumer.subscribe([topic])
    found: list[bytes] = []
    eventually(lambda: _poll(consumer, found) == 20, "everything is read")
    here = TopicPartition(topic, 0)
    assert consumer.offsets_for_times({here: 1_005})[here].offset == 5
    assert (consumer.beginning_offsets([here]), consumer.end_offsets([here])) == ({here: 0}, {here: 20})
    consumer.commit({here: OffsetAndMetadata(20, "done", -1)})
    assert consumer.committed(here) == 20
    consumer.close()


def _poll(consumer: object, found: list[bytes]) -> int:
    for messages in consumer.poll(1_000).values():  # type: ignore[attr-defined]
        found += [message.value for message in messages]
    return len(found)


@pytest.mark.parametrize("age", [(1, 1), (2, 0), (2, 4), (2, 8), (3, 3)], ids=lambda age: ".".join(map(str, age)))
def test_an_administrator_of_any_age_is_understood(bootstrap: str, make_topic: MakeTopic, age: tuple[int, ...]) -> None:
    group = topic = make_topic(2)
    committer = confluent_consumer(bootstrap, group_id=group)
    committer.commit(offsets=[ConfluentPartition(topic, 1, 0)], asynchronous=False)
    committer.close()
    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","), api_version=age)
    made = f"{topic}-made"
    admin.create_topics({made: {"num_partitions": 2, "replication_factor": 3}})
    admin.create_partitions({made: 3})
    (described,) = eventually(lambda: _with_partitions(admin, made, 3), "the topic has three partitions")
    assert [sorted(each["isr_nodes"]) for each in described["partitions"]] == [[1, 2, 3]] * 3
    assert group in [each["group_id"] for each in admin.list_groups()]
    assert admin.describe_groups([group])[group]["group_state"] == "Empty"
    assert admin.list_group_offsets([group])[group][TopicPartition(topic, 1)].offset == 0
    assert admin.delete_groups([group]) == {group: "OK"}
    admin.delete_topics([made])
    admin.close()


def _with_partitions(admin: KafkaAdminClient, topic: str, count: int) -> object:
    described = admin.describe_topics([topic])
    return described if len(described[0]["partitions"]) == count else None


def test_a_client_that_asks_for_no_versions_is_told_who_leads(bootstrap: str, make_topic: MakeTopic) -> None:
    """It speaks the first versions of everything; those of Metadata are still served."""
    topic = make_topic(2)
    old = ("-X", "api.version.request=false", "-X", "broker.version.fallback=0.9.0")
    eventually(
        lambda: f'topic "{topic}" with 2 partitions' in kcat(bootstrap, *old, "-L").stdout.decode(), "it is told"
    )
