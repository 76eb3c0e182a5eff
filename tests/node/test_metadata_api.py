"""Metadata answers: brokers, topics and leaders as this node's image has them (M1, T6)."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from insync.node.config import BROKER, CONTROLLER
from insync.wire.errors import ErrorCode
from tests.node.node_harness import Net, config, config_request, metadata_request, three_brokers


def test_topics_are_found_by_name_by_id_and_all_together() -> None:
    """M1."""
    net = three_brokers().up()
    one, two = net.create("one", (2, 1, 3)), net.create("two", (3, 1))
    by_name = net.answered(1, metadata_request("one")).topics
    by_id = net.answered(1, metadata_request(topic_ids=(one.topic_id,))).topics
    every = net.answered(1, metadata_request(every=True)).topics
    assert by_name == by_id
    assert [(topic.name, topic.topic_id) for topic in every] == [("one", one.topic_id), ("two", two.topic_id)]
    (partition,) = by_name[0].partitions
    assert (partition.leader_id, partition.leader_epoch) == (2, 0)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ((2, 1, 3), (2, 1, 3), ())


def test_an_unknown_topic_is_named_with_its_error() -> None:
    net = Net().up()
    by_name, by_id = net.answered(1, metadata_request("no", topic_ids=(UUID(int=5),))).topics
    assert (by_name.name, by_name.error_code) == ("no", ErrorCode.unknown_topic_or_partition)
    assert (by_id.topic_id, by_id.error_code) == (UUID(int=5), ErrorCode.unknown_topic_id)


def test_an_empty_list_of_topics_returns_no_topics() -> None:
    net = Net().up()
    net.create("t")
    response = net.answered(1, metadata_request())
    assert response.topics == ()
    assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [(1, "host-1", 9092)]


def test_authorized_operations_are_returned_on_request() -> None:
    """Without an authorizer, all of them; also for a topic that does not exist."""
    net = Net().up()
    net.create("t")
    (quiet,) = net.answered(1, metadata_request("t")).topics
    asking = replace(metadata_request("t", "missing"), include_topic_authorized_operations=True)
    operations = [topic.topic_authorized_operations for topic in net.answered(1, asking).topics]
    assert quiet.topic_authorized_operations == -(2**31)
    assert operations == [0b1101_1111_1000] * 2


def test_a_changed_leader_is_returned_as_soon_as_this_node_knows() -> None:
    """M2: a cached description is not used again."""
    net = three_brokers().up()
    net.create("t", (2, 1, 3))
    assert net.answered(1, metadata_request("t")).topics[0].partitions[0].leader_id == 2
    net.crash(2)
    net.advance(15_000)
    (partition,) = net.answered(1, metadata_request("t")).topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch) == (1, 1)
    assert partition.offline_replicas == (2,)
    assert 2 not in partition.isr_nodes


def test_a_partition_without_a_leader_has_an_error() -> None:
    """E1."""
    net = three_brokers().up()
    net.create("t", (2,))
    net.crash(2)
    net.advance(15_000)
    (partition,) = net.answered(1, metadata_request("t")).topics[0].partitions
    assert (partition.leader_id, partition.error_code) == (-1, ErrorCode.leader_not_available)


def test_a_deleted_topic_is_unknown() -> None:
    net = Net().up()
    net.create("t")
    net.answered(1, metadata_request("t"))
    net.delete("t")
    (topic,) = net.answered(1, metadata_request("t")).topics
    assert topic.error_code is ErrorCode.unknown_topic_or_partition


def test_fenced_brokers_are_not_offered_to_clients() -> None:
    """B4."""
    net = three_brokers().up()
    net.crash(3)
    net.advance(15_000)
    assert [broker.node_id for broker in net.answered(1, metadata_request()).brokers] == [1, 2]


def test_clients_see_as_controller_a_broker_that_forwards() -> None:
    """Q1: clients never talk to the quorum; a broker names itself, a controller some live broker."""
    net = Net(config(1, roles=(CONTROLLER,)), config(2, roles=(BROKER,)), config(3, roles=(BROKER,))).up()
    assert [net.answered(node, metadata_request()).controller_id for node in (1, 2, 3)] == [2, 2, 3]


def test_replicas_see_the_cluster_through_the_committed_image() -> None:
    """B3, B8, I2: what a leader checks before a replica may join the ISR."""
    net = three_brokers().up()
    net.create("t", (1, 2), min_insync_replicas="2")
    view = net.broker().view
    assert view.min_insync_replicas("t") == 2
    assert (view.is_fenced(2), view.is_fenced(99)) == (False, True)
    assert (view.broker_epoch_of(2), view.broker_epoch_of(99)) == (net.nodes[2].broker_epoch, None)
    assert (view.broker_epoch, view.controller_id) == (net.nodes[1].broker_epoch, 1)
    assert view.topic_name(net.partition("t").topic_id) == "t"
    net.answered(1, config_request("t", "min.insync.replicas", "1"))
    assert view.min_insync_replicas("t") == 1
    net.crash(2)
    net.advance(15_000)
    assert view.is_fenced(2)


def test_brokers_know_which_of_them_is_shutting_down() -> None:
    """B7, I2: it is not let into an ISR meanwhile."""
    net = three_brokers().up()
    net.create("t", (2, 1, 3))
    net.hold = [(3, "heartbeat")]
    net.shut_down(2)
    view = net.broker().view
    assert view.is_shutting_down(2)
    assert not view.is_shutting_down(1)
