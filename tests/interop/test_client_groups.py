"""Consumer groups: members come, go and die, and come back; partitions move, commits stay."""

from __future__ import annotations

import os
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.errors import InconsistentGroupProtocolError

from tests.interop.interop_clients import PATIENCE_S, SILENT, Confluent, MakeTopic, confluent_consumer, python_consumer
from tests.interop.interop_members import (
    BEAT_MS,
    MEMBERS,
    AioMember,
    ConfluentMember,
    Member,
    PythonMember,
    all_leave,
    eventually,
    kcat_member,
    share,
)

PARTITIONS = 6
SHORT_SESSION_MS = 1_500
WAYS = [pytest.param(kind, way, id=f"{kind.name}-{way}") for kind in MEMBERS for way in kind.strategies]


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic(PARTITIONS)


def test_the_consumer_protocol_is_a_fatal_error(bootstrap: str, topic: str) -> None:
    """ADR 18: without an answer librdkafka would wait for ever, and its user would not know for what."""
    settings = {"bootstrap.servers": bootstrap, "group.id": topic, "group.protocol": "consumer"}
    consumer = Consumer(settings, logger=SILENT)
    consumer.subscribe([topic])
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert message.error().code() == KafkaError._FATAL
    assert "ConsumerGroupHeartbeat" in message.error().str()
    consumer.close()


