"""Who may pose as a node, when ACLs count, and what is written of refusals (A4 to A7)."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from insync.client.request_builder import build_request
from insync.metadata.changes import Changes
from insync.metadata.image import Image
from insync.node import access as access_module
from insync.node.access import Access, AccessControl
from insync.node.config import AuthorizerConfig
from insync.sansio import UNKNOWN_CLIENT, Client, HangUp, Note, Outbox
from insync.security.acl import CLUSTER_NAME, Acl, Operation, Permission, ResourceType
from insync.wire import codec
from insync.wire.apis import APIS
from insync.wire.errors import ErrorCode
from insync.wire.forwarded_client import encode_principal
from insync.wire.messages import (
    create_acls,
    delete_acls,
    envelope,
    fetch,
    get_replica_log_info,
    offset_for_leader_epoch,
)
from insync.wire.types import ms
from tests.acl_filters import EVERY_ACL
from tests.authorization_cases import CASES, ORDERS, SECRET, Case
from tests.node.node_harness import Net, config, create_request, fetch_request, metadata_request, produce_request
from tests.node.test_authorization import REFUSALS, all_errors

FROM_OUTSIDE = Client(id="c", host="/10.0.0.1", listener="PLAINTEXT", on_node_listener=False)
FROM_NODE = replace(FROM_OUTSIDE, listener="PLAINTEXT", on_node_listener=True)
ALICE = replace(FROM_OUTSIDE, principal="User:alice")
ADMIN = replace(FROM_OUTSIDE, principal="User:admin")
UUIDS = [UUID(int=number) for number in range(1, 4)]
NODE_CASES = [case for case in CASES if case.between_nodes]


def secured(**fields: Any) -> Any:
    return config(1, authorizer=AuthorizerConfig(super_users=("User:admin",)), **fields)


def allow(
    operation: Operation,
    name: str,
    kind: ResourceType = ResourceType.TOPIC,
    principal: str = ALICE.principal,
    permission: Permission = Permission.ALLOW,
) -> Acl:
    return Acl(resource_type=kind, resource_name=name, principal=principal, operation=operation, permission=permission)


def create(net: Net, *acls: Acl, node_id: int = 1) -> None:
    """Through the controller and the metadata log."""
    creations = tuple(create_acls.AclCreation(**acl.creation_fields()) for acl in acls)
    answer = net.answered(node_id, create_acls.CreateAclsRequest(creations=creations))
    assert all_errors(answer) <= {"none"}
    net.advance(1_000)


def remove_all(net: Net) -> None:
    every = delete_acls.DeleteAclsFilter(**EVERY_ACL)
    net.answered(1, delete_acls.DeleteAclsRequest(filters=(every,)))
    net.advance(1_000)


def request_of(case: Case, net: Net) -> Any:
    api = APIS[case.api]
    is_ours = case.api == "get_replica_log_info"
    cls = get_replica_log_info.GetReplicaLogInfoRequest if is_ours else codec.request_type(api.key, api.pinned)
    return build_request(cls, case.body(net.nodes[1].image.topic_ids))


# --- posing as a node (A4) --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unsecured() -> Net:
    net = Net(config(1)).up()
    net.create(ORDERS)
    net.create(SECRET)
    return net


@pytest.mark.parametrize("case", NODE_CASES, ids=lambda case: case.name)
def test_a_client_cannot_pose_as_a_node(unsecured: Net, case: Case) -> None:
    """A4: without an authorizer what counts is the listener, not what a request says of its sender."""
    request = request_of(case, unsecured)
    posing = replace(FROM_OUTSIDE, id="insync-node-2")
    assert all_errors(unsecured.answered(1, request, posing)) - {"none"} <= REFUSALS
    assert all_errors(unsecured.answered(1, request, posing)) & REFUSALS


@pytest.mark.parametrize("case", NODE_CASES, ids=lambda case: case.name)
def test_a_node_is_served_on_a_listener_of_nodes(unsecured: Net, case: Case) -> None:
    """A4."""
    assert not all_errors(unsecured.answered(1, request_of(case, unsecured), FROM_NODE)) & REFUSALS
    assert not all_errors(unsecured.answered(1, request_of(case, unsecured), UNKNOWN_CLIENT)) & REFUSALS


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case.between_nodes and not case.of_transactions], ids=lambda case: case.name
)
def test_without_an_authorizer_clients_may_do_everything_else(unsecured: Net, case: Case) -> None:
    assert not all_errors(unsecured.answered(1, request_of(case, unsecured), FROM_OUTSIDE) or ()) & REFUSALS


def test_a_client_cannot_ask_for_epochs_as_a_replica(unsecured: Net) -> None:
    """A4."""
    line = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic=ORDERS, partitions=(line,))
    request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=2, topics=(topic,))
    assert all_errors(unsecured.answered(1, request, FROM_OUTSIDE)) == {"cluster_authorization_failed"}
    assert all_errors(unsecured.answered(1, request, FROM_NODE)) == {"none"}
    consumer = replace(request, replica_id=-1)
    assert all_errors(unsecured.answered(1, consumer, FROM_OUTSIDE)) == {"none"}


def test_a_client_that_fetches_as_a_replica_moves_nothing() -> None:
    """A4, F4: neither the high watermark nor the ISR."""
    voters = (1,)
    net = Net(config(1, voters=voters), config(2, voters=voters, roles=("broker",))).up()
    partition = net.create("t", (1, 2))
    net.hold = [(2, channel) for channel in ("fetch-1-0", "fetch", "replica-1-0")]
    net.cut(2)
    net.ask(1, produce_request(partition, acks=1))
    hwm = net.log("t").hwm
    request = fetch_request(partition)
    posing = replace(
        request,
        topics=(
            fetch.FetchTopic(
                topic_id=partition.topic_id,
                partitions=(replace(request.topics[0].partitions[0], fetch_offset=net.log("t").leo),),
            ),
        ),
        replica_state=fetch.ReplicaState(replica_id=2, replica_epoch=net.nodes[2].broker_epoch),
    )
    answer = net.answered(1, posing, replace(FROM_OUTSIDE, id="broker-2-fetcher-0"))
    assert all_errors(answer) == {"none", "topic_authorization_failed"}
    assert net.log("t").hwm == hwm
    net.answered(1, posing, FROM_NODE)
    assert net.log("t").hwm == hwm + 1


def fetch_in_session(request: Any, session_id: int, epoch: int, replica_id: int = -1) -> Any:
    state = fetch.ReplicaState(replica_id=replica_id, replica_epoch=-1)
    return replace(request, session_id=session_id, session_epoch=epoch, replica_state=state)


def test_a_client_can_neither_continue_nor_close_the_session_of_a_replica(unsecured: Net) -> None:
    """A4."""
    request = fetch_request(unsecured.partition(ORDERS))
    opened = unsecured.answered(1, fetch_in_session(request, 0, 0, replica_id=2), FROM_NODE)
    assert opened.session_id
    incremental = replace(request, topics=())
    continued = fetch_in_session(incremental, opened.session_id, 1, replica_id=2)
    assert unsecured.answered(1, continued, FROM_OUTSIDE).error_code is ErrorCode.fetch_session_id_not_found
    as_consumer = fetch_in_session(incremental, opened.session_id, 1)
    assert unsecured.answered(1, as_consumer, FROM_OUTSIDE).error_code is ErrorCode.fetch_session_id_not_found
    unsecured.answered(1, fetch_in_session(request, opened.session_id, -1), FROM_OUTSIDE)
    assert unsecured.answered(1, continued, FROM_NODE).error_code is ErrorCode.none


def test_a_connection_asks_whether_it_is_a_nodes() -> None:
    """A4: by its listener, or by its rights if there is an authorizer."""
    node = Net(config(1)).up().nodes[1]
    assert node.may_act_as_node(FROM_NODE)
    assert not node.may_act_as_node(replace(FROM_OUTSIDE, id="insync-node-2"))
    net = Net(secured()).up()
    node = net.nodes[1]
    assert node.may_act_as_node(UNKNOWN_CLIENT)
    assert node.may_act_as_node(ADMIN)
    assert not node.may_act_as_node(replace(FROM_NODE, id="insync-node-2"))
    create(net, allow(Operation.CLUSTER_ACTION, CLUSTER_NAME, ResourceType.CLUSTER))
    assert node.may_act_as_node(ALICE)
    assert not [note for _, note in net.notes if note.kind == "authorization_denied"]


# --- forwarded requests (A1) ------------------------------------------------------------------------------------------


def enveloped(request: Any, principal: bytes | None, host: bytes = bytes([10, 0, 0, 1])) -> envelope.EnvelopeRequest:
    data = codec.encode_request(request, 0, "app")
    return envelope.EnvelopeRequest(request_data=data, request_principal=principal, client_host_address=host)


def unpacked(answer: envelope.EnvelopeResponse, request: Any) -> Any:
    assert answer.error_code is ErrorCode.none
    assert answer.response_data is not None
    return codec.decode_response(answer.response_data, type(request))[1]


def test_the_controller_goes_by_the_principal_and_host_in_the_envelope() -> None:
    """A1."""
    net = Net(secured()).up()
    create(net, replace(allow(Operation.CREATE, "t"), host="10.0.0.1"))
    request = create_request("t")
    from_elsewhere = enveloped(request, encode_principal(ALICE.principal), bytes([10, 0, 0, 2]))
    refused = unpacked(net.answered(1, from_elsewhere, ADMIN), request)
    assert all_errors(refused) == {"topic_authorization_failed"}
    of_bob = enveloped(request, encode_principal("User:bob"))
    assert all_errors(unpacked(net.answered(1, of_bob, ADMIN), request)) == {"topic_authorization_failed"}
    created = unpacked(net.answered(1, enveloped(request, encode_principal(ALICE.principal)), ADMIN), request)
    assert all_errors(created) == {"none"}


def test_an_envelope_needs_cluster_action_whatever_principal_it_names() -> None:
    """A1, A4: a client that may send envelopes is everyone."""
    net = Net(secured()).up()
    answer = net.answered(1, enveloped(create_request("t"), encode_principal("User:admin")), ALICE)
    assert (answer.error_code.name, answer.response_data) == ("cluster_authorization_failed", None)
    assert "t" not in net.nodes[1].image.topic_ids


@pytest.mark.parametrize(
    ("principal", "host", "error"),
    [
        (b"", bytes(4), "principal_deserialization_failure"),
        (b"\0\x01\x05User\x06alice\0\0", bytes(4), "principal_deserialization_failure"),
        (encode_principal("User:admin"), b"", "invalid_request"),
        (encode_principal("User:admin"), bytes(5), "invalid_request"),
    ],
)
def test_an_envelope_whose_client_cannot_be_read_is_refused(principal: bytes, host: bytes, error: str) -> None:
    """A1."""
    net = Net(secured()).up()
    answer = net.answered(1, enveloped(create_request("t"), principal, host), ADMIN)
    assert answer.error_code.name == error


def test_a_broker_that_names_no_client_acts_for_itself() -> None:
    """A1: with the rights of the connection that the envelope came through."""
    net = Net(secured()).up()
    create(net, allow(Operation.CLUSTER_ACTION, CLUSTER_NAME, ResourceType.CLUSTER))
    request = create_request("t")
    assert all_errors(unpacked(net.answered(1, enveloped(request, None), ALICE), request)) == {
        "topic_authorization_failed"
    }
    assert all_errors(unpacked(net.answered(1, enveloped(request, None), ADMIN), request)) == {"none"}


def test_a_broker_leaves_forwarded_requests_to_the_controller() -> None:
    """A1: a broker that has not read an ACL yet does not refuse what the controller allows."""
    authorizer = AuthorizerConfig(super_users=("User:admin",))
    net = Net(config(1, authorizer=authorizer), config(2, roles=("broker",), authorizer=authorizer)).up()
    create(net, allow(Operation.CREATE, "t"))
    behind = net.nodes[2].authorizer
    assert behind is not None
    behind.clear()
    assert all_errors(net.answered(2, create_request("t"), ALICE)) == {"none"}
    assert all_errors(net.answered(2, create_request("u"), ALICE)) == {"topic_authorization_failed"}


def test_a_controller_that_is_asked_directly_checks_by_itself() -> None:
    """A1."""
    net = Net(secured(roles=("controller",))).up()
    assert all_errors(net.answered(1, create_request("t"), ALICE)) == {"topic_authorization_failed"}


# --- when ACLs count (A5, A6) -----------------------------------------------------------------------------------------


def test_before_the_acls_are_loaded_only_super_users_are_served() -> None:
    """A5: a client tries again after a hang-up, and gives up after a refusal."""
    voters = (1, 2, 3)
    authorizer = AuthorizerConfig(super_users=("User:admin",), allow_if_no_acl=True)
    net = Net(*(config(n, voters=voters, authorizer=authorizer) for n in voters))
    net.start(1)  # no quorum, no metadata
    token = net.ask(1, metadata_request(every=True), ALICE)
    assert "ACLs are not loaded" in net.hang_ups[token].reason
    assert not net.nodes[1].may_act_as_node(ALICE)
    assert net.answered(1, metadata_request(every=True), ADMIN).error_code is ErrorCode.none
    api_versions = next(case for case in CASES if case.name == "api_versions")
    assert net.answered(1, request_of(api_versions, net), ALICE).error_code is ErrorCode.none
    net.start(2, 3)
    net.advance(15_000)
    assert net.answered(1, metadata_request(every=True), ALICE).error_code is ErrorCode.none


def test_a_restarted_broker_waits_for_what_its_leader_has_committed() -> None:
    """A5: the ACLs in its own log may be old."""
    authorizer = AuthorizerConfig(super_users=("User:admin",))
    net = Net(config(1, authorizer=authorizer), config(2, roles=("broker",), authorizer=authorizer)).up()
    create(net, allow(Operation.DESCRIBE, "*"))
    assert not net.answered(2, metadata_request(every=True), ALICE).topics
    net.crash(2)
    create(net, allow(Operation.DESCRIBE, "*", permission=Permission.DENY))
    net.cut(2)
    net.start(2)
    token = net.ask(2, metadata_request("t"), ALICE)
    assert isinstance(net.hang_ups[token], HangUp)
    net.mend()
    net.advance(15_000)
    assert all_errors(net.answered(2, metadata_request("t"), ALICE)) == {"none", "topic_authorization_failed"}


def test_acls_take_effect_on_every_node_that_has_applied_them() -> None:
    """A6."""
    authorizer = AuthorizerConfig(super_users=("User:admin",))
    net = Net(config(1, authorizer=authorizer), config(2, roles=("broker",), authorizer=authorizer)).up()
    net.create("t", (1, 2))

    def may(node_id: int) -> bool:
        return all_errors(net.answered(node_id, metadata_request("t"), ALICE)) == {"none"}

    assert not may(1)
    create(net, allow(Operation.WRITE, "t"))
    assert may(1)
    assert may(2)
    create(net, allow(Operation.DESCRIBE, "t", permission=Permission.DENY))
    assert not may(1)
    assert not may(2)
    remove_all(net)
    assert not may(1)


def test_acls_are_those_of_the_snapshot_that_was_loaded() -> None:
    """A6: also the ones that it no longer has."""
    control = AccessControl(AuthorizerConfig(), Outbox(), lambda: True)
    read, write = allow(Operation.READ, "t"), allow(Operation.WRITE, "t")
    first, second = Image(), Image()
    first.acls = {UUIDS[0]: read}
    second.acls = {UUIDS[1]: write}
    control.apply(first, Changes())
    assert list(control.authorizer or ()) == [read]
    control.apply(second, Changes())
    assert list(control.authorizer or ()) == [write]
    changes = Changes()
    changes.acls = {UUIDS[1]: write, UUIDS[2]: None}
    second.acls = {UUIDS[2]: read}
    control.apply(second, changes)
    assert list(control.authorizer or ()) == [read]


def test_a_fetch_session_loses_what_its_client_may_no_longer_read() -> None:
    """A6: a session remembers partitions, and not the right to read them."""
    net = Net(secured()).up()
    partition = net.create("t")
    create(net, allow(Operation.READ, "t"))
    request = fetch_request(partition)
    opened = net.answered(1, fetch_in_session(request, 0, 0), ALICE)
    assert all_errors(opened) == {"none"}
    incremental = replace(request, topics=())
    assert net.answered(1, fetch_in_session(incremental, opened.session_id, 1), ALICE).responses == ()
    remove_all(net)
    net.answered(1, produce_request(partition), ADMIN)
    for epoch in (2, 3):
        answer = net.answered(1, fetch_in_session(incremental, opened.session_id, epoch), ALICE)
        assert all_errors(answer) == {"none", "topic_authorization_failed"}
        assert not answer.responses[0].partitions[0].records
    create(net, allow(Operation.READ, "t"))
    answer = net.answered(1, fetch_in_session(incremental, opened.session_id, 4), ALICE)
    assert answer.responses[0].partitions[0].records


def test_a_client_can_neither_continue_nor_close_the_session_of_another() -> None:
    """A4, A6: session ids can be guessed. A closed session would leave its owner's fetch waiting for nothing."""
    net = Net(secured()).up()
    partition = net.create("t")
    create(net, allow(Operation.READ, "t"))
    request = replace(fetch_request(partition), max_bytes=1 << 20)
    opened = net.answered(1, fetch_in_session(request, 0, 0), ADMIN)
    incremental = replace(request, topics=())
    waiting = net.ask(1, replace(fetch_in_session(incremental, opened.session_id, 1), max_wait=ms(60_000)), ADMIN)
    for epoch in (1, 2):
        stolen = net.answered(1, fetch_in_session(incremental, opened.session_id, epoch), ALICE)
        assert stolen.error_code is ErrorCode.fetch_session_id_not_found
    for epoch in (0, -1):
        net.answered(1, fetch_in_session(incremental, opened.session_id, epoch), ALICE)
    assert waiting not in net.answers
    net.answered(1, produce_request(partition), ADMIN)
    assert net.answers[waiting].responses[0].partitions[0].records
    assert net.answered(1, fetch_in_session(incremental, opened.session_id, 2), ADMIN).error_code is ErrorCode.none


