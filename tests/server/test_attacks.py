"""Attacks on a secured cluster of real processes by a user without rights. Every test ends with a cluster that is as
before."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from insync.client.request_builder import build_request
from insync.node.apis.describe_configs import STATE_KEY
from insync.quorum.config import METADATA_DIRECTORY
from insync.security.acl import ResourceType
from insync.wire import batch, codec
from insync.wire.apis import APIS
from insync.wire.errors import ErrorCode
from insync.wire.forwarded_client import encode_principal
from insync.wire.messages import create_acls, envelope, fetch, get_replica_log_info
from insync.wire.types import millis, ms
from tests.authorization_cases import CASES, Case
from tests.server.attack_harness import (
    HIDDEN,
    NODE_ID,
    ORDERS,
    REFUSALS,
    SECRETS,
    TIMEOUT_S,
    Connection,
    Target,
    acl_creation,
    acl_filter,
    all_errors,
    attacked_cluster,
    brokers_request,
    metadata_request,
    offsets_request,
    produce_request,
    request_of,
)
from tests.server.server_harness import eventually

NODE_CASES = [case for case in CASES if case.between_nodes]


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    with attacked_cluster() as target:
        yield target


# --- posing as a node (A4) --------------------------------------------------------------------------------------------


def body_of(case: Case, target: Target) -> Any:
    is_ours = case.api == "get_replica_log_info"
    api = APIS[case.api]
    cls = get_replica_log_info.GetReplicaLogInfoRequest if is_ours else codec.request_type(api.key, api.pinned)
    ids = {ORDERS: target.topic_id(ORDERS), "secret": target.topic_id(HIDDEN)}
    return build_request(cls, case.body(ids))


def replica_fetch(target: Target, broker_epoch: int, replica_id: int) -> Any:
    """As if the follower had all records and more: a leader that believes it moves its high watermark."""
    line = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=1_000,
        last_fetched_epoch=-1,
        log_start_offset=0,
        partition_max_bytes=1 << 20,
    )
    return fetch.FetchRequest(
        replica_state=fetch.ReplicaState(replica_id=replica_id, replica_epoch=broker_epoch),
        max_wait=ms(0),
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=(fetch.FetchTopic(topic_id=target.topic_id(ORDERS), partitions=(line,)),),
        forgotten_topics_data=(),
        rack_id="",
    )


def isr_change(target: Target, broker_epoch: int, leader: int) -> Any:
    """Removes all followers from the ISR."""
    line = {
        "partition_index": 0,
        "leader_epoch": 0,
        "new_isr_with_epochs": ({"broker_id": leader, "broker_epoch": broker_epoch},),
        "leader_recovery_state": 0,
        "partition_epoch": 0,
    }
    topics = ({"topic_id": target.topic_id(ORDERS), "partitions": (line,)},)
    return request_of("alter_partition", broker_id=leader, broker_epoch=broker_epoch, topics=topics)


def wrapped(request: Any, principal: str = "User:admin") -> Any:
    return envelope.EnvelopeRequest(
        request_data=codec.encode_request(request, 0, NODE_ID),
        request_principal=encode_principal(principal),
        client_host_address=bytes((127, 0, 0, 1)),
    )


@pytest.mark.parametrize("listener", ["CLIENTS", "NODES", "CONTROLLER"])
def test_a_user_cannot_pose_as_a_node(target: Target, listener: str) -> None:
    """Neither a node's client id, nor a replica id with its broker epoch, nor the listeners of nodes help."""
    leader = target.cluster.leader_of(ORDERS)
    follower = next(node for node in target.cluster.nodes if node != leader)
    asked = get_replica_log_info.TopicPartitions(topic_id=target.topic_id(ORDERS), partitions=(0,))
    epochs = {
        node: target.as_admin(
            get_replica_log_info.GetReplicaLogInfoRequest(topic_partitions=(asked,)), node
        ).broker_epoch
        for node in (leader, follower)
    }
    before = target.state()
    controller = before[0][0]
    requests = [body_of(case, target) for case in NODE_CASES]
    requests += [
        replica_fetch(target, epochs[follower], follower),
        isr_change(target, epochs[leader], leader),
        request_of(
            "broker_heartbeat",
            broker_id=follower,
            broker_epoch=epochs[follower],
            current_metadata_offset=1,
            want_fence=True,
            want_shut_down=True,
        ),
        wrapped(acl_creation("User:mallory")),
        wrapped(wrapped(acl_creation("User:mallory"))),
        wrapped(isr_change(target, epochs[leader], leader), "User:nodes"),
    ]
    for node in {leader, controller}:
        with target.as_mallory(listener, node) as mallory:
            for request in requests:
                assert all_errors(mallory.ask(request)) & REFUSALS, type(request).__name__
    assert target.state() == before


