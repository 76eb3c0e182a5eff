"""Static members: known by their instance id, across restarts of their process."""

from __future__ import annotations

from typing import Any

from group_world import DELAY, SESSION, World

from insync.sansio import Client
from insync.wire.errors import ErrorCode


def pair(world: World, **fields: Any) -> tuple[dict[str, str], int]:
    """Instances "a" (the leader) and "b" in a stable group: member ids by instance, and the generation."""
    tokens = {instance: world.join(instance=instance, **fields) for instance in "ab"}
    world.advance(2 * DELAY)
    ids = {instance: world.answers[token].member_id for instance, token in tokens.items()}
    assert world.answers[tokens["a"]].leader == ids["a"]
    world.sync(ids["b"], 1, instance="b")
    world.sync(ids["a"], 1, {ids["a"]: b"A", ids["b"]: b"B"}, instance="a")
    return ids, 1


def rejoin(world: World, instance: str, **fields: Any) -> Any:
    return world.answers[world.join(instance=instance, **fields)]


def test_static_members_join_without_being_given_an_id_first() -> None:
    world = World()
    token = world.join(instance="a")
    world.advance(DELAY)
    assert world.answers[token].error_code is ErrorCode.none
    assert world.answers[token].member_id.startswith("a-")


def test_a_restarted_static_member_takes_its_place_without_a_rebalance() -> None:
    world = World()
    ids, generation = pair(world)
    answer = rejoin(world, "b")
    assert answer.generation_id == generation
    assert answer.member_id != ids["b"]
    assert world.answers[world.sync(answer.member_id, generation, instance="b")].assignment == b"B"
    assert world.heartbeat(ids["a"], generation, "a") == "none"


def test_its_predecessor_is_fenced() -> None:
    world = World()
    ids, generation = pair(world)
    rejoin(world, "b")
    assert world.heartbeat(ids["b"], generation, "b") == "fenced_instance_id"
    assert world.answers[world.sync(ids["b"], generation, instance="b")].error_code is ErrorCode.fenced_instance_id
    assert world.committed(1, member_id=ids["b"], generation=generation, instance="b") == "fenced_instance_id"
    assert world.answers[world.join(ids["b"], instance="b")].error_code is ErrorCode.fenced_instance_id
    assert world.leave((ids["b"], "b")).members[0].error_code is ErrorCode.fenced_instance_id


def test_a_restarted_leader_is_told_that_its_assignment_stands() -> None:
    world = World()
    _, generation = pair(world)
    answer = rejoin(world, "a", client=Client(version=9))
    assert answer.skip_assignment
    assert answer.leader == answer.member_id
    assert len(answer.members) == 2
    assert answer.generation_id == generation


def test_an_older_client_does_not_learn_that_it_leads() -> None:
    world = World()
    ids, generation = pair(world)
    answer = rejoin(world, "a", client=Client(version=8))
    assert (answer.leader, answer.members, answer.skip_assignment) == (ids["a"], (), False)
    assert answer.generation_id == generation


def test_the_new_member_id_is_stored_before_it_is_told() -> None:
    world = World()
    _, generation = pair(world)
    world.log.hold()
    token = world.join(instance="b")
    assert token not in world.answers
    world.release()
    new = world.answers[token].member_id
    assert world.reloaded().heartbeat(new, generation, "b") == "none"


def test_a_failure_to_store_it_is_told() -> None:
    world = World()
    pair(world)
    world.log.error = ErrorCode.request_timed_out
    assert rejoin(world, "b").error_code is ErrorCode.coordinator_not_available


def test_another_protocol_of_a_restarted_member_starts_a_rebalance() -> None:
    world = World()
    tokens = [world.join(instance=i, protocols=(("range", b""), ("sticky", b""))) for i in "ab"]
    world.advance(2 * DELAY)
    a, b = (world.answers[token].member_id for token in tokens)
    world.sync(b, 1, instance="b")
    world.sync(a, 1, {a: b"A", b: b"B"}, instance="a")
    token = world.join(instance="b", protocols=(("sticky", b""),))
    assert token not in world.answers
    assert world.groups["g"].state == "PreparingRebalance"


def test_a_static_member_that_is_away_keeps_its_place_through_a_rebalance() -> None:
    world = World()
    half = SESSION // 2
    ids, generation = pair(world, rebalance=half)
    again = world.join(ids["a"], instance="a", rebalance=half)
    world.advance(half)
    assert world.answers[again].generation_id == generation + 1
    assert {m.group_instance_id for m in world.answers[again].members} == {"a", "b"}
    world.sync(ids["a"], generation + 1, {ids["a"]: b"A", ids["b"]: b"B"}, instance="a")
    assert world.heartbeat(ids["a"], generation + 1, "a") == "none"
    back = rejoin(world, "b", rebalance=half)
    assert world.answers[world.sync(back.member_id, generation + 1, instance="b")].assignment == b"B"


def test_an_administrator_removes_members_by_instance_id() -> None:
    world = World()
    pair(world)
    answer = world.leave(("", "b"), ("", "nobody"))
    assert [line.error_code.name for line in answer.members] == ["none", "unknown_member_id"]
    assert list(world.groups["g"].static_members) == ["a"]


def test_two_processes_of_one_instance_cannot_both_wait() -> None:
    world = World()
    first = world.join(instance="a")
    second = world.join(instance="a")
    world.advance(2 * DELAY)
    assert world.answers[first].error_code is ErrorCode.fenced_instance_id
    assert world.answers[second].generation_id == 1
    assert len(world.answers[second].members) == 1


def test_a_takeover_during_the_assignment_starts_another_rebalance() -> None:
    world = World()
    tokens = [world.join(instance=i) for i in "ab"]
    world.advance(2 * DELAY)
    a, b = (world.answers[token].member_id for token in tokens)
    waiting = world.sync(b, 1, instance="b")
    world.join(instance="b")
    assert world.answers[waiting].error_code is ErrorCode.fenced_instance_id
    assert world.answers[world.sync(a, 1, {a: b"A"}, instance="a")].error_code is ErrorCode.rebalance_in_progress