def test_a_waiting_fetch_is_not_answered_with_records_that_may_no_longer_be_read() -> None:
    """A6."""
    net = Net(secured()).up()
    partition = net.create("t")
    create(net, allow(Operation.READ, "t"))
    token = net.ask(1, fetch_request(partition, max_wait=60_000), ALICE)
    assert token not in net.answers
    remove_all(net)
    net.answered(1, produce_request(partition), ADMIN)
    assert all_errors(net.answers[token]) == {"none", "topic_authorization_failed"}
    assert not net.answers[token].responses[0].partitions[0].records


# --- what is written (A7) ---------------------------------------------------------------------------------------------


def denials(net: Net) -> list[dict[str, Any]]:
    return [note.fields for _, note in net.notes if note.kind == "authorization_denied"]


def test_a_refusal_is_noted_with_the_rule_that_decided() -> None:
    """A7."""
    net = Net(secured()).up()
    net.answered(1, metadata_request("t\nx"), ALICE)
    denial = allow(Operation.DESCRIBE, "t", principal="User:*", permission=Permission.DENY)
    create(net, denial)
    net.answered(1, metadata_request("t"), ALICE)
    first, second = denials(net)
    assert first == {
        "principal": "User:alice",
        "host": "10.0.0.1",
        "operation": "DESCRIBE",
        "resource": "TOPIC:t\nx",
        "rule": "no ACL allows it",
        "suppressed": 0,
    }
    assert second["rule"] == str(denial)