def test_an_envelope_has_only_what_brokers_forward(target: Target) -> None:
    """Even of a super user: an envelope must not become a way around the checks of its content."""
    before = target.state()
    for inner in (wrapped(acl_creation("User:mallory")), isr_change(target, 1, 1), quorum_vote()):
        answer = target.as_admin(wrapped(inner), before[0][0])
        assert answer.error_code is ErrorCode.invalid_request
    denied = target.as_admin(wrapped(acl_creation("User:mallory"), "User:mallory"), before[0][0])
    assert denied.error_code is ErrorCode.none
    inner = codec.decode_response(bytes(denied.response_data), create_acls.CreateAclsRequest)[1]
    assert inner.results[0].error_code is ErrorCode.cluster_authorization_failed
    assert target.state() == before


def quorum_vote() -> Any:
    return request_of("vote", cluster_id=None, voter_id=-1, topics=())


# --- what is logged ---------------------------------------------------------------------------------------------------


def test_text_from_outside_does_not_forge_lines_of_the_log(target: Target) -> None:
    forged = "x\nevent=forged \x1b[2J\u2028event=forged"
    with (
        Connection(target.cluster.nodes[1].port, target.tls(), client_id=forged) as connection,
        pytest.raises(PermissionError),
    ):
        connection.log_in(forged, "wrong")
    with target.log_in("mallory", client_id=forged) as mallory:
        mallory.ask(metadata_request(forged))
        mallory.ask(acl_creation(forged))
    with target.log_in("admin", client_id=forged) as admin:
        for kind in (ResourceType.TOPIC, ResourceType.GROUP):
            assert all_errors(admin.ask(acl_creation(f"User:{forged}", forged, kind))) == {ErrorCode.none}
    shown = {acl.principal for resource in target.state()[4] for acl in resource.acls}
    assert f"User:{forged}" in shown
    target.as_admin(request_of("delete_acls", filters=(acl_filter(f"User:{forged}"),)))
    for node in target.cluster.nodes.values():
        text = node.log.read_bytes().decode()
        assert not [line for line in text.splitlines() if line.startswith("event=forged") or "\x1b" in line]
    assert "event=authorization_denied principal=User:mallory" in target.cluster.log_of(1).read_text()


# --- what is shown ----------------------------------------------------------------------------------------------------


def named_requests(name: str) -> Iterator[Any]:
    """Requests that would tell something about this topic."""
    yield metadata_request(name)
    yield request_of("describe_topic_partitions", topics=({"name": name},), response_partition_limit=100, cursor=None)
    for replica_id in (-1, -2, 2):
        yield offsets_request(name, replica_id)
        line = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
        yield request_of(
            "offset_for_leader_epoch", replica_id=replica_id, topics=({"topic": name, "partitions": (line,)},)
        )
    yield request_of("describe_producers", topics=({"name": name, "partition_indexes": (0,)},))
    line = {"partition_index": 0, "offset": 0}
    yield request_of("delete_records", timeout=ms(1_000), topics=({"name": name, "partitions": (line,)},))
    resource = {"resource_type": 2, "resource_name": name, "configuration_keys": None}
    yield request_of("describe_configs", resources=(resource,), include_synonyms=True, include_documentation=False)
    wanted = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    yield request_of("create_topics", topics=(wanted,), timeout=ms(1_000), validate_only=True)
    more = {"name": name, "count": 9, "assignments": None}
    yield request_of("create_partitions", topics=(more,), timeout=ms(1_000), validate_only=True)
    yield request_of("delete_topics", topics=({"name": name, "topic_id": None},), timeout=ms(1_000))


def test_a_topic_that_may_not_be_described_looks_like_one_that_is_missing(target: Target) -> None:
    before = target.state()
    for node in target.cluster.nodes:
        with target.log_in("mallory", node) as mallory:
            for hidden, missing in zip(named_requests(HIDDEN), named_requests("absent"), strict=True):
                shown, expected = mallory.ask(hidden), mallory.ask(missing)
                assert repr(shown) == repr(expected).replace("absent", HIDDEN)
                assert all_errors(shown) & REFUSALS
            assert mallory.ask(metadata_request()).topics == ()
            groups = mallory.ask(request_of("list_groups", states_filter=(), types_filter=())).groups
            assert groups == ()
    assert target.state() == before
    assert 'insync_authorization_denied_total{operation="DESCRIBE",resource_type="TOPIC"}' in metrics_of(target, 1)


def old_request(api: str, version: int, body: dict[str, Any]) -> Any:
    return build_request(codec.request_type(APIS[api].key, version), body)


def old_produce(version: int, names: tuple[str, ...], acks: int = -1) -> Any:
    records = bytes(batch.build([batch.NewRecord(key=None, value=b"v")], timestamp_ms=1_700_000_000_000))
    topics = tuple({"name": name, "partition_data": ({"index": 0, "records": records},)} for name in names)
    body = {"transactional_id": None, "acks": acks, "timeout": ms(1_000), "topic_data": topics}
    return old_request("produce", version, body)


