"""Static members: known by their instance id, across restarts of their process."""

from __future__ import annotations

from typing import Any

from insync.sansio import Client
from insync.wire.errors import ErrorCode
from tests.groups.group_harness import DELAY, SESSION, GroupHarness


def pair(harness: GroupHarness, **fields: Any) -> tuple[dict[str, str], int]:
    """A stable group of instances "a" (the leader) and "b"; returns member ids by instance, and the generation."""
    tokens = {instance: harness.join(instance=instance, **fields) for instance in "ab"}
    harness.advance(2 * DELAY)
    ids = {instance: harness.answers[token].member_id for instance, token in tokens.items()}
    assert harness.answers[tokens["a"]].leader == ids["a"]
    harness.sync(ids["b"], 1, instance="b")
    harness.sync(ids["a"], 1, {ids["a"]: b"A", ids["b"]: b"B"}, instance="a")
    return ids, 1


def rejoin(harness: GroupHarness, instance: str, **fields: Any) -> Any:
    return harness.answers[harness.join(instance=instance, **fields)]


def test_static_members_join_without_a_member_id() -> None:
    harness = GroupHarness()
    token = harness.join(instance="a")
    harness.advance(DELAY)
    assert harness.answers[token].error_code is ErrorCode.none
    assert harness.answers[token].member_id.startswith("a-")


def test_a_restarted_static_member_takes_its_place_without_a_rebalance() -> None:
    harness = GroupHarness()
    ids, generation = pair(harness)
    answer = rejoin(harness, "b")
    assert answer.generation_id == generation
    assert answer.member_id != ids["b"]
    assert harness.answers[harness.sync(answer.member_id, generation, instance="b")].assignment == b"B"
    assert harness.heartbeat(ids["a"], generation, "a") == "none"


def test_the_predecessor_of_a_restarted_static_member_is_fenced() -> None:
    harness = GroupHarness()
    ids, generation = pair(harness)
    rejoin(harness, "b")
    assert harness.heartbeat(ids["b"], generation, "b") == "fenced_instance_id"
    assert harness.answers[harness.sync(ids["b"], generation, instance="b")].error_code is ErrorCode.fenced_instance_id
    assert harness.committed(1, member_id=ids["b"], generation=generation, instance="b") == "fenced_instance_id"
    assert harness.answers[harness.join(ids["b"], instance="b")].error_code is ErrorCode.fenced_instance_id
    assert harness.leave((ids["b"], "b")).members[0].error_code is ErrorCode.fenced_instance_id


def test_a_restarted_leader_is_asked_to_skip_the_assignment() -> None:
    harness = GroupHarness()
    _, generation = pair(harness)
    answer = rejoin(harness, "a", client=Client(version=9))
    assert answer.skip_assignment
    assert answer.leader == answer.member_id
    assert len(answer.members) == 2
    assert answer.generation_id == generation


def test_an_older_client_does_not_learn_that_it_leads() -> None:
    harness = GroupHarness()
    ids, generation = pair(harness)
    answer = rejoin(harness, "a", client=Client(version=8))
    assert (answer.leader, answer.members, answer.skip_assignment) == (ids["a"], (), False)
    assert answer.generation_id == generation


def test_the_new_member_id_is_stored_before_it_is_answered() -> None:
    harness = GroupHarness()
    _, generation = pair(harness)
    harness.log.hold()
    token = harness.join(instance="b")
    assert token not in harness.answers
    harness.release()
    new = harness.answers[token].member_id
    assert harness.reloaded().heartbeat(new, generation, "b") == "none"


def test_a_failure_to_store_the_new_member_id_is_answered() -> None:
    harness = GroupHarness()
    pair(harness)
    harness.log.error = ErrorCode.request_timed_out
    assert rejoin(harness, "b").error_code is ErrorCode.coordinator_not_available


def test_another_protocol_of_a_restarted_member_starts_a_rebalance() -> None:
    harness = GroupHarness()
    tokens = [harness.join(instance=i, protocols=(("range", b""), ("sticky", b""))) for i in "ab"]
    harness.advance(2 * DELAY)
    a, b = (harness.answers[token].member_id for token in tokens)
    harness.sync(b, 1, instance="b")
    harness.sync(a, 1, {a: b"A", b: b"B"}, instance="a")
    token = harness.join(instance="b", protocols=(("sticky", b""),))
    assert token not in harness.answers
    assert harness.groups["g"].state == "PreparingRebalance"


def test_a_static_member_that_is_away_keeps_its_place_through_a_rebalance() -> None:
    harness = GroupHarness()
    half = SESSION // 2
    ids, generation = pair(harness, rebalance=half)
    again = harness.join(ids["a"], instance="a", rebalance=half)
    harness.advance(half)
    assert harness.answers[again].generation_id == generation + 1
    assert {m.group_instance_id for m in harness.answers[again].members} == {"a", "b"}
    harness.sync(ids["a"], generation + 1, {ids["a"]: b"A", ids["b"]: b"B"}, instance="a")
    assert harness.heartbeat(ids["a"], generation + 1, "a") == "none"
    back = rejoin(harness, "b", rebalance=half)
    assert harness.answers[harness.sync(back.member_id, generation + 1, instance="b")].assignment == b"B"


def test_an_admin_client_removes_members_by_instance_id() -> None:
    harness = GroupHarness()
    pair(harness)
    answer = harness.leave(("", "b"), ("", "missing"))
    assert [member.error_code.name for member in answer.members] == ["none", "unknown_member_id"]
    assert list(harness.groups["g"].static_members) == ["a"]


def test_two_processes_of_one_instance_cannot_both_wait() -> None:
    harness = GroupHarness()
    first = harness.join(instance="a")
    second = harness.join(instance="a")
    harness.advance(2 * DELAY)
    assert harness.answers[first].error_code is ErrorCode.fenced_instance_id
    assert harness.answers[second].generation_id == 1
    assert len(harness.answers[second].members) == 1


def test_a_takeover_during_the_assignment_starts_another_rebalance() -> None:
    harness = GroupHarness()
    tokens = [harness.join(instance=i) for i in "ab"]
    harness.advance(2 * DELAY)
    a, b = (harness.answers[token].member_id for token in tokens)
    waiting = harness.sync(b, 1, instance="b")
    harness.join(instance="b")
    assert harness.answers[waiting].error_code is ErrorCode.fenced_instance_id
    assert harness.answers[harness.sync(a, 1, {a: b"A"}, instance="a")].error_code is ErrorCode.rebalance_in_progress