@pytest.mark.parametrize("case", NODE_CASES, ids=lambda case: case.name)
def test_posing_as_a_node_is_noted_without_an_authorizer_too(case: Case) -> None:
    """A7, A4."""
    net = Net(config(1)).up()
    net.create(ORDERS)
    net.create(SECRET)
    net.answered(1, request_of(case, net), FROM_OUTSIDE)
    (denial,) = denials(net)
    assert (denial["principal"], denial["host"]) == ("User:ANONYMOUS", "10.0.0.1")
    assert (denial["operation"], denial["rule"]) == ("CLUSTER_ACTION", "the listener is not for nodes")


def test_a_repeated_refusal_is_noted_once_a_minute() -> None:
    """A7: with how many were not noted."""
    net = Net(secured()).up()
    for _ in range(5):
        net.answered(1, metadata_request("t"), ALICE)
    net.advance(access_module.DENIAL_INTERVAL_MS)
    net.answered(1, metadata_request("t"), ALICE)
    assert [fields["suppressed"] for fields in denials(net)] == [0, 4]
    assert net.nodes[1].access_control.denied == {(Operation.DESCRIBE, ResourceType.TOPIC): 6}


def test_many_different_refusals_do_not_flood_the_log() -> None:
    """A7."""
    net = Net(secured()).up()
    for number in range(3 * access_module.MAX_DENIALS_PER_SECOND):
        net.answered(1, metadata_request(f"t{number}"), ALICE)
    assert len(denials(net)) == access_module.MAX_DENIALS_PER_SECOND


