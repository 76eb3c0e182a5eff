"""Consumer groups: members join, leave, die and return; partitions move, committed offsets stay."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.errors import InconsistentGroupProtocolError

from tests.interop.interop_clients import (
    NO_LOGGER,
    Confluent,
    MakeTopic,
    confluent_consumer,
    error_code,
    poll_message,
    python_consumer,
)
from tests.interop.interop_members import (
    HEARTBEAT_MS,
    MEMBER_CLASSES,
    ConfluentMember,
    Member,
    Position,
    PythonMember,
    close_all,
    is_fully_assigned,
    is_partly_assigned,
    kcat_member,
    positions_read,
    wait_for_members,
)
from tests.polling import TIMEOUT_S, wait_until

PARTITIONS = 6
SHORT_SESSION_MS = 1_500
STRATEGIES = [
    pytest.param(member_class, strategy, id=f"{member_class.name}-{strategy}")
    for member_class in MEMBER_CLASSES
    for strategy in member_class.strategies
]
every_client = pytest.mark.parametrize("member_class", MEMBER_CLASSES, ids=lambda member_class: member_class.name)


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic(PARTITIONS)


def _produce(bootstrap: str, topic: str, per_partition: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap}, logger=NO_LOGGER)
    for i in range(per_partition * PARTITIONS):
        producer.produce(topic, b"%d" % i, partition=i % PARTITIONS)
    assert producer.flush(TIMEOUT_S) == 0


def _positions(start: int, end: int) -> set[Position]:
    """The offsets from `start` up to `end` of every partition."""
    return {(partition, offset) for partition in range(PARTITIONS) for offset in range(start, end)}


def _wait_until_assigned(members: Sequence[Member]) -> None:
    names = ", ".join(member.name for member in members)
    wait_for_members(lambda: is_fully_assigned(members, PARTITIONS), f"all partitions are assigned to {names}", members)


def _wait_until_read(members: Sequence[Member], positions: set[Position]) -> None:
    """The members have read these records and no others."""
    wait_for_members(lambda: positions_read(members) == positions, "the expected records are read", members)


def test_the_consumer_protocol_is_a_fatal_error(bootstrap: str, topic: str) -> None:
    """ADR 18: without an answer librdkafka would wait for ever, and report nothing."""
    settings = {"bootstrap.servers": bootstrap, "group.id": topic, "group.protocol": "consumer"}
    consumer = Consumer(settings, logger=NO_LOGGER)
    consumer.subscribe([topic])
    error = poll_message(consumer).error()
    assert error_code(error) == KafkaError._FATAL
    assert "ConsumerGroupHeartbeat" in str(error)
    consumer.close()


@pytest.mark.parametrize(("member_class", "strategy"), STRATEGIES)
def test_partitions_are_shared_as_members_join_and_leave(
    bootstrap: str, topic: str, member_class: type[Member], strategy: str
) -> None:
    first, second = (member_class(bootstrap, topic, topic, strategy=strategy) for _ in range(2))
    _wait_until_assigned([first, second])
    _produce(bootstrap, topic, 10)
    third = member_class(bootstrap, topic, topic, strategy=strategy)
    _wait_until_assigned([first, second, third])
    first.close()
    _wait_until_assigned([second, third])
    _wait_until_read([first, second, third], _positions(0, 10))
    close_all([second, third])


@every_client
def test_the_partitions_of_a_dead_member_go_to_the_others(
    bootstrap: str, topic: str, member_class: type[Member]
) -> None:
    survivor = member_class(bootstrap, topic, topic)
    _wait_until_assigned([survivor])
    with kcat_member(bootstrap, topic, topic, session_ms=SHORT_SESSION_MS):
        wait_for_members(lambda: is_partly_assigned([survivor], PARTITIONS), "kcat has partitions", [survivor])
    _wait_until_assigned([survivor])
    survivor.close()


def test_cooperative_members_keep_the_partitions_that_do_not_move(bootstrap: str, topic: str) -> None:
    first = ConfluentMember(bootstrap, topic, topic, strategy="cooperative-sticky")
    _wait_until_assigned([first])
    second = ConfluentMember(bootstrap, topic, topic, strategy="cooperative-sticky")
    _wait_until_assigned([first, second])
    revoked = {partition for kind, partitions in first.rebalances if kind == "revoked" for partition in partitions}
    assert len(revoked) == PARTITIONS // 2
    assert not revoked & first.assigned
    close_all([first, second])


def test_members_of_all_clients_share_one_group(bootstrap: str, topic: str) -> None:
    _produce(bootstrap, topic, 10)
    members = [member_class(bootstrap, topic, topic, commits=True) for member_class in MEMBER_CLASSES]
    _wait_until_assigned(members)
    _produce(bootstrap, topic, 10)
    _wait_until_read(members, _positions(0, 20))
    close_all(members)


@every_client
def test_a_static_member_returns_without_a_rebalance(bootstrap: str, topic: str, member_class: type[Member]) -> None:
    first, second = (member_class(bootstrap, topic, topic, instance=name, session_ms=30_000) for name in ("one", "two"))
    _wait_until_assigned([first, second])
    assigned, rebalances = first.assigned, list(second.rebalances)
    first.close()
    returned = member_class(bootstrap, topic, topic, instance="one", session_ms=30_000)
    wait_for_members(lambda: returned.assigned == assigned, "the instance has its partitions again", [returned, second])
    _produce(bootstrap, topic, 5)
    _wait_until_read([returned, second], _positions(0, 5))
    assert second.rebalances == rebalances
    close_all([returned, second])


def test_a_pattern_subscribes_to_present_and_later_topics(bootstrap: str, admin: AdminClient) -> None:
    prefix = f"pattern-{os.getpid()}"
    old, new = f"{prefix}-old", f"{prefix}-new"
    admin.create_topics([NewTopic(old, 1, 3)])[old].result(TIMEOUT_S)
    confluent = confluent_consumer(bootstrap, group_id=f"{prefix}-1", topic_metadata_refresh_interval_ms=300)
    confluent.subscribe([f"^{prefix}-.*"])
    python = python_consumer(bootstrap, group_id=f"{prefix}-2", metadata_max_age_ms=300)
    python.subscribe(pattern=f"^{prefix}-|^__consumer")  # this client matches no internal topic

    def assigned_topics() -> tuple[set[str], set[str]]:
        confluent.poll(0.1)
        python.poll(1_000)
        return {place.topic for place in confluent.assignment()}, {place.topic for place in python.assignment()}

    wait_until(lambda: assigned_topics() == ({old}, {old}), "the first topic is assigned")
    admin.create_topics([NewTopic(new, 1, 3)])[new].result(TIMEOUT_S)
    wait_until(lambda: assigned_topics() == ({old, new}, {old, new}), "the second topic is assigned too")
    confluent.close()
    python.close()


def test_a_member_without_a_common_strategy_is_refused(bootstrap: str, topic: str) -> None:
    first = ConfluentMember(bootstrap, topic, topic, strategy="range")
    _wait_until_assigned([first])
    second = PythonMember(bootstrap, topic, topic, strategy="roundrobin")
    error = wait_for_members(lambda: second.error, "the second member is refused", [first, second])
    assert isinstance(error, InconsistentGroupProtocolError)
    assert is_fully_assigned([first], PARTITIONS)
    first.close()


def test_a_session_shorter_than_allowed_is_refused(bootstrap: str, topic: str) -> None:
    member = ConfluentMember(bootstrap, topic, topic, session_ms=HEARTBEAT_MS // 2 + 1)
    error = wait_for_members(lambda: member.error, "the member is refused", [member])
    assert error_code(error.args[0]) == KafkaError.INVALID_SESSION_TIMEOUT


def test_of_two_processes_with_one_instance_id_the_first_is_fenced(bootstrap: str, topic: str) -> None:
    first = ConfluentMember(bootstrap, topic, topic, instance="only")
    _wait_until_assigned([first])
    second = ConfluentMember(bootstrap, topic, topic, instance="only")
    _wait_until_assigned([second])
    error = wait_for_members(lambda: first.error, "the first member fails", [first, second])
    assert "FENCED" in str(error).upper()
    second.close()


@every_client
def test_committed_offsets_outlive_the_members(bootstrap: str, topic: str, member_class: type[Member]) -> None:
    _produce(bootstrap, topic, 10)
    first = member_class(bootstrap, topic, topic, commits=True)
    _wait_until_read([first], _positions(0, 10))
    first.close()
    _produce(bootstrap, topic, 5)
    second = member_class(bootstrap, topic, topic, commits=True)
    _wait_until_read([second], _positions(10, 15))
    second.close()
    assert len(second.read) == 5 * PARTITIONS


def test_synchronous_and_asynchronous_commits_are_kept(bootstrap: str, topic: str) -> None:
    reports: list[tuple[KafkaError | None, list[int]]] = []
    settings = Confluent.config(bootstrap, group_id=topic)
    settings["on_commit"] = lambda error, partitions: reports.append((error, [place.offset for place in partitions]))
    consumer = Consumer(settings, logger=NO_LOGGER)
    partition = TopicPartition(topic, 0)
    consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    assert consumer.committed([partition], TIMEOUT_S)[0].offset == 3
    consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=True)
    wait_until(lambda: consumer.poll(0.05) is None and reports, "the second commit is reported")
    assert reports == [(None, [4])]
    assert consumer.committed([partition], TIMEOUT_S)[0].offset == 4
    with pytest.raises(KafkaException) as refused:
        consumer.commit(offsets=[TopicPartition("no-such-topic", 0, 4)], asynchronous=False)
    assert error_code(refused.value.args[0]) == KafkaError.UNKNOWN_TOPIC_OR_PART
    consumer.close()
