"""The checker of S15, on a node that is made by hand, and simulated clusters whose ACLs change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from insync.metadata.image import Image
from insync.sansio import Client, Effect, HangUp, Reply, Request
from insync.security.acl import Acl, Operation, Permission, ResourceType
from insync.sim.checks.denial_checks import DenialChecks
from insync.sim.engine.principals import NODES, STRANGER
from insync.sim.mutants.catalogue import MUTANTS, apply_mutant
from insync.sim.plans.swarm import draw_plan
from insync.sim.run import run_plan
from insync.sim.workload.requests import produce_request
from insync.wire.errors import ErrorCode
from insync.wire.messages import broker_heartbeat, fetch, produce
from insync.wire.types import NO_DURATION

TOPIC_ID, TOPIC = UUID(int=7), "orders"
ALICE, BOB = Client(principal="User:alice"), Client(principal="User:bob")
WITH_ACLS = 24
"""A seed whose plan has an authorizer and denies what a client then tries."""
REFUSED, SERVED = ErrorCode.topic_authorization_failed, ErrorCode.none


def node_that_denies(operation: Operation) -> tuple[Any, DenialChecks]:
    image = Image()
    image.topics[TOPIC_ID] = TOPIC
    image.acls[UUID(int=1)] = Acl(
        resource_type=ResourceType.TOPIC,
        resource_name=TOPIC,
        principal=ALICE.principal,
        operation=operation,
        permission=Permission.DENY,
    )
    node = SimpleNamespace(id=1, image=image, stopped=False, replicas=None, metadata_loader=SimpleNamespace(applied=10))
    checks = DenialChecks(node)
    checks.follow_acls()
    return node, checks


def produced(error: ErrorCode) -> Reply:
    partition = produce.PartitionProduceResponse(
        index=0, error_code=error, base_offset=0, log_append_time=None, log_start_offset=0, record_errors=()
    )
    topic = produce.TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=(partition,))
    return Reply(1, produce.ProduceResponse(responses=(topic,), throttle_time=NO_DURATION))


def request_of(client: Client, acks: int = -1) -> Request:
    return Request(1, produce_request((TOPIC_ID, 0), b"", acks=acks, timeout_ms=100), client)


@pytest.mark.parametrize(
    ("client", "effects", "is_wrong"),
    [
        (ALICE, [produced(REFUSED)], False),
        (ALICE, [produced(SERVED)], True),
        (ALICE, [], True),  # parked: its records are in the log
        (ALICE, [HangUp(1, "acks=0")], False),
        (ALICE, [Reply(1, None)], True),
        (BOB, [produced(SERVED)], False),
    ],
)
def test_a_produce_that_is_denied_is_refused_at_once(client: Client, effects: list[Effect], is_wrong: bool) -> None:
    """S15, A2."""
    _, checks = node_that_denies(Operation.WRITE)
    problems, was_refused = checks.after_step(request_of(client), effects)
    assert (bool(problems), was_refused) == (is_wrong, client is ALICE and not is_wrong)


def test_a_denial_that_the_node_has_not_applied_does_not_count() -> None:
    node, _ = node_that_denies(Operation.WRITE)
    unaware = DenialChecks(node)
    assert unaware.after_step(request_of(ALICE), [produced(SERVED)]) == ([], False)


@pytest.mark.parametrize("records", [b"", b"batch"])
def test_a_fetch_that_waited_gets_nothing_that_is_denied_meanwhile(records: bytes) -> None:
    """S15, A6: the fetch arrives before the denial, and is answered after it."""
    node, _ = node_that_denies(Operation.READ)
    checks = DenialChecks(node)
    asked = Request(1, fetch.FetchRequest(
        max_wait=NO_DURATION, min_bytes=1, max_bytes=1, isolation_level=0, session_id=0, session_epoch=-1, topics=(),
        forgotten_topics_data=(), rack_id="",
    ), ALICE)  # fmt: skip
    assert checks.after_step(asked, []) == ([], False)
    checks.follow_acls()
    partition = fetch.PartitionData(
        partition_index=0, error_code=ErrorCode.none, high_watermark=1, aborted_transactions=None, records=records
    )
    topic = fetch.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=(partition,))
    answer = Reply(1, fetch.FetchResponse(
        throttle_time=NO_DURATION, error_code=ErrorCode.none, session_id=0, responses=(topic,)
    ))  # fmt: skip
    problems, _ = checks.after_step(Request(2, asked.request, BOB), [answer])
    assert bool(problems) == bool(records)


def heartbeat_of(client: Client) -> Request:
    request = broker_heartbeat.BrokerHeartbeatRequest(
        broker_id=2, broker_epoch=1, current_metadata_offset=1, want_fence=True, want_shut_down=False
    )
    return Request(1, request, client)


def heartbeat_answer(error: ErrorCode) -> Reply:
    response = broker_heartbeat.BrokerHeartbeatResponse(
        throttle_time=NO_DURATION, error_code=error, is_caught_up=False, is_fenced=True, should_shut_down=False
    )
    return Reply(1, response)


@pytest.mark.parametrize(
    ("principal", "error", "is_wrong"),
    [
        ("User:alice", ErrorCode.none, True),
        ("User:alice", ErrorCode.stale_broker_epoch, True),
        ("User:alice", ErrorCode.cluster_authorization_failed, False),
        (STRANGER, ErrorCode.none, True),
        (NODES, ErrorCode.none, False),
    ],
)
def test_what_only_nodes_send_is_refused_to_others(principal: str, error: ErrorCode, is_wrong: bool) -> None:
    """S15, A4."""
    _, checks = node_that_denies(Operation.WRITE)
    problems, _ = checks.after_step(heartbeat_of(Client(principal=principal)), [heartbeat_answer(error)])
    assert bool(problems) == is_wrong


@pytest.mark.parametrize(("committed", "is_wrong"), [(10, False), (11, True)])
def test_clients_are_not_answered_before_the_acls_are_known(committed: int, is_wrong: bool) -> None:
    """S15, A5: a refusal is an answer too, and clients take it for final."""
    node, _ = node_that_denies(Operation.READ)
    checks = DenialChecks(node, committed)
    for answer in (produced(SERVED), produced(REFUSED)):
        problems, _ = checks.after_step(request_of(BOB), [answer])
        assert bool(problems) == is_wrong
    assert checks.after_step(request_of(BOB), [HangUp(1, "not loaded")]) == ([], False)


def test_acls_that_allow_a_group_are_never_without_the_one_that_denies_it() -> None:
    """S15, A8."""
    node, checks = node_that_denies(Operation.WRITE)

    def acl(permission: Permission) -> Acl:
        return Acl(
            resource_type=ResourceType.GROUP,
            resource_name="g",
            principal="User:guest",
            operation=Operation.READ,
            permission=permission,
        )

    node.image.acls[UUID(int=2)] = acl(Permission.DENY)
    node.image.acls[UUID(int=3)] = acl(Permission.ALLOW)
    assert checks.follow_acls() == []
    del node.image.acls[UUID(int=2)]
    assert checks.follow_acls() != []


def test_clusters_obey_acls_that_change_under_faults() -> None:
    """S15, A2, A6."""
    plan = draw_plan(WITH_ACLS)
    assert plan.has_authorizer
    outcome = run_plan(plan)
    assert (outcome.violation, outcome.probes["denied_by_acl"] > 0) == (None, True)


CAUGHT_BY = {
    "acls-not-followed": WITH_ACLS,
    "allow-before-deny": WITH_ACLS,
    "clients-act-as-nodes": 5,
    "session-id-proves-a-replica": WITH_ACLS,
    "acls-not-awaited": 29,
    "denials-removed-first": 5,
}
"""Mutants of the rules of authorization, and a seed that notices each."""


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_a_removed_check_of_rights_is_noticed(name: str) -> None:
    """S15, A2, A4, A5, A6, A8."""
    with apply_mutant(MUTANTS[name]):
        violation = run_plan(draw_plan(CAUGHT_BY[name])).violation
    assert violation is not None
    assert violation.property == "S15"


def test_seeds_with_an_impostor_hold_every_property() -> None:
    """A4: and the impostor was refused."""
    for seed in dict.fromkeys(CAUGHT_BY.values()):
        outcome = run_plan(draw_plan(seed))
        assert (outcome.violation, outcome.probes["impostor_refused"] > 0) == (None, True), seed
