"""Groups as administrators see them: who is in them, what they committed, and how that is changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import TopicPartition as AioPartition
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonPartition
from kafka.admin import MemberToRemove, OffsetSpec, OffsetTimestamp
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    NonEmptyGroupError,
    NotCoordinatorError,
)
from kafka.structs import OffsetAndMetadata

from tests.interop.interop_clients import PATIENCE_S, Confluent, MakeTopic, Rec, run
from tests.interop.interop_members import AioMember, ConfluentMember, PythonMember, all_leave, eventually, share

PARTITIONS = 3


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic(PARTITIONS)


@pytest.fixture
def python_admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    yield client
    client.close()


def _done(futures: dict[str, Any]) -> Any:
    (future,) = futures.values()
    return future.result(PATIENCE_S)


def _set(admin: AdminClient, group: str, *places: TopicPartition) -> list[TopicPartition]:
    asked = [ConsumerGroupTopicPartitions(group, list(places))]
    found: list[TopicPartition] = _done(admin.alter_consumer_group_offsets(asked)).topic_partitions
    return found


def _offsets(admin: AdminClient, group: str, *places: TopicPartition) -> dict[tuple[str, int], int]:
    asked = [ConsumerGroupTopicPartitions(group, list(places) or None)]
    found = _done(admin.list_consumer_group_offsets(asked)).topic_partitions
    return {(each.topic, each.partition): each.offset for each in found}


def test_a_living_group_is_listed_and_described(bootstrap: str, admin: AdminClient, topic: str) -> None:
    members = [kind(bootstrap, topic, topic) for kind in (ConfluentMember, PythonMember, AioMember)]
    eventually(lambda: share(members, PARTITIONS), "three members share")
    described = eventually(lambda: _stable(admin, topic), "the group is stable")
    assert described.partition_assignor == "range"
    assert described.coordinator.id in (1, 2, 3)
    assert not described.is_simple_consumer_group
    held = [place.partition for each in described.members for place in each.assignment.topic_partitions]
    assert sorted(held) == list(range(PARTITIONS))
    assert {each.host.strip("/") for each in described.members} == {"127.0.0.1"}
    assert {each.client_id.split("-")[0] for each in described.members} == {"rdkafka", "kafka", "aiokafka"}
    listed = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(PATIENCE_S)
    assert topic in [each.group_id for each in listed.valid]
    all_leave(members)
    emptied = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(PATIENCE_S)
    assert topic not in [each.group_id for each in emptied.valid]


def _stable(admin: AdminClient, group: str) -> Any:
    found = _done(admin.describe_consumer_groups([group]))
    return found if found.state == ConsumerGroupState.STABLE else None


def test_offsets_are_set_listed_and_deleted_with_their_group(admin: AdminClient, topic: str) -> None:
    group = topic
    wanted = [TopicPartition(topic, 0, 5), TopicPartition(topic, 2, 7), TopicPartition("nope", 0, 1)]
    told = {(each.topic, each.partition): each.error for each in _set(admin, group, *wanted)}
    assert told[topic, 0] is None
    assert told[topic, 2] is None
    assert told["nope", 0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert _offsets(admin, group) == {(topic, 0): 5, (topic, 2): 7}
    assert _offsets(admin, group, TopicPartition(topic, 1), TopicPartition(topic, 2)) == {
        (topic, 1): -1001,
        (topic, 2): 7,
    }
    _done(admin.delete_consumer_groups([group]))
    assert _offsets(admin, group) == {}
    with pytest.raises(KafkaException) as refused:
        _done(admin.delete_consumer_groups([group]))
    assert refused.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND


def test_a_group_at_work_keeps_its_offsets_and_itself(
    bootstrap: str, admin: AdminClient, python_admin: KafkaAdminClient, topic: str
) -> None:
    member = ConfluentMember(bootstrap, topic, topic)
    eventually(lambda: share([member], PARTITIONS), "the member has all")
    (refused_place,) = _set(admin, topic, TopicPartition(topic, 0, 5))
    assert refused_place.error.code() == KafkaError.UNKNOWN_MEMBER_ID
    with pytest.raises(KafkaException) as refused:
        _done(admin.delete_consumer_groups([topic]))
    assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    here = PythonPartition(topic, 0)
    assert python_admin.delete_group_offsets(topic, [here])[here] is GroupSubscribedToTopicError
    assert python_admin.delete_groups([topic]) == {topic: NonEmptyGroupError.__name__}
    member.leave()


def test_kafka_python_resets_a_group(bootstrap: str, python_admin: KafkaAdminClient, topic: str) -> None:
    Confluent.send(bootstrap, topic, [Rec(b"x", at=1_000 + i) for i in range(10)])
    here = PythonPartition(topic, 0)
    eventually(lambda: _altered(python_admin, topic, here), "the group can be written to")
    assert python_admin.list_group_offsets([topic])[topic][here].metadata == "note"
    for spec, offset in ((OffsetSpec.EARLIEST, 0), (OffsetSpec.LATEST, 10), (OffsetTimestamp(1_004), 4)):
        python_admin.reset_group_offsets(topic, {here: spec})
        assert python_admin.list_group_offsets([topic])[topic][here].offset == offset
    python_admin.delete_group_offsets(topic, [here])
    assert python_admin.list_group_offsets([topic])[topic] == {}
    assert python_admin.delete_groups([topic]) == {topic: "OK"}
    assert python_admin.delete_groups([topic]) == {topic: GroupIdNotFoundError.__name__}


def _altered(admin: KafkaAdminClient, group: str, here: PythonPartition) -> bool:
    """The first question for a coordinator makes the offsets topic; kafka-python does not ask twice."""
    try:
        told = admin.alter_group_offsets(group, {here: OffsetAndMetadata(7, "note", -1)})
    except (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError):
        return False
    return told[here].errno == 0


def test_kafka_python_removes_a_static_member(bootstrap: str, python_admin: KafkaAdminClient, topic: str) -> None:
    member = ConfluentMember(bootstrap, topic, topic, instance="one", session_ms=30_000)
    eventually(lambda: share([member], PARTITIONS), "the member has all")
    member.leave()
    (described,) = python_admin.describe_groups([topic])[topic]["members"]
    assert described["group_instance_id"] == "one"
    python_admin.remove_group_members(topic, [MemberToRemove(group_instance_id="one")])
    eventually(lambda: python_admin.describe_groups([topic])[topic]["group_state"] == "Empty", "the group is empty")


def test_aiokafka_sees_the_same(bootstrap: str, admin: AdminClient, topic: str) -> None:
    _set(admin, topic, TopicPartition(topic, 1, 4))

    async def look() -> None:
        client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await client.start()
        try:
            groups = await client.list_consumer_groups()
            assert (topic, "") in groups
            offsets = await client.list_consumer_group_offsets(topic)
            assert {place: each.offset for place, each in offsets.items()} == {AioPartition(topic, 1): 4}
            assert topic in await client.list_topics()
            cluster = await client.describe_cluster()
            assert sorted(broker["node_id"] for broker in cluster["brokers"]) == [1, 2, 3]
        finally:
            await client.close()

    run(look())
