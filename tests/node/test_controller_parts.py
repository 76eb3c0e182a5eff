"""Large requests in parts: nothing is lost or doubled by the division, and no step decides more than a part."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from insync.controller.config import ControllerConfig
from insync.node.config import CONTROLLER
from insync.node.controller_apis import CONTROLLER_APIS, PART_ITEMS
from insync.node.parts import Parts
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_partition as alter_messages
from insync.wire.messages import alter_partition_reassignments as reassign_messages
from insync.wire.messages import delete_topics as delete_messages
from insync.wire.messages import elect_leaders as elect_messages
from insync.wire.types import ms
from tests.node.node_harness import CLUSTER, Net, config, create_request

COUNT = 450


def parts_of(api: str) -> Parts:
    parts = CONTROLLER_APIS[api].parts
    assert parts is not None
    return parts


def reassignment(*lines: tuple[str, int]) -> Any:
    topics: dict[str, list[Any]] = {}
    for name, index in lines:
        topics.setdefault(name, []).append(
            reassign_messages.ReassignablePartition(partition_index=index, replicas=(1,))
        )
    return reassign_messages.AlterPartitionReassignmentsRequest(
        timeout=ms(1_000),
        allow_replication_factor_change=True,
        topics=tuple(
            reassign_messages.ReassignableTopic(name=name, partitions=tuple(entries))
            for name, entries in topics.items()
        ),
    )


def test_partitions_of_a_topic_are_divided_and_their_answers_joined() -> None:
    lines = [("a", index) for index in range(COUNT)] + [("b", 0)]
    parts = parts_of("alter_partition_reassignments").divide(reassignment(*lines))
    sizes = [sum(len(topic.partitions) for topic in part.topics) for part in parts]
    assert (sum(sizes), max(sizes)) == (len(lines), PART_ITEMS)
    answers = [CONTROLLER_APIS["alter_partition_reassignments"].refuse(part, ErrorCode.none) for part in parts]
    merged = parts_of("alter_partition_reassignments").join(answers)
    assert [(t.name, line.partition_index) for t in merged.responses for line in t.partitions] == lines


def test_what_is_named_twice_stays_in_one_part() -> None:
    lines = [("a", 7), *(("a", index) for index in range(COUNT))]
    parts = parts_of("alter_partition_reassignments").divide(reassignment(*lines))
    where = [
        n for n, part in enumerate(parts) for t in part.topics for line in t.partitions if line.partition_index == 7
    ]
    assert where == [0, 0]


@pytest.mark.parametrize("count", [1, PART_ITEMS])
def test_small_requests_are_not_divided(count: int) -> None:
    request = delete_messages.DeleteTopicsRequest(
        topics=tuple(delete_messages.DeleteTopicState(name=f"t{n}", topic_id=None) for n in range(count)),
        timeout=ms(1_000),
    )
    assert parts_of("delete_topics").divide(request) == (request,)
    everything = elect_messages.ElectLeadersRequest(election_type=0, topic_partitions=None, timeout=ms(1_000))
    assert parts_of("elect_leaders").divide(everything) == (everything,)


def test_an_error_of_one_part_of_alter_partition_is_that_of_the_request() -> None:
    """I4: a stale broker epoch refuses the whole request."""
    topic = alter_messages.ResponseTopic(topic_id=UUID(int=1), partitions=())
    fine = alter_messages.AlterPartitionResponse(throttle_time=ms(0), error_code=ErrorCode.none, topics=(topic,))
    stale = alter_messages.AlterPartitionResponse(
        throttle_time=ms(0), error_code=ErrorCode.stale_broker_epoch, topics=()
    )
    assert parts_of("alter_partition").join([fine, stale]) is stale


def small_slices() -> Net:
    controller = ControllerConfig(cluster_id=CLUSTER, rebalance_interval_ms=0, max_slice_records=3)
    return Net(config(1, controller=controller, metadata_apply_records=4))


def appended(net: Net, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows by the number of records that each step of node 1 appends to the metadata log."""
    node, sizes = net.nodes[1], list[int]()
    step = node.step

    def watched(event: Any, now: int) -> Any:
        before = node.quorum.leo
        effects = step(event, now)
        sizes.append(node.quorum.leo - before)
        return effects

    monkeypatch.setattr(node, "step", watched)
    return sizes


def test_heartbeats_are_answered_between_the_slices_and_the_topic_appears_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Q3, B4: no step appends more than a slice, and the client is answered when all of it is applied."""
    net = small_slices().up()
    sizes = appended(net, monkeypatch)
    token = net.ask(1, create_request("big", partitions=40))
    assert token not in net.answers
    assert net.nodes[1].image.complete_topic("big") is None
    net.advance(net.broker().lifecycle.config.heartbeat_interval_ms)
    assert [line.error_code for line in net.answers[token].topics] == [ErrorCode.none]
    topic_id = net.nodes[1].image.complete_topic("big")
    assert topic_id is not None
    assert len(net.nodes[1].image.partitions[topic_id]) == 40
    assert max(sizes) == 3
    assert not net.broker().lifecycle.fenced


def test_a_controller_that_is_asked_directly_decides_a_request_in_parts() -> None:
    """Q3: clients may ask controllers without a broker between them."""
    net = Net(config(1, roles=(CONTROLLER,))).up()
    request = delete_messages.DeleteTopicsRequest(
        topics=tuple(delete_messages.DeleteTopicState(name=f"t{n}", topic_id=None) for n in range(COUNT)),
        timeout=ms(1_000),
    )
    token = net.ask(1, request)
    assert token not in net.answers
    net.advance(100)
    assert [line.name for line in net.answers[token].responses] == [f"t{n}" for n in range(COUNT)]
    assert {line.error_code for line in net.answers[token].responses} == {ErrorCode.unknown_topic_or_partition}
