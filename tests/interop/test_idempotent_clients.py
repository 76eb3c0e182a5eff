"""Idempotent producers: clients get producer ids and number their batches, and no record is stored twice."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import TopicPartition

from tests.interop.interop_clients import (
    CLIENTS,
    CODECS,
    Aiokafka,
    Client,
    MakeTopic,
    Record,
    client_id,
    contents,
    python_admin_client,
)


@pytest.mark.parametrize("client", CLIENTS, ids=client_id)
def test_the_partition_knows_an_idempotent_producer(
    bootstrap: str, make_topic: MakeTopic, client: type[Client]
) -> None:
    topic = make_topic()
    sent = [Record(b"%d" % i, timestamp_ms=1) for i in range(50)]
    for codec in CODECS:
        client.send(bootstrap, topic, sent, codec=codec, enable_idempotence=True)
    producers = _producers(bootstrap, topic)
    assert len({producer.producer_id for producer in producers}) == len(CODECS)
    assert {producer.last_sequence for producer in producers} == {49}
    assert {producer.producer_epoch for producer in producers} == {0}
    values = [record.value for record in contents(client.read(bootstrap, topic, 50 * len(CODECS)))]
    assert values == [b"%d" % i for i in range(50)] * len(CODECS)


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("client", CLIENTS, ids=client_id)
def test_the_partition_does_not_know_a_plain_producer(
    bootstrap: str, make_topic: MakeTopic, client: type[Client], acks: int | str
) -> None:
    topic = make_topic()
    client.send(bootstrap, topic, [Record(b"a", timestamp_ms=1)], enable_idempotence=False, acks=acks)
    assert contents(client.read(bootstrap, topic, 1)) == [Record(b"a", timestamp_ms=1)]
    assert _producers(bootstrap, topic) == []


@pytest.mark.parametrize("client", CLIENTS, ids=client_id)
def test_many_batches_keep_their_order(bootstrap: str, make_topic: MakeTopic, client: type[Client]) -> None:
    topic = make_topic()
    sent = [Record(b"%d" % i, timestamp_ms=1 + i) for i in range(3_000)]
    small_batches: dict[str, Any] = (
        {"max_batch_size": 1_000} if client is Aiokafka else {"batch_size": 1_000, "linger_ms": 0}
    )
    client.send(bootstrap, topic, sent, **small_batches)
    assert contents(client.read(bootstrap, topic, len(sent))) == sent


def _producers(bootstrap: str, topic: str) -> list[Any]:
    admin = python_admin_client(bootstrap)
    partition = TopicPartition(topic, 0)
    try:
        return list(admin.describe_producers([partition])[partition].active_producers)
    finally:
        admin.close()
