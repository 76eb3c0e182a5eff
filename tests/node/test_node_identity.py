"""The identity of a node, and what happens to one that does not match its directory (B9)."""

from __future__ import annotations

import json
from dataclasses import replace
from uuid import UUID

from insync.node.apis import describe_configs
from insync.node.config import BROKER, CONTROLLER
from insync.quorum import voter_set
from insync.quorum.config import METADATA_DIRECTORY
from tests.node.node_harness import Net, config, three_brokers


def test_a_node_with_a_copied_directory_stops_for_good() -> None:
    """B9: the controller knows the directory as another broker's. A restart would not help and is not tried."""
    net = Net(config(1), config(2, roles=(BROKER,)), config(3, roles=(BROKER,), directory_id=UUID(int=2))).up()
    assert net.stops[3].permanent
    assert not net.stops[3].clean
    assert "The directory is a copy" in net.stops[3].reason
    assert sorted(net.nodes[1].image.brokers) == [1, 2]
    assert net.disks[3].exists("data/.kafka_cleanshutdown") is False


def test_a_node_of_another_cluster_stops_and_the_cluster_goes_on() -> None:
    """B9: a majority of its voters says so. One misplaced voter does not stop the others."""
    voters = (1, 2, 3)
    stranger = replace(config(3, voters=voters), cluster_id="other")
    net = Net(config(1, voters=voters), config(2, voters=voters), stranger).up()
    assert sorted(net.stops) == [3]
    assert net.stops[3].permanent
    assert "voters 1,2 belong to another cluster" in net.stops[3].reason
    assert sorted(net.nodes[1].image.brokers) == [1, 2]


def test_a_broker_of_another_cluster_stops() -> None:
    """B9: it has no vote, and asks the voters for the metadata log."""
    net = Net(config(1), replace(config(2, roles=(BROKER,)), cluster_id="other")).up()
    assert sorted(net.stops) == [2]
    assert "voters 1 belong to another cluster" in net.stops[2].reason


def test_observers_keep_the_voters_of_their_quorum_too() -> None:
    """B9: a broker that is pointed at another quorum later on refuses it."""
    net = three_brokers().up()
    assert [voter_set.stored_voters(net.disks[node], METADATA_DIRECTORY) for node in (1, 2, 3)] == [(1,)] * 3


def test_a_node_describes_its_identity_and_the_registrations_it_knows() -> None:
    """B9: by incarnation ids, which differ between two starts."""
    net = Net(config(1, roles=(CONTROLLER,)), config(2, roles=(BROKER,))).up()
    broker, controller = (json.loads(describe_configs.encode_state(net.nodes[node])) for node in (2, 1))
    incarnation = str(net.broker(2).lifecycle.incarnation_id)
    assert (broker["cluster_id"], broker["node_id"]) == ("node-tests", 2)
    assert broker["incarnation_id"] == incarnation
    assert broker["state"] == "running"
    assert (broker["controller_id"], broker["unfenced"]) == (1, {"2": incarnation})
    assert (controller["node_id"], controller["state"], controller["unfenced"]) == (1, None, {"2": incarnation})


def test_a_supervisor_may_name_the_incarnation() -> None:
    """B1: so that it recognizes its own process."""
    name = UUID(int=99)
    net = Net(config(1, incarnation_id=name)).up()
    assert net.nodes[1].image.brokers[1].incarnation_id == name
