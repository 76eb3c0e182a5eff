"""Big requests are decided in parts: no step does more than a bounded amount of work."""

from __future__ import annotations

from typing import Any

import pytest

from insync.node.apis import create_topics as api
from insync.sansio import Event, Request
from insync.wire.errors import ErrorCode
from insync.wire.messages import create_topics
from insync.wire.types import ms
from tests.node.node_harness import Net, three_brokers, three_voters

TOPICS = 230


def topic(name: str, partitions: int = 1) -> Any:
    return create_topics.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=()
    )


def request(*topics: Any) -> Any:
    return create_topics.CreateTopicsRequest(topics=topics, timeout=ms(60_000), validate_only=False)


def envelopes(net: Net, node_id: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows by the size of each request that is forwarded to this controller."""
    node, sizes = net.nodes[node_id], list[int]()
    step = node.step

    def watched(event: Event, now: int) -> Any:
        if isinstance(event, Request) and event.request.__api_key__ == 58:
            sizes.append(len(event.request.request_data))
        return step(event, now)

    monkeypatch.setattr(node, "step", watched)
    return sizes


def test_many_topics_are_created_in_parts_and_answered_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Q3: each part is decided on the state that the one before has left."""
    net = three_brokers().up()
    sizes = envelopes(net, 1, monkeypatch)
    token = net.ask(2, request(*(topic(f"t-{number}") for number in range(TOPICS))))
    net.advance(5_000)
    answer = net.answers[token]
    assert [line.name for line in answer.topics] == [f"t-{number}" for number in range(TOPICS)]
    assert {line.error_code for line in answer.topics} == {ErrorCode.none}
    assert len(sizes) == -(-TOPICS // api.PART_TOPICS)
    assert all(net.nodes[1].image.find(f"t-{number}", 0) for number in range(TOPICS))


def test_parts_are_bounded_by_partitions_too_and_a_topic_is_never_divided() -> None:
    parts = api.PARTS.divide(
        request(*(topic(f"t-{number}", 200) for number in range(5)), topic("large", 5_000), topic("x"))
    )
    assert [[created.name for created in part.topics] for part in parts] == [
        ["t-0", "t-1"],
        ["t-2", "t-3"],
        ["t-4"],
        ["large"],
        ["x"],
    ]


def test_a_topic_that_is_named_twice_is_refused_though_there_are_many_between() -> None:
    net = three_brokers().up()
    names = ["twice", *(f"t-{number}" for number in range(TOPICS)), "twice"]
    token = net.ask(2, request(*map(topic, names)))
    net.advance(5_000)
    errors = {line.name: line.error_code for line in net.answers[token].topics}
    assert errors.pop("twice") is ErrorCode.invalid_request
    assert set(errors.values()) == {ErrorCode.none}


def test_topics_of_a_part_that_fails_do_not_touch_the_others() -> None:
    net = three_brokers().up()
    names = ["bad name", *(f"t-{number}" for number in range(TOPICS))]
    token = net.ask(2, request(*map(topic, names)))
    net.advance(5_000)
    errors = [line.error_code for line in net.answers[token].topics]
    assert errors == [ErrorCode.invalid_topic_exception, *[ErrorCode.none] * TOPICS]


def test_a_new_controller_continues_with_the_parts_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Q2: answered parts are committed; the rest goes to the new leader."""
    net = three_voters().up()
    leader = net.nodes[1].quorum.leader_id
    broker = next(node_id for node_id in net.nodes if node_id != leader)
    sizes = envelopes(net, leader, monkeypatch)
    node = net.nodes[leader]
    step = node.step

    def cut_off_after_two(event: Event, now: int) -> Any:
        effects = step(event, now)
        if len(sizes) == 2 and leader not in net.cut_off:
            net.cut_off.append(leader)
        return effects

    monkeypatch.setattr(node, "step", cut_off_after_two)
    token = net.ask(broker, request(*(topic(f"t-{number}") for number in range(TOPICS))))
    net.advance(60_000)
    errors = [line.error_code for line in net.answers[token].topics]
    assert len(errors) == TOPICS
    assert set(errors[: api.PART_TOPICS]) == {ErrorCode.none}
    assert set(errors) <= {ErrorCode.none, ErrorCode.topic_already_exists, ErrorCode.request_timed_out}
