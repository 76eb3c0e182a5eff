"""The administrators of kafka-python and aiokafka: topics, settings, records, leaders, replicas and the quorum."""

from __future__ import annotations

from collections.abc import Iterator
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

from tests.interop.interop_clients import Confluent, MakeTopic, Rec, run
from tests.interop.interop_members import eventually

PREFERRED = 0


@pytest.fixture
def python_admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    yield client
    client.close()


def test_kafka_python_makes_and_deletes_topics(python_admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic() + "-made"
    wanted = {topic: {"num_partitions": 2, "replication_factor": 3, "configs": {"retention.ms": "5000"}}}
    (made,) = python_admin.create_topics(wanted)["topics"]
    assert (made["num_partitions"], made["replication_factor"]) == (2, 3)
    assert made["configs"]["retention.ms"]["value"] == "5000"
    with pytest.raises(TopicAlreadyExistsError):
        python_admin.create_topics(wanted)
    with pytest.raises(InvalidTopicError):
        python_admin.create_topics({"not a name": {"num_partitions": 1, "replication_factor": 1}})
    with pytest.raises(InvalidConfigurationError, match="nope"):
        python_admin.create_topics({"x": {"num_partitions": 1, "replication_factor": 1, "configs": {"nope": "1"}}})
    eventually(lambda: topic in python_admin.list_topics(), "the topic is listed")
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
    found = [each["partition_index"] for page in (first, rest) for each in page["topics"][0]["partitions"]]
    assert found == [0, 1, 2]


def test_kafka_python_changes_settings(python_admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms=1_000)

    def own() -> dict[str, str]:
        found = python_admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][topic]
        return {key: each["value"] for key, each in found.items() if each["config_source"] == "DYNAMIC_TOPIC_CONFIG"}

    def alter(configs: dict[str, str], **how: Any) -> dict[str, Any]:
        wanted = [ConfigResource(ConfigResourceType.TOPIC, topic, configs)]
        return python_admin.alter_configs(wanted, raise_on_unknown=False, **how)["topic"]

    assert own() == {"retention.ms": "1000"}
    alter({"segment.ms": "2000"})
    eventually(lambda: own() == {"retention.ms": "1000", "segment.ms": "2000"}, "both are set")
    assert "soon" in str(alter({"retention.ms": "soon"})[topic])
    assert "retention.mss" in str(alter({"retention.mss": "1"})[topic])
    python_admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"segment.ms": None})])
    eventually(lambda: own() == {"retention.ms": "1000"}, "one is set")
    alter({"flush.ms": "3000"}, incremental=False)
    eventually(lambda: own().get("flush.ms") == "3000", "what is named is set")


def test_kafka_python_moves_replicas_and_leaders(python_admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(1, 1)
    here = TopicPartition(topic, 0)

    def replicas() -> list[int]:
        found: list[int] = python_admin.describe_topics([topic])[0]["partitions"][0]["replica_nodes"]
        return found

    (old,) = replicas()
    new = old % 3 + 1
    told = python_admin.alter_partition_reassignments({here: [new, old]})
    assert told == {here: None}
    eventually(lambda: replicas() == [new, old], "the second replica is there")
    eventually(lambda: not python_admin.list_partition_reassignments({topic: [0]}), "nothing is on its way")
    eventually(lambda: python_admin.elect_leaders(PREFERRED, {topic: [0]}), "the preferred replica leads")
    eventually(lambda: _leader(python_admin, topic) == new, "everybody knows")
    wrong = python_admin.alter_partition_reassignments({here: [1, 9]})
    assert wrong == {here: InvalidReplicationAssignmentError}


def _leader(admin: KafkaAdminClient, topic: str) -> int:
    leader: int = admin.describe_topics([topic])[0]["partitions"][0]["leader_id"]
    return leader


def test_kafka_python_deletes_records(bootstrap: str, python_admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    here = TopicPartition(topic, 0)
    Confluent.send(bootstrap, topic, [Rec(b"x", at=1_000 + i) for i in range(10)])
    assert python_admin.delete_records({here: 4})[here]["low_watermark"] == 4
    specs = {OffsetSpec.EARLIEST: 4, OffsetSpec.LATEST: 10, OffsetSpec.MAX_TIMESTAMP: 9, 1_006: 6}
    for spec, offset in specs.items():
        assert python_admin.list_partition_offsets({here: spec})[here].offset == offset


def test_kafka_python_describes_the_cluster(python_admin: KafkaAdminClient) -> None:
    cluster = python_admin.describe_cluster()
    assert sorted(broker["broker_id"] for broker in cluster["brokers"]) == [1, 2, 3]
    assert "CREATE" in cluster["authorized_operations"]
    (metadata,) = python_admin.describe_metadata_quorum()["topics"]
    (partition,) = metadata["partitions"]
    assert sorted(voter["replica_id"] for voter in partition["current_voters"]) == [1, 2, 3]
    assert partition["leader_id"] in (1, 2, 3)
    assert "metadata.version" in python_admin.describe_features()
    assert sorted(each["broker"] for each in python_admin.describe_log_dirs()) == [1, 2, 3]


def test_aiokafka_administers_topics(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic() + "-made"

    async def administer() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.create_topics([AioNewTopic(topic, 2, 3, topic_configs={"retention.ms": "5000"})])
            await admin.create_partitions({topic: AioNewPartitions(3)})
            while len((await admin.describe_topics([topic]))[0]["partitions"]) < 3:
                pass
            resource = AioResource(AioResourceType.TOPIC, topic, {"retention.ms": "7000"})
            await admin.alter_configs([resource])
            (answer,) = await admin.describe_configs([AioResource(AioResourceType.TOPIC, topic)])
            values = {entry[0]: entry[1] for entry in answer.resources[0][4]}
            assert values["segment.bytes"] == str(2**30)
            await admin.delete_topics([topic])
        finally:
            await admin.close()

    run(administer())


def test_aiokafka_deletes_records(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    Confluent.send(bootstrap, topic, [Rec(b"x", at=1)] * 5)

    async def delete() -> dict[AioPartition, int]:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            return await admin.delete_records({AioPartition(topic, 0): RecordsToDelete(before_offset=3)})
        finally:
            await admin.close()

    assert run(delete()) == {AioPartition(topic, 0): 3}