def test_resources_that_a_client_did_not_name_are_not_noted() -> None:
    """A7: a list without them is no refusal."""
    net = Net(secured()).up()
    net.create("t")
    assert net.answered(1, metadata_request(every=True), ALICE).topics == ()
    assert denials(net) == []


def test_allowed_operations_are_noted_on_request_only() -> None:
    """A7."""
    net = Net(secured()).up()
    net.create("t")
    net.answered(1, metadata_request("t"), ADMIN)
    assert "authorization_allowed" not in net.kinds(1)
    net.nodes[1].access_control.notes_allowed = True
    net.answered(1, metadata_request("t"), ADMIN)
    net.answered(1, metadata_request("t"), ALICE)
    (note,) = [note for _, note in net.notes if note.kind == "authorization_allowed"]
    assert (note.fields["principal"], note.fields["rule"]) == ("User:admin", "super user")
    assert len(denials(net)) == 1


def test_memory_of_refusals_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A7."""
    monkeypatch.setattr(access_module, "MAX_DENIALS", 10)
    out = Outbox()
    control = AccessControl(AuthorizerConfig(), out, lambda: True)
    for number in range(100):
        Access(control, ALICE, now=1_000 * number).may_on_topic(Operation.READ, f"t{number}")
    assert len(control._denials._noted) == 10
    assert len([effect for effect in out.drain() if isinstance(effect, Note)]) == 100


def test_names_as_long_as_requests_are_not_kept() -> None:
    """A7: neither decisions nor denials fill the memory of a node."""
    out = Outbox()
    control = AccessControl(AuthorizerConfig(), out, lambda: True)
    tracemalloc.start()
    try:
        for number in range(20):
            access = Access(control, ALICE, now=1_000 * number)
            assert not access.may_on_topic(Operation.READ, f"{number}".ljust(1_000_000))
            assert len(out.drain()) == 1
        kept_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept_bytes < 2_000_000
