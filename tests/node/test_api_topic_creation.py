"""Topics that a Metadata request creates, and those that it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from insync.controller.config import ControllerConfig
from tests.node.node_harness import Net, config, metadata_request, three_brokers


def topic_errors(net: Net, *names: str, allow: bool = True, node_id: int = 1) -> dict[str, str]:
    request = replace(metadata_request(*names), allow_auto_topic_creation=allow)
    return {topic.name: topic.error_code.name for topic in net.answered(node_id, request).topics}


def controller(**fields: Any) -> ControllerConfig:
    return ControllerConfig(cluster_id="node-tests", rebalance_interval_ms=0, **fields)


def test_a_missing_topic_is_unknown_at_first_and_exists_the_next_time() -> None:
    net = Net(config(1, controller=controller(default_partitions=3))).up()
    assert topic_errors(net, "t") == {"t": "unknown_topic_or_partition"}
    assert topic_errors(net, "t") == {"t": "none"}
    assert len(net.nodes[1].image.partitions[net.nodes[1].image.topic_ids["t"]]) == 3


def test_no_topic_is_created_if_the_client_or_the_broker_disallows_it() -> None:
    net = Net().up()
    topic_errors(net, "t", allow=False)
    assert net.nodes[1].image.topics == {}
    net = Net(config(1, auto_create_topics=False)).up()
    topic_errors(net, "t")
    assert net.nodes[1].image.topics == {}


def test_bad_names_and_internal_topics_are_not_created() -> None:
    """W11."""
    net = Net().up()
    errors = topic_errors(net, "bad name", "__transaction_state", ".", "x" * 250)
    assert errors.pop("__transaction_state") == "unknown_topic_or_partition"
    assert list(errors.values()) == ["invalid_topic_exception"] * 3
    assert net.nodes[1].image.topics == {}


def test_a_broker_sends_one_creation_for_repeated_requests() -> None:
    net = three_brokers().up()
    net.hold = [(3, "forward")]
    for _ in range(3):
        topic_errors(net, "t", "t", node_id=3)
    assert len(net.held) == 1
    net.release()
    net.advance(1_000)
    assert topic_errors(net, "t", node_id=3) == {"t": "none"}


def test_a_failed_creation_is_tried_again() -> None:
    net = Net(config(1, controller=controller(default_replication_factor=2))).up()
    assert topic_errors(net, "t") == {"t": "unknown_topic_or_partition"}
    assert topic_errors(net, "t") == {"t": "unknown_topic_or_partition"}
    notes = [note.fields for _, note in net.notes if note.kind == "topic_auto_create"]
    assert notes == [{"topic": "t", "error": "invalid_replication_factor"}] * 2


def test_a_controller_without_a_broker_creates_nothing() -> None:
    net = Net(config(1, roles=("controller",)), config(2, roles=("broker",))).up()
    topic_errors(net, "t", node_id=1)
    net.advance(1_000)
    assert net.nodes[1].image.topics == {}


def test_internal_topics_are_marked() -> None:
    net = Net().up()
    net.create("__consumer_offsets")
    net.create("t")
    topics = net.answered(1, metadata_request(every=True)).topics
    assert {topic.name: topic.is_internal for topic in topics} == {"__consumer_offsets": True, "t": False}
