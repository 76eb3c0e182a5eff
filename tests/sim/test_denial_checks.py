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
from insync.sim.mutants.catalogue import MUTANTS, apply_mutant
from insync.sim.plans.swarm import draw_plan
from insync.sim.run import run_plan
from insync.sim.workload.requests import produce_request
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch, produce
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
    node = SimpleNamespace(id=1, image=image, stopped=False)
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


def test_clusters_obey_acls_that_change_under_faults() -> None:
    """S15, A2, A6: and a removed safeguard is noticed."""
    plan = draw_plan(WITH_ACLS)
    assert plan.has_authorizer
    outcome = run_plan(plan)
    assert (outcome.violation, outcome.probes["denied_by_acl"] > 0) == (None, True)
    for name in ("acls-not-followed", "allow-before-deny"):
        with apply_mutant(MUTANTS[name]):
            violation = run_plan(plan).violation
        assert violation is not None
        assert violation.property == "S15"