def _fill(bootstrap: str, topic: str, each: int) -> None:
    """As many records in every partition."""
    producer = Producer({"bootstrap.servers": bootstrap}, logger=SILENT)
    for i in range(each * PARTITIONS):
        producer.produce(topic, b"%d" % i, partition=i % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def _all(each: int, start: int = 0) -> set[tuple[int, int]]:
    return {(partition, offset) for partition in range(PARTITIONS) for offset in range(start, each)}


def _seen(*members: Member) -> set[tuple[int, int]]:
    return {place for member in members for place in member.seen}


@pytest.mark.parametrize(("kind", "way"), WAYS)
def test_members_share_what_there_is_as_they_come_and_go(bootstrap: str, topic: str, kind: Any, way: str) -> None:
    members = [kind(bootstrap, topic, topic, strategy=way) for _ in range(2)]
    eventually(lambda: share(members, PARTITIONS), "two members share")
    _fill(bootstrap, topic, 10)
    third = kind(bootstrap, topic, topic, strategy=way)
    eventually(lambda: share([*members, third], PARTITIONS), "three members share")
    first = members.pop(0)
    first.leave()
    eventually(lambda: share([*members, third], PARTITIONS), "two are left")
    eventually(lambda: _seen(first, *members, third) == _all(10), "everything is read")
    all_leave([*members, third])


@pytest.mark.parametrize("kind", MEMBERS, ids=lambda kind: kind.name)
def test_the_partitions_of_a_dead_member_go_to_the_others(bootstrap: str, topic: str, kind: Any) -> None:
    living = kind(bootstrap, topic, topic)
    eventually(lambda: share([living], PARTITIONS), "one has all")
    with kcat_member(bootstrap, topic, topic, session_ms=SHORT_SESSION_MS):
        eventually(lambda: share([living], PARTITIONS, others=True), "kcat has its part")
    eventually(lambda: share([living], PARTITIONS), "one has all again")
    living.leave()


def test_cooperative_members_keep_what_they_need_not_give(bootstrap: str, topic: str) -> None:
    first = ConfluentMember(bootstrap, topic, topic, strategy="cooperative-sticky")
    eventually(lambda: share([first], PARTITIONS), "one has all")
    second = ConfluentMember(bootstrap, topic, topic, strategy="cooperative-sticky")
    eventually(lambda: share([first, second], PARTITIONS), "two members share")
    revoked = frozenset().union(*[parts for how, parts in first.changes if how == "revoked"])
    assert len(revoked) == PARTITIONS // 2
    assert not revoked & first.holds
    all_leave([first, second])


def test_members_of_all_clients_share_one_group(bootstrap: str, topic: str) -> None:
    _fill(bootstrap, topic, 10)
    members = [kind(bootstrap, topic, topic, commits=True) for kind in (ConfluentMember, PythonMember, AioMember)]
    eventually(lambda: share(members, PARTITIONS), "three clients share")
    _fill(bootstrap, topic, 10)
    eventually(lambda: _seen(*members) == _all(20), "everything is read")
    all_leave(members)


@pytest.mark.parametrize("kind", MEMBERS, ids=lambda kind: kind.name)
def test_a_static_member_comes_back_without_a_rebalance(bootstrap: str, topic: str, kind: Any) -> None:
    first, second = (kind(bootstrap, topic, topic, instance=name, session_ms=30_000) for name in ("one", "two"))
    eventually(lambda: share([first, second], PARTITIONS), "two members share")
    held, changes = first.holds, list(second.changes)
    first.leave()
    again = kind(bootstrap, topic, topic, instance="one", session_ms=30_000)
    eventually(lambda: again.holds == held, "the instance has its partitions again")
    _fill(bootstrap, topic, 5)
    eventually(lambda: _seen(again, second) == _all(5), "both read on")
    assert second.changes == changes
    all_leave([again, second])


def test_a_pattern_takes_the_topics_that_match_also_later_ones(bootstrap: str, admin: AdminClient) -> None:
    prefix = f"pattern-{os.getpid()}"
    old, new = f"{prefix}-old", f"{prefix}-new"
    admin.create_topics([NewTopic(old, 1, 3)])[old].result(PATIENCE_S)
    confluent = confluent_consumer(bootstrap, group_id=f"{prefix}-1", topic_metadata_refresh_interval_ms=300)
    confluent.subscribe([f"^{prefix}-.*"])
    python = python_consumer(bootstrap, group_id=f"{prefix}-2", metadata_max_age_ms=300)
    python.subscribe(pattern=f"^{prefix}-|^__consumer")  # internal topics match no pattern of this client

    def taken() -> tuple[set[str], set[str]]:
        confluent.poll(0.1)
        python.poll(1_000)
        return {each.topic for each in confluent.assignment()}, {each.topic for each in python.assignment()}

    eventually(lambda: taken() == ({old}, {old}), "the first topic is taken")
    admin.create_topics([NewTopic(new, 1, 3)])[new].result(PATIENCE_S)
    eventually(lambda: taken() == ({old, new}, {old, new}), "the second topic is taken too")
    confluent.close()
    python.close()


def test_a_member_that_has_no_strategy_in_common_is_refused(bootstrap: str, topic: str) -> None:
    first = ConfluentMember(bootstrap, topic, topic, strategy="range")
    eventually(lambda: share([first], PARTITIONS), "the first has all")
    other = PythonMember(bootstrap, topic, topic, strategy="roundrobin")
    assert isinstance(eventually(lambda: other.error, "the other is refused"), InconsistentGroupProtocolError)
    assert share([first], PARTITIONS)
    first.leave()


def test_a_session_shorter_than_allowed_is_refused(bootstrap: str, topic: str) -> None:
    hasty = ConfluentMember(bootstrap, topic, topic, session_ms=BEAT_MS // 2 + 1)
    refused = eventually(lambda: hasty.error, "the member is refused")
    assert refused.args[0].code() == KafkaError.INVALID_SESSION_TIMEOUT


def test_of_two_processes_with_one_instance_id_the_first_is_fenced(bootstrap: str, topic: str) -> None:
    first = ConfluentMember(bootstrap, topic, topic, instance="only")
    eventually(lambda: share([first], PARTITIONS), "the first has all")
    second = ConfluentMember(bootstrap, topic, topic, instance="only")
    eventually(lambda: share([second], PARTITIONS), "the second has all")
    fenced = eventually(lambda: first.error, "the first is told")
    assert "FENCED" in str(fenced).upper()
    second.leave()


@pytest.mark.parametrize("kind", MEMBERS, ids=lambda kind: kind.name)
def test_commits_survive_the_members_that_made_them(bootstrap: str, admin: AdminClient, topic: str, kind: Any) -> None:
    _fill(bootstrap, topic, 10)
    first = kind(bootstrap, topic, topic, commits=True)
    eventually(lambda: _seen(first) == _all(10), "everything is read")
    first.leave()
    _fill(bootstrap, topic, 5)
    again = kind(bootstrap, topic, topic, commits=True)
    eventually(lambda: _seen(again) == _all(15, start=10), "the rest is read, and nothing else")
    again.leave()
    assert len(again.seen) == 5 * PARTITIONS


def test_commits_of_every_sort_are_kept(bootstrap: str, topic: str) -> None:
    done: list[Any] = []
    settings = Confluent.config(bootstrap, group_id=topic)
    settings["on_commit"] = lambda error, parts: done.append((error, [part.offset for part in parts]))
    consumer = Consumer(settings, logger=SILENT)
    here = TopicPartition(topic, 0)
    consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    assert consumer.committed([here], PATIENCE_S)[0].offset == 3
    consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=True)
    eventually(lambda: consumer.poll(0.05) is None and done, "the second commit is answered")
    assert done == [(None, [4])]
    assert consumer.committed([here], PATIENCE_S)[0].offset == 4
    with pytest.raises(KafkaException) as refused:
        consumer.commit(offsets=[TopicPartition("no-such-topic", 0, 4)], asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    consumer.close()
