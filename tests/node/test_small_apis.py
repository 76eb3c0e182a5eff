"""APIs with short answers (there are no ACLs and no transactions), and what clients may not write or see."""

from __future__ import annotations

import pytest

from insync.groups.config import OFFSETS_TOPIC
from insync.metadata.partition import NO_LEADER
from insync.node.apis.produce import ADMINISTRATOR
from insync.sansio import Client, Request
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    consumer_group_heartbeat,
    create_acls,
    delete_acls,
    describe_acls,
    describe_cluster,
    describe_transactions,
    list_transactions,
)
from insync.wire.types import ms
from tests.acl_filters import EVERY_ACL
from tests.node.node_harness import Net, create_request, metadata_request, produce_request, three_brokers

# --- ACLs ---


def test_acls_are_refused_because_there_is_no_authorizer() -> None:
    net = Net().up()
    answer = net.answered(1, describe_acls.DescribeAclsRequest(**EVERY_ACL))
    assert (answer.error_code, answer.resources) == (ErrorCode.security_disabled, ())
    acl = create_acls.AclCreation(
        resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
    )
    created = net.answered(1, create_acls.CreateAclsRequest(creations=(acl, acl)))
    assert [line.error_code for line in created.results] == [ErrorCode.security_disabled] * 2
    every = delete_acls.DeleteAclsFilter(**EVERY_ACL)
    deleted = net.answered(1, delete_acls.DeleteAclsRequest(filters=(every,)))
    assert [line.error_code for line in deleted.filter_results] == [ErrorCode.security_disabled]


# --- transactions ---


def test_there_are_no_transactions() -> None:
    net = Net().up()
    listed = net.answered(1, list_transactions.ListTransactionsRequest(state_filters=("Ongoing", "Sleeping")))
    assert (listed.error_code, listed.transaction_states) == (ErrorCode.none, ())
    assert listed.unknown_state_filters == ("Sleeping",)
    described = net.answered(1, describe_transactions.DescribeTransactionsRequest(transactional_ids=("a", "b")))
    assert [(line.transactional_id, line.error_code) for line in described.transaction_states] == [
        ("a", ErrorCode.transactional_id_not_found),
        ("b", ErrorCode.transactional_id_not_found),
    ]


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        (None, ErrorCode.none),
        ("", ErrorCode.none),
        ("order-.*", ErrorCode.none),
        (r"\p{Greek}+", ErrorCode.none),
        ("(order", ErrorCode.invalid_regular_expression),
        ("*", ErrorCode.invalid_regular_expression),
    ],
)
def test_a_pattern_of_transactional_ids_must_be_a_regular_expression(pattern: str | None, error: ErrorCode) -> None:
    request = list_transactions.ListTransactionsRequest(state_filters=(), transactional_id_pattern=pattern)
    assert Net().up().answered(1, request).error_code is error


# --- the consumer group protocol ---


def test_the_consumer_group_protocol_is_refused_with_an_explanation() -> None:
    """ADR 18: a client that finds no ConsumerGroupHeartbeat waits for ever; one that is refused reports it."""
    request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, rebalance_timeout=ms(1_000), topic_partitions=None
    )
    answer = Net().up().answered(1, request)
    assert answer.error_code is ErrorCode.unsupported_version
    assert "group.protocol=classic" in answer.error_message


# --- the cluster ---


def test_fenced_brokers_are_described_on_request() -> None:
    """B4."""
    net = three_brokers().up()
    net.crash(3)
    net.advance(30_000)

    def brokers(fenced_too: bool) -> list[tuple[int, bool]]:
        asked = describe_cluster.DescribeClusterRequest(
            include_cluster_authorized_operations=False, include_fenced_brokers=fenced_too
        )
        return [(broker.broker_id, broker.is_fenced) for broker in net.answered(1, asked).brokers]

    assert brokers(fenced_too=False) == [(1, False), (2, False)]
    assert brokers(fenced_too=True) == [(1, False), (2, False), (3, True)]


def test_metadata_names_no_leader_that_is_not_among_the_brokers() -> None:
    """T6: a client could not find its address until it asks again."""
    net = three_brokers().up()
    partition = net.create("t", (2,))
    net.crash(2)
    net.advance(30_000)
    answer = net.answered(1, metadata_request("t"))
    assert 2 not in [broker.node_id for broker in answer.brokers]
    (line,) = answer.topics[0].partitions
    assert (line.leader_id, line.error_code) == (NO_LEADER, ErrorCode.leader_not_available)
    assert line.leader_epoch >= partition.leader_epoch  # W8
    assert line.offline_replicas == (2,)


# --- topics of the brokers themselves ---


def test_clients_do_not_write_to_the_brokers_own_topics() -> None:
    """P5: a client that could write there could forge any group's offsets; Kafka's tools use a known client id."""
    net = Net().up()
    answer = net.answered(1, create_request(OFFSETS_TOPIC))
    assert answer.topics[0].error_code is ErrorCode.none
    net.advance(1_000)
    partition = net.partition(OFFSETS_TOPIC)

    def error_of_write(client: Client) -> ErrorCode:
        response = net.step_for_response(1, Request(9_000, produce_request(partition), client))
        error: ErrorCode = response.responses[0].partition_responses[0].error_code
        return error

    assert error_of_write(Client("app")) is ErrorCode.invalid_topic_exception
    assert net.log(OFFSETS_TOPIC).leo == 0
    assert error_of_write(Client(ADMINISTRATOR)) is ErrorCode.none
