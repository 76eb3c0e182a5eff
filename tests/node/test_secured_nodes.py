"""Nodes that authenticate to each other, with an authorizer on all of them (A4, A5): the protocol works as without, and
a node that loses its rights is treated like one that cannot be reached."""

from __future__ import annotations

from typing import Any

from insync.node.config import AuthorizerConfig
from insync.sansio import Client
from insync.security.acl import CLUSTER_NAME, Acl, Operation, ResourceType
from tests.node.node_harness import Net, config, fetch_request, produce_request
from tests.node.test_access_control import ADMIN, create, remove_all
from tests.node.test_authorization import all_errors

SUPER_USERS = ("User:admin", "User:node-1")


def principal(node_id: int) -> Client:
    return Client(host=f"/10.0.0.{node_id}", principal=f"User:node-{node_id}", listener="PLAINTEXT")


def cluster(*super_users: str) -> Net:
    """Node 1 is the controller; all three are brokers."""
    fields: dict[str, Any] = {"authorizer": AuthorizerConfig(super_users=("User:admin", *super_users))}
    net = Net(config(1, **fields), *(config(n, roles=("broker",), **fields) for n in (2, 3)))
    net.clients = {node_id: principal(node_id) for node_id in (1, 2, 3)}
    return net


def rights(node_id: int) -> Acl:
    return Acl(
        resource_type=ResourceType.CLUSTER,
        resource_name=CLUSTER_NAME,
        principal=f"User:node-{node_id}",
        operation=Operation.CLUSTER_ACTION,
    )


def unfenced(net: Net) -> list[int]:
    return sorted(broker.id for broker in net.nodes[1].image.brokers.values() if not broker.fenced)


def test_nodes_that_are_super_users_form_a_cluster() -> None:
    """A5: super users are served before any ACL is known."""
    net = cluster("User:node-1", "User:node-2", "User:node-3").up()
    assert unfenced(net) == [1, 2, 3]
    partition = net.create("t", (1, 2, 3))
    assert all_errors(net.answered(1, produce_request(partition), ADMIN)) == {"none"}
    assert net.partition("t").isr == (1, 2, 3)
    assert not [note for _, note in net.notes if note.kind == "authorization_denied"]


def test_voters_elect_a_leader_only_if_they_are_super_users() -> None:
    """A5: an ACL cannot help them, because it is in the log that they would have to read first."""
    voters = (1, 2, 3)

    def leaders(*super_users: str) -> set[int]:
        fields: dict[str, Any] = {"authorizer": AuthorizerConfig(super_users=super_users, allow_if_no_acl=True)}
        net = Net(*(config(n, voters=voters, **fields) for n in voters))
        net.clients = {node_id: principal(node_id) for node_id in voters}
        net.up(30_000)
        return {node.quorum.leader_id for node in net.nodes.values()}

    assert leaders("User:node-1", "User:node-2", "User:node-3") <= {1, 2, 3}
    assert leaders() == {-1}


def test_a_broker_without_rights_is_not_admitted_until_it_has_them() -> None:
    """A4."""
    net = cluster("User:node-1", "User:node-2").up()
    assert unfenced(net) == [1, 2]
    assert not net.stops
    create(net, rights(3))
    net.advance(30_000)
    assert unfenced(net) == [1, 2, 3]


def test_a_follower_that_loses_its_rights_leaves_the_isr_and_comes_back_with_them() -> None:
    """A4, A6, I1: nothing else breaks, and nothing is lost."""
    net = cluster("User:node-1", "User:node-2")
    net.start()
    net.advance(15_000)
    create(net, rights(3))
    net.advance(30_000)
    partition = net.create("t", (1, 2, 3))
    assert net.partition("t").isr == (1, 2, 3)
    remove_all(net)
    net.advance(60_000)
    assert 3 not in net.partition("t", 1).isr
    assert not net.stops
    assert all_errors(net.answered(1, produce_request(partition), ADMIN)) == {"none"}
    create(net, rights(3))
    net.advance(60_000)
    assert net.partition("t", 1).isr == (1, 2, 3)
    assert net.log("t", 3).leo == net.log("t", 1).leo == 1
    consumed = net.answered(1, fetch_request(partition), ADMIN)
    assert consumed.responses[0].partitions[0].records
