"""Groups as administrators see them: members, committed offsets, and how both are changed."""

from __future__ import annotations

from concurrent.futures import Future
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
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription
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

from tests.interop.interop_clients import Confluent, MakeTopic, Record, error_code, run_with_timeout
from tests.interop.interop_members import (
    MEMBER_CLASSES,
    ConfluentMember,
    close_all,
    is_fully_assigned,
    wait_for_members,
)
from tests.polling import TIMEOUT_S, wait_until

PARTITIONS = 3
NO_OFFSET = -1001
"""librdkafka's OFFSET_INVALID."""


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic(PARTITIONS)


def _only_result(futures: dict[str, Future[Any]]) -> Any:
    (future,) = futures.values()
    return future.result(TIMEOUT_S)


def _alter_offsets(admin: AdminClient, group: str, *partitions: TopicPartition) -> list[TopicPartition]:
    request = [ConsumerGroupTopicPartitions(group, list(partitions))]
    results: list[TopicPartition] = _only_result(admin.alter_consumer_group_offsets(request)).topic_partitions
    return results


def _list_offsets(admin: AdminClient, group: str, *partitions: TopicPartition) -> dict[tuple[str, int], int]:
    request = [ConsumerGroupTopicPartitions(group, list(partitions) or None)]
    results = _only_result(admin.list_consumer_group_offsets(request)).topic_partitions
    return {(place.topic, place.partition): place.offset for place in results}


def _stable_groups(admin: AdminClient) -> list[str]:
    listing = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(TIMEOUT_S)
    return [group.group_id for group in listing.valid]


def _describe_if_stable(admin: AdminClient, group: str) -> ConsumerGroupDescription | None:
    description: ConsumerGroupDescription = _only_result(admin.describe_consumer_groups([group]))
    return description if description.state == ConsumerGroupState.STABLE else None


def test_a_group_with_members_is_listed_and_described(bootstrap: str, admin: AdminClient, topic: str) -> None:
    members = [member_class(bootstrap, topic, topic) for member_class in MEMBER_CLASSES]
    wait_for_members(lambda: is_fully_assigned(members, PARTITIONS), "all partitions are assigned", members)
    group = wait_until(lambda: _describe_if_stable(admin, topic), "the group is stable")
    assert group.partition_assignor == "range"
    assert group.coordinator.id in (1, 2, 3)
    assert not group.is_simple_consumer_group
    assigned = [place.partition for member in group.members for place in member.assignment.topic_partitions]
    assert sorted(assigned) == list(range(PARTITIONS))
    assert {member.host.strip("/") for member in group.members} == {"127.0.0.1"}
    assert {member.client_id.split("-")[0] for member in group.members} == {"rdkafka", "kafka", "aiokafka"}
    assert topic in _stable_groups(admin)
    close_all(members)
    assert topic not in _stable_groups(admin)


def test_offsets_are_altered_listed_and_deleted_with_their_group(admin: AdminClient, topic: str) -> None:
    group = topic
    wanted = [TopicPartition(topic, 0, 5), TopicPartition(topic, 2, 7), TopicPartition("nope", 0, 1)]
    errors = {(place.topic, place.partition): place.error for place in _alter_offsets(admin, group, *wanted)}
    assert (errors[topic, 0], errors[topic, 2]) == (None, None)
    assert error_code(errors["nope", 0]) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert _list_offsets(admin, group) == {(topic, 0): 5, (topic, 2): 7}
    assert _list_offsets(admin, group, TopicPartition(topic, 1), TopicPartition(topic, 2)) == {
        (topic, 1): NO_OFFSET,
        (topic, 2): 7,
    }
    _only_result(admin.delete_consumer_groups([group]))
    assert _list_offsets(admin, group) == {}
    with pytest.raises(KafkaException) as refused:
        _only_result(admin.delete_consumer_groups([group]))
    assert error_code(refused.value.args[0]) == KafkaError.GROUP_ID_NOT_FOUND


