"""Topics that do not exist: created automatically where that is allowed, and elsewhere an error of the client."""

from __future__ import annotations

import os

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.interop_clients import (
    CLIENTS,
    Client,
    Confluent,
    DeliveryError,
    MakeTopic,
    Record,
    client_id,
    confluent_consumer,
    contents,
    error_code,
    python_admin_client,
    python_consumer,
)
from tests.polling import TIMEOUT_S, wait_until

OFFSETS_TOPIC = "__consumer_offsets"


@pytest.mark.parametrize("client", CLIENTS, ids=client_id)
def test_the_first_record_creates_its_topic(bootstrap: str, admin: AdminClient, client: type[Client]) -> None:
    topic = f"created-by-{client.name}-{os.getpid()}"
    client.send(bootstrap, topic, [Record(b"first", timestamp_ms=1)])
    assert contents(client.read(bootstrap, topic, 1)) == [Record(b"first", timestamp_ms=1)]
    described = admin.list_topics(topic, TIMEOUT_S).topics[topic]
    assert len(described.partitions) == 1
    assert len(described.partitions[0].replicas) == 3


def test_a_consumer_creates_a_topic_only_if_it_is_configured_to(bootstrap: str, admin: AdminClient) -> None:
    topic = f"subscribed-{os.getpid()}"
    passive = confluent_consumer(bootstrap, group_id=topic, allow_auto_create_topics=False)
    passive.subscribe([topic])
    message = wait_until(lambda: passive.poll(0.1), "the consumer gets an error")
    assert error_code(message.error()) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics
    passive.close()
    creating = python_consumer(bootstrap, group_id=topic, allow_auto_create_topics=True, metadata_max_age_ms=500)
    creating.subscribe([topic])
    wait_until(lambda: creating.poll(1_000) == {} and creating.assignment(), "the topic exists and is assigned")
    creating.close()


def test_an_invalid_name_is_an_error_at_once(bootstrap: str) -> None:
    with pytest.raises(DeliveryError) as refused:
        Confluent.send(bootstrap, "not a topic!", [Record(b"x", timestamp_ms=1)])
    assert refused.value.code in (KafkaError.TOPIC_EXCEPTION, KafkaError._UNKNOWN_TOPIC)


def test_a_topic_that_is_deleted_and_created_again_is_empty(
    bootstrap: str, admin: AdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    Confluent.send(bootstrap, topic, [Record(b"old", timestamp_ms=1)] * 5)
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    wait_until(lambda: _can_create(admin, topic), "the topic can be created again")
    assert Confluent.send(bootstrap, topic, [Record(b"new", timestamp_ms=2)]) == [0]
    for reader in CLIENTS:
        assert contents(reader.read(bootstrap, topic, 1)) == [Record(b"new", timestamp_ms=2)]


def _can_create(admin: AdminClient, topic: str) -> bool:
    try:
        admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(TIMEOUT_S)
    except KafkaException as error:
        if error_code(error.args[0]) == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise
    return True


def test_the_offsets_topic_is_internal(bootstrap: str, make_topic: MakeTopic) -> None:
    consumer = confluent_consumer(bootstrap, group_id=make_topic())
    topic = make_topic()
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    admin = python_admin_client(bootstrap)
    (offsets,) = admin.describe_topics([OFFSETS_TOPIC])
    (ordinary,) = admin.describe_topics([topic])
    assert offsets["is_internal"] is True
    assert ordinary["is_internal"] is False
    admin.close()
    reader = python_consumer(bootstrap)
    assert OFFSETS_TOPIC not in reader.topics()
    assert topic in reader.topics()
    reader.close()
