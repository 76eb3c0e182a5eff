"""Topics that nobody made: made on the way where that is allowed, and an error of the client's own where not."""

from __future__ import annotations

import os
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient

from tests.interop.interop_clients import (
    CLIENTS,
    PATIENCE_S,
    Confluent,
    ConfluentRefused,
    MakeTopic,
    Rec,
    client_id,
    confluent_consumer,
    contents,
    python_consumer,
)
from tests.interop.interop_members import eventually

OFFSETS = "__consumer_offsets"


@pytest.mark.parametrize("client", CLIENTS, ids=client_id)
def test_a_topic_is_made_by_the_first_record_sent_to_it(bootstrap: str, admin: AdminClient, client: Any) -> None:
    topic = f"made-by-{client.name}-{os.getpid()}"
    client.send(bootstrap, topic, [Rec(b"first", at=1)])
    assert contents(client.read(bootstrap, topic, 1)) == [Rec(b"first", at=1)]
    described = admin.list_topics(topic, PATIENCE_S).topics[topic]
    assert len(described.partitions) == 1
    assert len(described.partitions[0].replicas) == 3


def test_a_consumer_makes_a_topic_only_if_it_says_so(bootstrap: str, admin: AdminClient) -> None:
    topic = f"subscribed-{os.getpid()}"
    shy = confluent_consumer(bootstrap, group_id=topic, allow_auto_create_topics=False)
    shy.subscribe([topic])
    told = eventually(lambda: shy.poll(0.1), "the consumer is told")
    assert told.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert topic not in admin.list_topics(timeout=PATIENCE_S).topics
    shy.close()
    bold = python_consumer(bootstrap, group_id=topic, allow_auto_create_topics=True, metadata_max_age_ms=500)
    bold.subscribe([topic])
    eventually(lambda: bold.poll(1_000) == {} and bold.assignment(), "the topic is there and assigned")
    bold.close()


def test_a_bad_name_is_an_error_at_once(bootstrap: str) -> None:
    bad = "not a topic!"
    with pytest.raises(ConfluentRefused) as refused:
        Confluent.send(bootstrap, bad, [Rec(b"x", at=1)])
    assert refused.value.error.code() in (KafkaError.TOPIC_EXCEPTION, KafkaError._UNKNOWN_TOPIC)


def test_a_topic_that_is_deleted_and_made_again_starts_empty(
    bootstrap: str, admin: AdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    Confluent.send(bootstrap, topic, [Rec(b"old", at=1)] * 5)
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    eventually(lambda: _made(admin, topic), "the name is free again")
    assert Confluent.send(bootstrap, topic, [Rec(b"new", at=2)]) == [0]
    for reader in CLIENTS:
        assert contents(reader.read(bootstrap, topic, 1)) == [Rec(b"new", at=2)]


def _made(admin: AdminClient, topic: str) -> bool:
    try:
        admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(PATIENCE_S)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise
    return True


def test_the_offsets_topic_is_internal(bootstrap: str, make_topic: MakeTopic) -> None:
    consumer = confluent_consumer(bootstrap, group_id=make_topic())
    topic = make_topic()
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    (described,) = admin.describe_topics([OFFSETS])
    (ordinary,) = admin.describe_topics([topic])
    assert described["is_internal"] is True
    assert ordinary["is_internal"] is False
    admin.close()
    reader = python_consumer(bootstrap)
    assert OFFSETS not in reader.topics()
    assert topic in reader.topics()
    reader.close()