def test_a_group_with_members_cannot_be_altered_or_deleted(
    bootstrap: str, admin: AdminClient, python_admin: KafkaAdminClient, topic: str
) -> None:
    member = ConfluentMember(bootstrap, topic, topic)
    wait_for_members(lambda: is_fully_assigned([member], PARTITIONS), "all partitions are assigned", [member])
    (altered,) = _alter_offsets(admin, topic, TopicPartition(topic, 0, 5))
    assert error_code(altered.error) == KafkaError.UNKNOWN_MEMBER_ID
    with pytest.raises(KafkaException) as refused:
        _only_result(admin.delete_consumer_groups([topic]))
    assert error_code(refused.value.args[0]) == KafkaError.NON_EMPTY_GROUP
    partition = PythonPartition(topic, 0)
    assert python_admin.delete_group_offsets(topic, [partition])[partition] is GroupSubscribedToTopicError
    assert python_admin.delete_groups([topic]) == {topic: NonEmptyGroupError.__name__}
    member.close()


def test_kafka_python_resets_a_group(bootstrap: str, python_admin: KafkaAdminClient, topic: str) -> None:
    Confluent.send(bootstrap, topic, [Record(b"x", timestamp_ms=1_000 + i) for i in range(10)])
    partition = PythonPartition(topic, 0)
    wait_until(lambda: _can_alter(python_admin, topic, partition), "the group's offsets can be altered")
    assert python_admin.list_group_offsets([topic])[topic][partition].metadata == "note"
    for spec, offset in ((OffsetSpec.EARLIEST, 0), (OffsetSpec.LATEST, 10), (OffsetTimestamp(1_004), 4)):
        python_admin.reset_group_offsets(topic, {partition: spec})
        assert python_admin.list_group_offsets([topic])[topic][partition].offset == offset
    python_admin.delete_group_offsets(topic, [partition])
    assert python_admin.list_group_offsets([topic])[topic] == {}
    assert python_admin.delete_groups([topic]) == {topic: "OK"}
    assert python_admin.delete_groups([topic]) == {topic: GroupIdNotFoundError.__name__}


def _can_alter(admin: KafkaAdminClient, group: str, partition: PythonPartition) -> bool:
    """The first FindCoordinator creates the offsets topic; kafka-python does not retry."""
    try:
        results = admin.alter_group_offsets(group, {partition: OffsetAndMetadata(7, "note", -1)})
    except (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError):
        return False
    return bool(results[partition].errno == 0)


def test_kafka_python_removes_a_static_member(bootstrap: str, python_admin: KafkaAdminClient, topic: str) -> None:
    member = ConfluentMember(bootstrap, topic, topic, instance="one", session_ms=30_000)
    wait_for_members(lambda: is_fully_assigned([member], PARTITIONS), "all partitions are assigned", [member])
    member.close()
    (described,) = python_admin.describe_groups([topic])[topic]["members"]
    assert described["group_instance_id"] == "one"
    python_admin.remove_group_members(topic, [MemberToRemove(group_instance_id="one")])
    wait_until(lambda: python_admin.describe_groups([topic])[topic]["group_state"] == "Empty", "the group is empty")


def test_aiokafka_lists_groups_offsets_and_brokers(bootstrap: str, admin: AdminClient, topic: str) -> None:
    _alter_offsets(admin, topic, TopicPartition(topic, 1, 4))

    async def check() -> None:
        client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await client.start()
        try:
            assert (topic, "") in await client.list_consumer_groups()
            committed = await client.list_consumer_group_offsets(topic)
            assert {place: entry.offset for place, entry in committed.items()} == {AioPartition(topic, 1): 4}
            assert topic in await client.list_topics()
            cluster = await client.describe_cluster()
            assert sorted(broker["node_id"] for broker in cluster["brokers"]) == [1, 2, 3]
        finally:
            await client.close()

    run_with_timeout(check())
