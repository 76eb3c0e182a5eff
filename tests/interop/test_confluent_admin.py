"""confluent-kafka's AdminClient: topics, partitions, settings, records, offsets, elections and the cluster."""

from __future__ import annotations

import re
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.interop.interop_clients import Confluent, MakeTopic, Record, error_code
from tests.polling import TIMEOUT_S, wait_until

DYNAMIC_TOPIC, DEFAULT = 1, 5
"""Sources of settings: Kafka's DYNAMIC_TOPIC_CONFIG and DEFAULT_CONFIG."""
EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # its result has no type
LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
MAX_TIMESTAMP = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]


def only_result(futures: dict[Any, Future[Any]]) -> Any:
    """The result of a call for one topic, partition or resource."""
    (future,) = futures.values()
    return future.result(TIMEOUT_S)


def refusal(futures: dict[Any, Future[Any]]) -> tuple[int, str]:
    """The error code and the message of a call that must fail."""
    with pytest.raises(KafkaException) as refused:
        only_result(futures)
    error = refused.value.args[0]
    return error.code(), error.str()


# --- topics -----------------------------------------------------------------------------------------------------------


def test_topics_are_created_described_listed_and_deleted(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    described = wait_until(lambda: _describe(admin, topic), "the topic is known to the broker that is asked")
    assert not described.is_internal
    assert described.topic_id is not None
    assert [sorted(node.id for node in partition.replicas) for partition in described.partitions] == [[1, 2, 3]] * 3
    assert [sorted(node.id for node in partition.isr) for partition in described.partitions] == [[1, 2, 3]] * 3
    assert all(partition.leader.id == partition.replicas[0].id for partition in described.partitions)
    assert topic in admin.list_topics(timeout=TIMEOUT_S).topics
    only_result(admin.delete_topics([topic]))
    wait_until(lambda: topic not in admin.list_topics(timeout=TIMEOUT_S).topics, "the topic is gone")
    assert refusal(admin.delete_topics([topic]))[0] == KafkaError.UNKNOWN_TOPIC_OR_PART


def _describe(admin: AdminClient, topic: str, **options: Any) -> Any:
    try:
        return only_result(admin.describe_topics(TopicCollection([topic]), **options))
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise


def test_authorized_operations_are_described_on_request(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    described = wait_until(lambda: _describe(admin, topic, include_authorized_operations=True), "the topic is known")
    assert {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE} <= set(described.authorized_operations)
    cluster = admin.describe_cluster(include_authorized_operations=True).result(TIMEOUT_S)
    assert {AclOperation.CREATE, AclOperation.IDEMPOTENT_WRITE} <= set(cluster.authorized_operations)


@pytest.mark.parametrize(
    ("topic", "code", "pattern"),
    [
        (NewTopic("bad name!", 1, 1), KafkaError.TOPIC_EXCEPTION, "'bad name!'"),
        (NewTopic("", 1, 1), KafkaError.TOPIC_EXCEPTION, "invalid"),
        (NewTopic("x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION, "249"),
        (NewTopic("..", 1, 1), KafkaError.TOPIC_EXCEPTION, "'..'"),
        (NewTopic("a", 1, 4), KafkaError.INVALID_REPLICATION_FACTOR, "4"),
        (NewTopic("a", 1, 0), KafkaError.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (NewTopic("a", 0, 1), KafkaError.INVALID_PARTITIONS, "partitions"),
        (
            NewTopic("a", 2, replica_assignment=[[1, 1], [2, 3]]),
            KafkaError.INVALID_REPLICA_ASSIGNMENT,
            "more than once",
        ),
        (NewTopic("a", 2, replica_assignment=[[1, 9], [2, 3]]), KafkaError.INVALID_REPLICA_ASSIGNMENT, "9"),
        (NewTopic("a", 1, 1, config={"no.such": "1"}), KafkaError.INVALID_CONFIG, "no.such"),
        (NewTopic("a", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG, "soon .* retention.ms"),
    ],
    ids=lambda value: None if isinstance(value, NewTopic) else str(value).replace(" ", "-"),
)
def test_an_impossible_topic_is_refused_with_a_reason(
    admin: AdminClient, topic: NewTopic, code: int, pattern: str
) -> None:
    actual_code, message = refusal(admin.create_topics([topic]))
    assert actual_code == code
    assert re.search(pattern, message)


def test_an_existing_topic_is_not_created_again(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    assert refusal(admin.create_topics([NewTopic(topic, 1, 1)]))[0] == KafkaError.TOPIC_ALREADY_EXISTS


def test_replicas_are_placed_as_requested(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic() + "-placed"
    only_result(admin.create_topics([NewTopic(topic, 2, replica_assignment=[[2, 1], [3, 2]])]))
    described = wait_until(lambda: _describe(admin, topic), "the topic is known")
    assert [[node.id for node in partition.replicas] for partition in described.partitions] == [[2, 1], [3, 2]]


def test_validate_only_creates_nothing(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic() + "-validated"
    only_result(admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True))
    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_partitions_are_added_but_never_removed(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    only_result(admin.create_partitions([NewPartitions(topic, 3)]))
    only_result(admin.create_partitions([NewPartitions(topic, 4, replica_assignment=[[3, 2, 1]])]))
    wait_until(lambda: len(_describe(admin, topic).partitions) == 4, "there are four partitions")
    assert [node.id for node in _describe(admin, topic).partitions[3].replicas] == [3, 2, 1]
    assert refusal(admin.create_partitions([NewPartitions(topic, 2)]))[0] == KafkaError.INVALID_PARTITIONS
    assert refusal(admin.create_partitions([NewPartitions(topic, 4)]))[0] == KafkaError.INVALID_PARTITIONS
    too_few_replicas = NewPartitions(topic, 5, replica_assignment=[[1, 2]])
    assert refusal(admin.create_partitions([too_few_replicas]))[0] == KafkaError.INVALID_REPLICA_ASSIGNMENT
    assert refusal(admin.create_partitions([NewPartitions("nope", 2)]))[0] == KafkaError.UNKNOWN_TOPIC_OR_PART


# --- settings ---------------------------------------------------------------------------------------------------------


def _configs(admin: AdminClient, resource_type: ResourceType, name: str) -> dict[str, tuple[str, int]]:
    """Values and sources by key."""
    entries = only_result(admin.describe_configs([ConfigResource(resource_type, name)]))
    return {key: (entry.value, entry.source) for key, entry in entries.items()}


def _alter(
    admin: AdminClient, topic: str, name: str, value: str | None, operation: str = "SET"
) -> dict[ConfigResource, Future[Any]]:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType[operation])
    return admin.incremental_alter_configs([ConfigResource("topic", topic, incremental_configs=[entry])])


def test_settings_of_a_topic_are_changed_one_by_one(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms=1_000_000)

    def value(name: str) -> tuple[str, int]:
        return _configs(admin, ResourceType.TOPIC, topic)[name]

    assert value("retention.ms") == ("1000000", DYNAMIC_TOPIC)
    assert value("max.message.bytes") == ("1048588", DEFAULT)
    only_result(_alter(admin, topic, "retention.ms", "2000000"))
    wait_until(lambda: value("retention.ms") == ("2000000", DYNAMIC_TOPIC), "the setting is changed")
    only_result(_alter(admin, topic, "cleanup.policy", "compact", "APPEND"))
    wait_until(lambda: value("cleanup.policy") == ("delete,compact", DYNAMIC_TOPIC), "a policy is added")
    only_result(_alter(admin, topic, "cleanup.policy", "delete", "SUBTRACT"))
    wait_until(lambda: value("cleanup.policy") == ("compact", DYNAMIC_TOPIC), "a policy is removed")
    only_result(_alter(admin, topic, "retention.ms", None, "DELETE"))
    wait_until(lambda: value("retention.ms") == ("604800000", DEFAULT), "the default is back")


@pytest.mark.parametrize(
    ("name", "value", "operation"),
    [
        ("retention.ms", "soon", "SET"),
        ("retention.ms", "-5", "SET"),
        ("compression.type", "zip", "SET"),
        ("min.insync.replicas", "0", "SET"),
        ("no.such.setting", "1", "SET"),
        ("retention.ms", "5", "APPEND"),
    ],
)
def test_an_invalid_setting_is_refused_with_its_name(
    admin: AdminClient, make_topic: MakeTopic, name: str, value: str, operation: str
) -> None:
    code, message = refusal(_alter(admin, make_topic(), name, value, operation))
    assert code == KafkaError.INVALID_CONFIG
    assert name in message


def test_settings_of_a_missing_topic_are_errors(admin: AdminClient) -> None:
    assert refusal(_alter(admin, "nope", "retention.ms", "5"))[0] == KafkaError.UNKNOWN_TOPIC_OR_PART
    missing = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "nope")])
    assert refusal(missing)[0] == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_every_broker_describes_its_own_settings(admin: AdminClient) -> None:
    for broker in ("1", "2", "3"):
        assert _configs(admin, ResourceType.BROKER, broker)["node.id"][0] == broker


def test_a_setting_of_one_broker_does_not_change_the_others(admin: AdminClient) -> None:
    def change(value: str | None, operation: str) -> None:
        entry = ConfigEntry("log.index.interval.bytes", value, incremental_operation=AlterConfigOpType[operation])
        only_result(admin.incremental_alter_configs([ConfigResource("broker", "2", incremental_configs=[entry])]))

    def value(broker: str) -> str:
        return _configs(admin, ResourceType.BROKER, broker)["log.index.interval.bytes"][0]

    change("8192", "SET")
    wait_until(lambda: value("2") == "8192", "the broker has the new value")
    assert value("1") == "4096"
    change(None, "DELETE")
    wait_until(lambda: value("2") == "4096", "the default is back")


# --- records, offsets, leaders ----------------------------------------------------------------------------------------


def test_offsets_are_listed_by_kind_and_time(bootstrap: str, admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    Confluent.send(
        bootstrap, topic, [Record(b"x", timestamp_ms=timestamp_ms) for timestamp_ms in (1_000, 3_000, 2_000)]
    )
    expected_by_spec = {
        EARLIEST: (0, -1),
        LATEST: (3, -1),
        MAX_TIMESTAMP: (1, 3_000),
        OffsetSpec.for_timestamp(1_500): (1, 3_000),
        OffsetSpec.for_timestamp(9_999): (-1, -1),
    }
    for spec, expected in expected_by_spec.items():
        result = only_result(admin.list_offsets({TopicPartition(topic, 0): spec}))
        assert (result.offset, result.timestamp) == expected


def test_records_are_deleted_up_to_an_offset(bootstrap: str, admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    Confluent.send(bootstrap, topic, [Record(b"x", timestamp_ms=1)] * 10)

    def delete(offset: int) -> dict[TopicPartition, Future[Any]]:
        return admin.delete_records([TopicPartition(topic, 0, offset)])

    assert only_result(delete(4)).low_watermark == 4
    assert refusal(delete(99))[0] == KafkaError.OFFSET_OUT_OF_RANGE
    assert only_result(delete(-1)).low_watermark == 10
    assert only_result(admin.list_offsets({TopicPartition(topic, 0): EARLIEST})).offset == 10


def test_an_election_that_is_not_needed_or_not_possible_is_an_error(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    partitions = [TopicPartition(topic, 0), TopicPartition("nope", 0)]
    errors = admin.elect_leaders(ElectionType.PREFERRED, partitions).result(TIMEOUT_S)
    codes = {place.topic: error_code(error) for place, error in errors.items()}
    assert codes == {topic: KafkaError.ELECTION_NOT_NEEDED, "nope": KafkaError.UNKNOWN_TOPIC_OR_PART}
    assert admin.elect_leaders(ElectionType.PREFERRED).result(TIMEOUT_S) == {}


def test_the_cluster_is_describe(bootstrap: str, admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    assert sorted(node.id for node in cluster.nodes) == [1, 2, 3]
    assert cluster.controller.id in (1, 2, 3)
    assert cluster.cluster_id
    assert {f"{node.host}:{node.port}" for node in cluster.nodes} >= set(bootstrap.split(","))