def old_fetch(version: int, names: tuple[str, ...], replica_id: int = -1, session_id: int = 0) -> Any:
    line = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "last_fetched_epoch": -1}
    line |= {"log_start_offset": -1, "partition_max_bytes": 1_000}
    topics = tuple({"topic": name, "partitions": (line,)} for name in names)
    body = {"replica_id": replica_id, "max_wait": ms(0), "min_bytes": 1, "max_bytes": 1_000, "isolation_level": 0}
    body |= {"session_id": session_id, "session_epoch": 5 if session_id else -1, "topics": topics, "rack_id": ""}
    return old_request("fetch", version, body | {"forgotten_topics_data": (), "cluster_id": None})


def test_versions_that_name_topics_do_not_show_which_exist(target: Target) -> None:
    """A3: the translator refuses names that do not exist before the node sees the request."""
    pairs = [((HIDDEN,), ("absent",)), (("other", HIDDEN), ("other", "absent")), ((HIDDEN, "x"), ("absent", "x"))]
    with target.log_in("mallory") as mallory:
        for hidden, absent in pairs:
            for version in (3, 6, 12):
                shown, expected = (mallory.ask(old_produce(version, names)) for names in (hidden, absent))
                assert repr(shown) == repr(expected).replace("absent", HIDDEN), version
            for version in (4, 7, 12):
                for replica_id, session_id in ((-1, 0), (2, 0), (-1, 77), (2, 77)):
                    requests = (old_fetch(version, names, replica_id, session_id) for names in (hidden, absent))
                    shown, expected = (mallory.ask(request) for request in requests)
                    assert repr(shown) == repr(expected).replace("absent", HIDDEN), (version, replica_id, session_id)
    for name in (HIDDEN, "absent"):
        with target.log_in("mallory") as mallory:
            mallory.send(old_produce(12, (name,), acks=0))
            assert mallory.is_closed(), name


def metrics_of(target: Target, node: int) -> str:
    address = f"http://127.0.0.1:{target.cluster.nodes[node].metrics_port}/metrics"
    with urllib.request.urlopen(address, timeout=TIMEOUT_S) as page:
        return str(page.read().decode())


def test_secrets_are_not_shown(target: Target) -> None:
    hidden = [*SECRETS.values(), target.admin_password, "PRIVATE KEY", "ScramLoginModule"]
    resource = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
    request = request_of("describe_configs", resources=(resource,), include_synonyms=True, include_documentation=True)
    with target.log_in("mallory") as mallory:
        refused = mallory.ask(request).results[0]
        assert (refused.error_code, refused.configs) == (ErrorCode.cluster_authorization_failed, ())
        state = {**resource, "configuration_keys": (STATE_KEY,)}
        assert mallory.ask(replace(request, resources=build_resources(state))).results[0].configs == ()
    texts = {"configs": repr(target.as_admin(request))}
    for node in target.cluster.nodes.values():
        texts[f"log of {node.id}"] = node.log.read_text()
        texts[f"metrics of {node.id}"] = metrics_of(target, node.id)
    for where, text in texts.items():
        assert not [secret for secret in hidden if secret in text], where


def build_resources(resource: dict[str, Any]) -> Any:
    return request_of(
        "describe_configs", resources=(resource,), include_synonyms=False, include_documentation=False
    ).resources


def test_files_with_keys_are_their_owners_only(target: Target) -> None:
    public = {"ca.pem"}
    files = [path for path in target.directory.rglob("*") if path.is_file() and path.name not in public]
    files += target.directory.parent.rglob("bootstrap.checkpoint")
    assert len(files) > len(target.cluster.nodes)
    assert not [path for path in files if path.stat().st_mode & 0o077]
    private = [target.directory]
    for node in target.cluster.nodes.values():
        private += [node.directory, node.directory / "data" / METADATA_DIRECTORY]
    assert not [path for path in private if path.stat().st_mode & 0o077]


# --- quotas -----------------------------------------------------------------------------------------------------------


def set_quota(target: Target, user: str, bytes_per_second: float, *, remove: bool = False) -> None:
    change = {"key": "producer_byte_rate", "value": bytes_per_second, "remove": remove}
    entry = {"entity": ({"entity_type": "user", "entity_name": user},), "ops": (change,)}
    answer = target.as_admin(request_of("alter_client_quotas", entries=(entry,), validate_only=False))
    assert all_errors(answer) == {ErrorCode.none}


def test_a_quota_is_not_escaped_by_other_client_ids_and_connections(target: Target) -> None:
    """A9: nor by the client id of a node. Others are served meanwhile."""
    leader, topic_id = target.cluster.leader_of(ORDERS), target.topic_id(ORDERS)

    def throttled_ms(client_id: str) -> int:
        with target.log_in("alice", leader, client_id) as alice:
            return millis(alice.ask(produce_request(topic_id)).throttle_time)

    set_quota(target, "alice", 1.0)
    try:
        eventually(lambda: throttled_ms("first") > 0, "the quota is applied")
        assert all(throttled_ms(client_id) > 0 for client_id in ("second", "", "insync-node-2"))
        assert target.as_admin(brokers_request(), leader).error_code is ErrorCode.none
    finally:
        set_quota(target, "alice", 0.0, remove=True)
    eventually(lambda: throttled_ms("first") == 0, "the quota is removed")
