"""Idempotent producing: clients get producer ids, number their batches, and nothing is stored twice."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition

from tests.interop.interop_clients import CLIENTS, CODECS, Aiokafka, MakeTopic, Rec, client_id, contents


@pytest.mark.parametrize("client", CLIENTS, ids=client_id)
def test_an_idempotent_producer_is_known_to_the_partition(bootstrap: str, make_topic: MakeTopic, client: Any) -> None:
    topic = make_topic()
    for codec in CODECS:
        client.send(bootstrap, topic, [Rec(b"%d" % i, at=1) for i in range(50)], codec=codec, enable_idempotence=True)
    producers = _producers(bootstrap, topic)
    assert len({each.producer_id for each in producers}) == len(CODECS)
    assert {each.last_sequence for each in producers} == {49}
    assert {each.producer_epoch for each in producers} == {0}
    values = [each.value for each in contents(client.read(bootstrap, topic, 50 * len(CODECS)))]
    assert values == [b"%d" % i for i in range(50)] * len(CODECS)


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("client", CLIENTS, ids=client_id)
def test_a_plain_producer_is_not(bootstrap: str, make_topic: MakeTopic, client: Any, acks: int | str) -> None:
    topic = make_topic()
    client.send(bootstrap, topic, [Rec(b"a", at=1)], enable_idempotence=False, acks=acks)
    assert contents(client.read(bootstrap, topic, 1)) == [Rec(b"a", at=1)]
    assert _producers(bootstrap, topic) == []


@pytest.mark.parametrize("client", CLIENTS, ids=client_id)
def test_many_batches_keep_their_order(bootstrap: str, make_topic: MakeTopic, client: Any) -> None:
    topic = make_topic()
    sent = [Rec(b"%d" % i, at=1 + i) for i in range(3_000)]
    small = {"batch_size": 1_000, "linger_ms": 0}
    client.send(bootstrap, topic, sent, **(small if client is not Aiokafka else {"max_batch_size": 1_000}))
    assert contents(client.read(bootstrap, topic, len(sent))) == sent


def _producers(bootstrap: str, topic: str) -> list[Any]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    try:
        here = TopicPartition(topic, 0)
        return list(admin.describe_producers([here])[here].active_producers)
    finally:
        admin.close()
