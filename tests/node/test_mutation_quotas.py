"""KIP-599: how fast a client may create and delete partitions, decided by the controller for the whole cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from insync.sansio import Client
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_client_quotas, create_partitions, delete_topics
from insync.wire.types import millis, ms
from tests.node.node_harness import Net, config, create_request

RATE = 2
ALICE = Client(id="app", host="/10.0.0.1", principal="User:alice")
OLD = 4
"""A version of every one of these APIs whose clients do not know THROTTLING_QUOTA_EXCEEDED, or none."""


@pytest.fixture
def net() -> Net:
    made = Net(config(1, voters=(1,), mutation_quota_windows=2), config(2, voters=(1,), roles=("broker",))).up()
    entity = (alter_client_quotas.RequestEntity(entity_type="user", entity_name="alice"),)
    op = alter_client_quotas.OpData(key="controller_mutation_rate", value=float(RATE), remove=False)
    entry = alter_client_quotas.RequestEntry(entity=entity, ops=(op,))
    request = alter_client_quotas.AlterClientQuotasRequest(entries=(entry,), validate_only=False)
    assert made.answered(1, request).entries[0].error_code is ErrorCode.none
    made.advance(1_000)
    return made


def ask(net: Net, node_id: int, request: Any, client: Client = ALICE) -> Any:
    token = net.ask(node_id, request, client=client)
    net.advance(200)
    return net.answers[token]


def creation(*names: str, partitions: int = 4, validate_only: bool = False) -> Any:
    request = create_request(names[0], partitions=partitions)
    topics = tuple(replace(request.topics[0], name=name) for name in names)
    return replace(request, topics=topics, validate_only=validate_only)


def outcome(answer: Any) -> tuple[list[ErrorCode], int]:
    return [topic.error_code for topic in answer.topics], millis(answer.throttle_time)


def test_a_client_above_its_rate_is_refused_topic_by_topic_with_a_throttle_time(net: Net) -> None:
    refused = ErrorCode.throttling_quota_exceeded
    errors, throttle_ms = outcome(ask(net, 2, creation("a", "b", "c", partitions=4)))
    assert errors == [ErrorCode.none, ErrorCode.none, refused], "the bucket holds 4, for two seconds"
    assert 1_500 < throttle_ms <= 2_000, "4 partitions are owed, at 2 a second"
    errors, throttle_ms = outcome(ask(net, 1, creation("c")))
    assert (errors, throttle_ms > 1_000) == ([refused], True), "through any broker"
    net.advance(2_000)
    assert outcome(ask(net, 2, creation("c"))) == ([ErrorCode.none], 0)


def test_an_older_client_is_not_refused_but_has_to_wait(net: Net) -> None:
    """It would not know the error."""
    errors, throttle_ms = outcome(ask(net, 2, creation("a", "b", "c"), replace(ALICE, version=OLD)))
    assert errors == [ErrorCode.none] * 3
    assert 3_500 < throttle_ms <= 4_000


def test_deletions_and_new_partitions_count_too(net: Net) -> None:
    assert outcome(ask(net, 2, creation("a", partitions=8)))[0] == [ErrorCode.none]
    more = create_partitions.CreatePartitionsRequest(
        topics=(create_partitions.CreatePartitionsTopic(name="a", count=9, assignments=None),),
        timeout=ms(1_000),
        validate_only=False,
    )
    answer = ask(net, 2, more)
    assert answer.results[0].error_code is ErrorCode.throttling_quota_exceeded
    deletion = delete_topics.DeleteTopicsRequest(
        topics=(delete_topics.DeleteTopicState(name="a", topic_id=None),), timeout=ms(1_000)
    )
    answer = ask(net, 2, deletion)
    assert answer.responses[0].error_code is ErrorCode.throttling_quota_exceeded
    assert answer.throttle_time > ms(0)
    net.advance(4_000)
    assert ask(net, 2, more).results[0].error_code is ErrorCode.none
    assert ask(net, 2, deletion).responses[0].error_code is ErrorCode.none
    assert outcome(ask(net, 2, creation("b", partitions=1)))[0] == [ErrorCode.throttling_quota_exceeded]


def test_what_is_not_done_does_not_count(net: Net) -> None:
    for _ in range(5):
        assert outcome(ask(net, 2, creation("a", partitions=10, validate_only=True))) == ([ErrorCode.none], 0)
        assert outcome(ask(net, 2, creation("", partitions=10)))[0] == [ErrorCode.invalid_topic_exception]
    assert outcome(ask(net, 2, creation("a", partitions=10))) == ([ErrorCode.none], 0)


def test_other_clients_and_the_nodes_themselves_are_not_limited(net: Net) -> None:
    for number in range(3):
        bob = replace(ALICE, principal="User:bob")
        assert outcome(ask(net, 2, creation(f"b{number}", partitions=10), bob)) == ([ErrorCode.none], 0)
    unlimited = net.answered(1, creation("n", partitions=10))
    assert outcome(unlimited) == ([ErrorCode.none], 0)


def test_the_wait_of_a_request_in_parts_is_the_longest_of_its_parts(net: Net) -> None:
    answer = ask(net, 2, creation(*(f"t{number}" for number in range(300)), partitions=1))
    errors, throttle_ms = outcome(answer)
    assert errors.count(ErrorCode.none) == 5
    assert throttle_ms > 0
