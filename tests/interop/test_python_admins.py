"""The admin clients of kafka-python and aiokafka: topics, settings, records, leaders, replicas and the quorum."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import TopicPartition as AioPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.admin.config_resource import ConfigResource as AioResource
from aiokafka.admin.config_resource import ConfigResourceType as AioResourceType
from aiokafka.admin.records_to_delete import RecordsToDelete
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import (
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationAssignmentError,
    InvalidTopicError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from tests.interop.interop_clients import Confluent, MakeTopic, Record, run_with_timeout
from tests.polling import INTERVAL_S, wait_until

PREFERRED = 0


def test_kafka_python_creates_and_deletes_topics(python_admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic() + "-created"
    wanted = {topic: {"num_partitions": 2, "replication_factor": 3, "configs": {"retention.ms": "5000"}}}
    (created,) = python_admin.create_topics(wanted)["topics"]
    assert (created["num_partitions"], created["replication_factor"]) == (2, 3)
    assert created["configs"]["retention.ms"]["value"] == "5000"
    with pytest.raises(TopicAlreadyExistsError):
        python_admin.create_topics(wanted)
    with pytest.raises(InvalidTopicError):
        python_admin.create_topics({"not a name": {"num_partitions": 1, "replication_factor": 1}})
    with pytest.raises(InvalidConfigurationError, match="nope"):
        python_admin.create_topics({"x": {"num_partitions": 1, "replication_factor": 1, "configs": {"nope": "1"}}})
    wait_until(lambda: topic in python_admin.list_topics(), "the topic is listed")
    python_admin.create_partitions({topic: 3})
    with pytest.raises(InvalidPartitionsError):
        python_admin.create_partitions({topic: 2})
    python_admin.delete_topics([topic])
    with pytest.raises(UnknownTopicOrPartitionError):
        python_admin.delete_topics([topic])


def test_kafka_python_pages_through_partitions(python_admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    first = python_admin.describe_topic_partitions([topic], response_partition_limit=2)
    assert first["next_cursor"] == {"topic_name": topic, "partition_index": 2}
    rest = python_admin.describe_topic_partitions([topic], cursor=first["next_cursor"])
    assert rest["next_cursor"] is None
    pages = [page["topics"][0]["partitions"] for page in (first, rest)]
    assert [partition["partition_index"] for page in pages for partition in page] == [0, 1, 2]


def test_kafka_python_changes_settings(python_admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms=1_000)

    def topic_settings() -> dict[str, str]:
        """Only those that are set on the topic."""
        entries = python_admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][topic]
        return {
            key: entry["value"] for key, entry in entries.items() if entry["config_source"] == "DYNAMIC_TOPIC_CONFIG"
        }

    def alter(configs: dict[str, str], **options: bool) -> str:
        """The result for the topic, as text."""
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic, configs)]
        return str(python_admin.alter_configs(resources, raise_on_unknown=False, **options)["topic"][topic])

    assert topic_settings() == {"retention.ms": "1000"}
    alter({"segment.ms": "2000"})
    wait_until(lambda: topic_settings() == {"retention.ms": "1000", "segment.ms": "2000"}, "both settings are set")
    assert "soon" in alter({"retention.ms": "soon"})
    assert "retention.mss" in alter({"retention.mss": "1"})
    python_admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"segment.ms": None})])
    wait_until(lambda: topic_settings() == {"retention.ms": "1000"}, "one setting is left")
    alter({"flush.ms": "3000"}, incremental=False)
    wait_until(lambda: topic_settings().get("flush.ms") == "3000", "the named setting is set")


def test_kafka_python_moves_replicas_and_leaders(python_admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(1, 1)
    partition = TopicPartition(topic, 0)

    def replicas() -> list[int]:
        nodes: list[int] = python_admin.describe_topics([topic])[0]["partitions"][0]["replica_nodes"]
        return nodes

    (old,) = replicas()
    new = old % 3 + 1
    assert python_admin.alter_partition_reassignments({partition: [new, old]}) == {partition: None}
    wait_until(lambda: replicas() == [new, old], "the partition has the new replica")
    wait_until(lambda: not python_admin.list_partition_reassignments({topic: [0]}), "the reassignment is complete")
    wait_until(lambda: python_admin.elect_leaders(PREFERRED, {topic: [0]}), "the preferred replica is elected")
    wait_until(lambda: _leader(python_admin, topic) == new, "the new leader is known to the broker that is asked")
    refused = python_admin.alter_partition_reassignments({partition: [1, 9]})
    assert refused == {partition: InvalidReplicationAssignmentError}


def _leader(admin: KafkaAdminClient, topic: str) -> int:
    leader: int = admin.describe_topics([topic])[0]["partitions"][0]["leader_id"]
    return leader


def test_kafka_python_deletes_records(bootstrap: str, python_admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    partition = TopicPartition(topic, 0)
    Confluent.send(bootstrap, topic, [Record(b"x", timestamp_ms=1_000 + i) for i in range(10)])
    assert python_admin.delete_records({partition: 4})[partition]["low_watermark"] == 4
    specs = {OffsetSpec.EARLIEST: 4, OffsetSpec.LATEST: 10, OffsetSpec.MAX_TIMESTAMP: 9, 1_006: 6}
    for spec, offset in specs.items():
        assert python_admin.list_partition_offsets({partition: spec})[partition].offset == offset


def test_kafka_python_describes_the_cluster(python_admin: KafkaAdminClient) -> None:
    cluster = python_admin.describe_cluster()
    assert sorted(broker["broker_id"] for broker in cluster["brokers"]) == [1, 2, 3]
    assert "CREATE" in cluster["authorized_operations"]
    (metadata,) = python_admin.describe_metadata_quorum()["topics"]
    (partition,) = metadata["partitions"]
    assert sorted(voter["replica_id"] for voter in partition["current_voters"]) == [1, 2, 3]
    assert partition["leader_id"] in (1, 2, 3)
    assert "metadata.version" in python_admin.describe_features()
    assert sorted(broker["broker"] for broker in python_admin.describe_log_dirs()) == [1, 2, 3]


def test_aiokafka_creates_alters_describes_and_deletes_topics(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic() + "-created"

    async def describe_configs(admin: AIOKafkaAdminClient) -> dict[str, str]:
        (described,) = await admin.describe_configs([AioResource(AioResourceType.TOPIC, topic)])
        return {entry[0]: entry[1] for entry in described.resources[0][4]}

    async def administer() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.create_topics([AioNewTopic(topic, 2, 3, topic_configs={"retention.ms": "5000"})])
            await admin.create_partitions({topic: AioNewPartitions(3)})
            while len((await admin.describe_topics([topic]))[0]["partitions"]) < 3:
                await asyncio.sleep(INTERVAL_S)
            assert (await describe_configs(admin))["segment.bytes"] == str(2**30)
            await admin.alter_configs([AioResource(AioResourceType.TOPIC, topic, {"retention.ms": "7000"})])
            while (await describe_configs(admin))["retention.ms"] != "7000":
                await asyncio.sleep(INTERVAL_S)
            await admin.delete_topics([topic])
            while topic in await admin.list_topics():
                await asyncio.sleep(INTERVAL_S)
        finally:
            await admin.close()

    run_with_timeout(administer())


def test_aiokafka_deletes_records(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    Confluent.send(bootstrap, topic, [Record(b"x", timestamp_ms=1)] * 5)

    async def delete() -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            return await admin.delete_records({AioPartition(topic, 0): RecordsToDelete(before_offset=3)})
        finally:
            await admin.close()

    assert run_with_timeout(delete()) == {AioPartition(topic, 0): 3}
