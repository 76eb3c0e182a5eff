"""confluent-kafka's AdminClient: topics, partitions, settings, records, offsets, elections and the cluster."""

from __future__ import annotations

import re
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

from tests.interop.interop_clients import PATIENCE_S, Confluent, MakeTopic, Rec
from tests.interop.interop_members import eventually

DYNAMIC_TOPIC, BUILT_IN = 1, 5


def done(futures: dict[Any, Any]) -> Any:
    """The outcome of a call for one thing."""
    (future,) = futures.values()
    return future.result(PATIENCE_S)


def refusal(futures: dict[Any, Any]) -> tuple[int, str]:
    with pytest.raises(KafkaException) as refused:
        done(futures)
    error = refused.value.args[0]
    return error.code(), error.str()


# --- topics -----------------------------------------------------------------------------------------------------------


def test_topics_are_made_described_listed_and_deleted(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    described = eventually(lambda: _described(admin, topic), "the topic is known everywhere")
    assert not described.is_internal
    assert described.topic_id is not None
    assert [sorted(node.id for node in each.replicas) for each in described.partitions] == [[1, 2, 3]] * 3
    assert [sorted(node.id for node in each.isr) for each in described.partitions] == [[1, 2, 3]] * 3
    assert [each.leader.id for each in described.partitions] == [each.replicas[0].id for each in described.partitions]
    assert topic in admin.list_topics(timeout=PATIENCE_S).topics
    done(admin.delete_topics([topic]))
    eventually(lambda: topic not in admin.list_topics(timeout=PATIENCE_S).topics, "the topic is gone")
    assert refusal(admin.delete_topics([topic]))[0] == KafkaError.UNKNOWN_TOPIC_OR_PART


def _described(admin: AdminClient, topic: str, **options: Any) -> Any:
    try:
        return done(admin.describe_topics(TopicCollection([topic]), **options))
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise


def test_what_one_may_do_is_told_to_whoever_asks(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    described = eventually(lambda: _described(admin, topic, include_authorized_operations=True), "the topic is known")
    assert {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE} <= set(described.authorized_operations)
    cluster = admin.describe_cluster(include_authorized_operations=True).result(PATIENCE_S)
    assert {AclOperation.CREATE, AclOperation.IDEMPOTENT_WRITE} <= set(cluster.authorized_operations)


@pytest.mark.parametrize(
    ("wanted", "code", "words"),
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
def test_a_topic_that_cannot_be_is_refused_in_words(admin: AdminClient, wanted: Any, code: int, words: str) -> None:
    told, message = refusal(admin.create_topics([wanted]))
    assert told == code
    assert re.search(words, message)


def test_a_topic_is_made_once(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    assert refusal(admin.create_topics([NewTopic(topic, 1, 1)]))[0] == KafkaError.TOPIC_ALREADY_EXISTS


def test_replicas_go_where_they_are_told(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic() + "-placed"
    done(admin.create_topics([NewTopic(topic, 2, replica_assignment=[[2, 1], [3, 2]])]))
    described = eventually(lambda: _described(admin, topic), "the topic is known")
    assert [[node.id for node in each.replicas] for each in described.partitions] == [[2, 1], [3, 2]]


def test_a_trial_makes_nothing(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic() + "-trial"
    done(admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True))
    assert topic not in admin.list_topics(timeout=PATIENCE_S).topics


def test_partitions_are_added_and_never_taken(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    done(admin.create_partitions([NewPartitions(topic, 3)]))
    done(admin.create_partitions([NewPartitions(topic, 4, replica_assignment=[[3, 2, 1]])]))
    eventually(lambda: len(_described(admin, topic).partitions) == 4, "there are four partitions")
    assert [node.id for node in _described(admin, topic).partitions[3].replicas] == [3, 2, 1]
    assert refusal(admin.create_partitions([NewPartitions(topic, 2)]))[0] == KafkaError.INVALID_PARTITIONS
    assert refusal(admin.create_partitions([NewPartitions(topic, 4)]))[0] == KafkaError.INVALID_PARTITIONS
    wrong = NewPartitions(topic, 5, replica_assignment=[[1, 2]])
    assert refusal(admin.create_partitions([wrong]))[0] == KafkaError.INVALID_REPLICA_ASSIGNMENT
    assert refusal(admin.create_partitions([NewPartitions("nope", 2)]))[0] == KafkaError.UNKNOWN_TOPIC_OR_PART


# --- settings ---------------------------------------------------------------------------------------------------------


def _configs(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, tuple[str, int]]:
    found = done(admin.describe_configs([ConfigResource(kind, name)]))
    return {key: (entry.value, entry.source) for key, entry in found.items()}


def _alter(admin: AdminClient, topic: str, name: str, value: str | None, how: str = "SET") -> dict[Any, Any]:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType[how])
    return admin.incremental_alter_configs([ConfigResource("topic", topic, incremental_configs=[entry])])


def test_settings_of_a_topic_are_changed_one_by_one(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms=1_000_000)

    def value(name: str) -> tuple[str, int]:
        return _configs(admin, ResourceType.TOPIC, topic)[name]

    assert value("retention.ms") == ("1000000", DYNAMIC_TOPIC)
    assert value("max.message.bytes") == ("1048588", BUILT_IN)
    done(_alter(admin, topic, "retention.ms", "2000000"))
    eventually(lambda: value("retention.ms") == ("2000000", DYNAMIC_TOPIC), "the setting is changed")
    done(_alter(admin, topic, "cleanup.policy", "compact", "APPEND"))
    eventually(lambda: value("cleanup.policy") == ("delete,compact", DYNAMIC_TOPIC), "a policy is added")
    done(_alter(admin, topic, "cleanup.policy", "delete", "SUBTRACT"))
    eventually(lambda: value("cleanup.policy") == ("compact", DYNAMIC_TOPIC), "a policy is taken away")
    done(_alter(admin, topic, "retention.ms", None, "DELETE"))
    eventually(lambda: value("retention.ms") == ("604800000", BUILT_IN), "the default is back")


@pytest.mark.parametrize(
    ("name", "value", "how"),
    [
        ("retention.ms", "soon", "SET"),
        ("retention.ms", "-5", "SET"),
        ("compression.type", "zip", "SET"),
        ("min.insync.replicas", "0", "SET"),
        ("no.such.setting", "1", "SET"),
        ("retention.ms", "5", "APPEND"),
    ],
)
def test_a_bad_setting_is_refused_by_its_name(
    admin: AdminClient, make_topic: MakeTopic, name: str, value: str, how: str
) -> None:
    code, message = refusal(_alter(admin, make_topic(), name, value, how))
    assert code == KafkaError.INVALID_CONFIG
    assert name in message


def test_settings_of_missing_things_are_errors(admin: AdminClient) -> None:
    assert refusal(_alter(admin, "nope", "retention.ms", "5"))[0] == KafkaError.UNKNOWN_TOPIC_OR_PART
    missing = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "nope")])
    assert refusal(missing)[0] == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_settings_of_brokers_are_told_by_themselves(admin: AdminClient) -> None:
    for broker in ("1", "2", "3"):
        assert _configs(admin, ResourceType.BROKER, broker)["node.id"][0] == broker


def test_a_setting_of_one_broker_is_its_own(admin: AdminClient) -> None:
    def change(value: str | None, how: str) -> None:
        entry = ConfigEntry("log.index.interval.bytes", value, incremental_operation=AlterConfigOpType[how])
        done(admin.incremental_alter_configs([ConfigResource("broker", "2", incremental_configs=[entry])]))

    def value(broker: str) -> str:
        return _configs(admin, ResourceType.BROKER, broker)["log.index.interval.bytes"][0]

    change("8192", "SET")
    eventually(lambda: value("2") == "8192", "the broker has it")
    assert value("1") == "4096"
    change(None, "DELETE")
    eventually(lambda: value("2") == "4096", "the default is back")


# --- records, offsets, leaders ----------------------------------------------------------------------------------------


def test_offsets_are_listed_by_kind_and_time(bootstrap: str, admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    Confluent.send(bootstrap, topic, [Rec(b"x", at=at) for at in (1_000, 3_000, 2_000)])
    here = TopicPartition(topic, 0)
    asked = {
        OffsetSpec.earliest(): (0, -1),
        OffsetSpec.latest(): (3, -1),
        OffsetSpec.max_timestamp(): (1, 3_000),
        OffsetSpec.for_timestamp(1_500): (1, 3_000),
        OffsetSpec.for_timestamp(9_999): (-1, -1),
    }
    for spec, expected in asked.items():
        found = done(admin.list_offsets({here: spec}))
        assert (found.offset, found.timestamp) == expected


def test_records_are_deleted_up_to_an_offset(bootstrap: str, admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    Confluent.send(bootstrap, topic, [Rec(b"x", at=1)] * 10)

    def delete(offset: int) -> dict[Any, Any]:
        return admin.delete_records([TopicPartition(topic, 0, offset)])

    assert done(delete(4)).low_watermark == 4
    assert refusal(delete(99))[0] == KafkaError.OFFSET_OUT_OF_RANGE
    assert done(delete(-1)).low_watermark == 10
    assert done(admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.earliest()})).offset == 10


def test_elections_are_held_where_they_are_needed(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    asked = [TopicPartition(topic, 0), TopicPartition("nope", 0)]
    found = admin.elect_leaders(ElectionType.PREFERRED, asked).result(PATIENCE_S)
    codes = {place.topic: error.code() for place, error in found.items()}
    assert codes == {topic: KafkaError.ELECTION_NOT_NEEDED, "nope": KafkaError.UNKNOWN_TOPIC_OR_PART}
    assert admin.elect_leaders(ElectionType.PREFERRED).result(PATIENCE_S) == {}


def test_the_cluster_is_described(bootstrap: str, admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(PATIENCE_S)
    assert sorted(node.id for node in cluster.nodes) == [1, 2, 3]
    assert cluster.controller.id in (1, 2, 3)
    assert cluster.cluster_id
    assert {f"{node.host}:{node.port}" for node in cluster.nodes} >= set(bootstrap.split(","))
