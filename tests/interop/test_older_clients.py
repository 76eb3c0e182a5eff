"""Clients that use old versions of requests. kafka-python can be configured for the release of its broker, and then
keeps to that release's versions: all are served from 0.11 on, the first release with today's record format."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from tests.interop import interop_clients as clients
from tests.polling import wait_until

RELEASES = [
    (0, 11), (1, 0), (1, 1), (2, 0), (2, 1), (2, 3), (2, 4), (2, 6), (2, 8), (3, 1), (3, 5), (3, 9), (4, 0), (4, 1),
]  # fmt: skip
FIRST_RELEASE_WITH_ZSTD = (2, 1)


def release_id(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))


@pytest.mark.parametrize("release", RELEASES, ids=release_id)
def test_a_client_of_any_release_writes_reads_and_commits(
    bootstrap: str, make_topic: clients.MakeTopic, release: tuple[int, ...]
) -> None:
    topic = make_topic()
    codec = "zstd" if release >= FIRST_RELEASE_WITH_ZSTD else "gzip"
    sent = [clients.Record(b"%d" % i, b"k", (("h", b"1"),), 1_000 + i) for i in range(20)]
    assert clients.KafkaPython.send(bootstrap, topic, sent, codec=codec, api_version=release) == list(range(20))
    assert clients.contents(clients.Confluent.read(bootstrap, topic, 20)) == sent
    consumer = clients.python_consumer(bootstrap, api_version=release, group_id=topic, auto_offset_reset="earliest")
    consumer.subscribe([topic])
    values: list[bytes] = []
    wait_until(lambda: _poll_into(values, consumer) == 20, "all records are read")
    assert values == [record.value for record in sent]
    partition = TopicPartition(topic, 0)
    assert consumer.offsets_for_times({partition: 1_005})[partition].offset == 5
    assert (consumer.beginning_offsets([partition]), consumer.end_offsets([partition])) == (
        {partition: 0},
        {partition: 20},
    )
    consumer.commit({partition: OffsetAndMetadata(20, "done", -1)})
    assert consumer.committed(partition) == 20
    consumer.close()


def _poll_into(values: list[bytes], consumer: KafkaConsumer) -> int:
    for messages in consumer.poll(1_000).values():
        values += [message.value for message in messages]
    return len(values)


@pytest.mark.parametrize("release", [(1, 1), (2, 0), (2, 4), (2, 8), (3, 3)], ids=release_id)
def test_an_admin_client_of_any_release_is_served(
    bootstrap: str, make_topic: clients.MakeTopic, release: tuple[int, ...]
) -> None:
    group = topic = make_topic(2)
    committer = clients.confluent_consumer(bootstrap, group_id=group)
    committer.commit(offsets=[ConfluentPartition(topic, 1, 0)], asynchronous=False)
    committer.close()
    admin = clients.python_admin_client(bootstrap, api_version=release)
    created = f"{topic}-created"
    admin.create_topics({created: {"num_partitions": 2, "replication_factor": 3}})
    admin.create_partitions({created: 3})
    (described,) = wait_until(lambda: _describe_with_partitions(admin, created, 3), "the topic has three partitions")
    assert [sorted(partition["isr_nodes"]) for partition in described["partitions"]] == [[1, 2, 3]] * 3
    assert group in [listed["group_id"] for listed in admin.list_groups()]
    assert admin.describe_groups([group])[group]["group_state"] == "Empty"
    assert admin.list_group_offsets([group])[group][TopicPartition(topic, 1)].offset == 0
    assert admin.delete_groups([group]) == {group: "OK"}
    admin.delete_topics([created])
    admin.close()


def _describe_with_partitions(admin: KafkaAdminClient, topic: str, count: int) -> list[dict[str, Any]] | None:
    described: list[dict[str, Any]] = admin.describe_topics([topic])
    return described if len(described[0]["partitions"]) == count else None


def test_a_client_that_does_not_ask_for_versions_gets_metadata(bootstrap: str, make_topic: clients.MakeTopic) -> None:
    """It uses version 0 of every request; that of Metadata is served."""
    topic = make_topic(2)
    old = ("-X", "api.version.request=false", "-X", "broker.version.fallback=0.9.0")
    described = f'topic "{topic}" with 2 partitions'
    wait_until(lambda: described in clients.kcat(bootstrap, *old, "-L").stdout.decode(), "kcat lists the topic")
