"""Clients of versions that identify topics by name: the version translator does not show which of them exist (A3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from insync.client.request_builder import build_request
from insync.node.config import AuthorizerConfig
from insync.node.node_view import NodeTopicNames
from insync.sansio import Client
from insync.security.acl import CLUSTER_NAME, Acl, Operation, ResourceType
from insync.wire import batch, codec, operations
from insync.wire.apis import APIS
from insync.wire.types import ms
from insync.wire.versions.translator import VersionTranslator
from tests.node.node_harness import Net, config
from tests.node.test_authorization import all_errors, errors

ALICE = Client(host="/10.0.0.1", principal="User:alice", listener="PLAINTEXT", on_node_listener=False)
TOPICS = ("orders", "secret", "absent", "hidden")
"""The first and the third may be used, the first two exist."""


@pytest.fixture(scope="module")
def net() -> Net:
    net = Net(config(1, authorizer=AuthorizerConfig())).up()
    for name in TOPICS[:2]:
        net.create(name)
    authorizer = net.nodes[1].authorizer
    assert authorizer is not None
    for name in (TOPICS[0], TOPICS[2]):
        for operation in (Operation.READ, Operation.WRITE):
            authorizer.add(right(operation, ResourceType.TOPIC, name))
    return net


def right(operation: Operation, kind: ResourceType, name: str) -> Acl:
    return Acl(resource_type=kind, resource_name=name, principal=ALICE.principal, operation=operation)


def ask(net: Net, api: str, version: int, body: dict[str, Any]) -> Any:
    """As a connection does: translate, check what the translator refused, ask the node, translate back."""
    node = net.nodes[1]
    translator = VersionTranslator(NodeTopicNames(node))
    request_type = codec.request_type(APIS[api].key, version)
    context = translator.receive(codec.encode_request(build_request(request_type, body), 1, "app"))
    client = replace(ALICE, version=version)
    node.check_translated(context, client, net.now)
    response = net.answered(1, context.request, client)
    frame = b"".join(translator.encode_response(context, response))
    return codec.decode_response(frame[4:], request_type)[1]


def produce_body(data: bytes) -> dict[str, Any]:
    topics = [{"name": name, "partition_data": [{"index": 0, "records": data}]} for name in TOPICS]
    return {"transactional_id": None, "acks": 1, "timeout": ms(1_000), "topic_data": topics}


@pytest.mark.parametrize("version", [3, 9, 12])
def test_a_name_that_may_not_be_written_is_refused_whether_the_topic_exists_or_not(net: Net, version: int) -> None:
    """A3."""
    data = bytes(batch.build([batch.NewRecord(None, b"v")], timestamp_ms=1_000))
    response = ask(net, "produce", version, produce_body(data))
    assert errors(response) == {
        "orders": {"none"},
        "secret": {"topic_authorization_failed"},
        "absent": {"unknown_topic_or_partition"},
        "hidden": {"topic_authorization_failed"},
    }


def test_a_codec_that_an_old_version_may_not_use_does_not_show_a_topic(net: Net) -> None:
    """A3, W12: only existing topics are checked for it."""
    data = bytearray(batch.build([batch.NewRecord(None, b"v")], timestamp_ms=1_000))
    data[22] |= 4  # zstd
    response = ask(net, "produce", 3, produce_body(bytes(data)))
    assert errors(response) == {
        "orders": {"unsupported_compression_type"},
        "secret": {"topic_authorization_failed"},
        "absent": {"unknown_topic_or_partition"},
        "hidden": {"topic_authorization_failed"},
    }


def fetch_body(replica_id: int = -1) -> dict[str, Any]:
    line = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "log_start_offset": -1}
    return {
        "replica_id": replica_id,
        "max_wait": ms(0),
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "topics": [{"topic": name, "partitions": [line]} for name in TOPICS],
        "forgotten_topics_data": (),
    }


@pytest.mark.parametrize("version", [4, 11, 12])
def test_a_name_that_may_not_be_read_is_refused_whether_the_topic_exists_or_not(net: Net, version: int) -> None:
    """A3."""
    response = ask(net, "fetch", version, fetch_body())
    by_name = errors(response)
    assert {name: by_name[name] for name in TOPICS} == {
        "orders": {"none"},
        "secret": {"topic_authorization_failed"},
        "absent": {"unknown_topic_or_partition"},
        "hidden": {"topic_authorization_failed"},
    }


def test_a_client_that_poses_as_a_replica_learns_no_names(net: Net) -> None:
    """A3, A4."""
    by_name = errors(ask(net, "fetch", 12, fetch_body(replica_id=2)))
    assert {error for name in TOPICS for error in by_name[name]} == {"topic_authorization_failed"}


@pytest.mark.parametrize("version", [8, 10])
def test_old_metadata_says_what_the_client_may_do_on_the_cluster(net: Net, version: int) -> None:
    body = {
        "topics": (),
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": True,
        "include_topic_authorized_operations": False,
    }
    assert ask(net, "metadata", version, body).cluster_authorized_operations == 0
    authorizer = net.nodes[1].authorizer
    assert authorizer is not None
    describe = right(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    authorizer.add(describe)
    assert ask(net, "metadata", version, body).cluster_authorized_operations == 1 << Operation.DESCRIBE
    authorizer.remove(describe)
    without = {**body, "include_cluster_authorized_operations": False}
    assert ask(net, "metadata", version, without).cluster_authorized_operations == operations.NOT_ASKED


def test_without_an_authorizer_old_versions_are_answered_as_before() -> None:
    net = Net(config(1)).up()
    net.create("orders")
    data = bytes(batch.build([batch.NewRecord(None, b"v")], timestamp_ms=1_000))
    assert all_errors(ask(net, "produce", 9, produce_body(data))) == {"none", "unknown_topic_or_partition"}
