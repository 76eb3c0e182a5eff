"""SyncGroup, Heartbeat, LeaveGroup, sessions."""

from __future__ import annotations

from group_world import DELAY, REBALANCE, SESSION, World

from insync.wire.errors import ErrorCode


def joined(world: World, size: int = 2) -> tuple[list[str], int]:
    entered = [world.enter() for _ in range(size)]
    world.advance(2 * DELAY)
    leader = world.answers[entered[0][1]].leader
    return [leader, *(member for member, _ in entered if member != leader)], 1


def error(world: World, token: int) -> str:
    return str(world.answers[token].error_code.name)


def test_members_wait_for_the_leaders_assignment() -> None:
    world = World()
    (leader, other), generation = joined(world)
    waiting = world.sync(other, generation)
    assert waiting not in world.answers
    first = world.sync(leader, generation, {leader: b"1", other: b"2"})
    assert world.answers[first].assignment == b"1"
    assert world.answers[waiting].assignment == b"2"
    assert world.answers[waiting].protocol_name == "range"


def test_nobody_hears_of_an_assignment_before_it_is_committed() -> None:
    world = World()
    (leader, other), generation = joined(world)
    world.log.hold()
    tokens = [world.sync(other, generation), world.sync(leader, generation, {leader: b"1", other: b"2"})]
    assert not any(token in world.answers for token in tokens)
    assert world.groups["g"].state == "CompletingRebalance"
    world.release()
    assert [world.answers[token].assignment for token in tokens] == [b"2", b"1"]


def test_a_leader_that_asks_twice_cannot_assign_twice() -> None:
    world = World()
    (leader, other), generation = joined(world)
    world.log.hold()
    first = world.sync(leader, generation, {leader: b"1", other: b"2"})
    second = world.sync(leader, generation, {leader: b"other", other: b"thing"})
    world.release()
    assert error(world, first) == "rebalance_in_progress"
    assert world.answers[second].assignment == b"1"
    assert world.reloaded().describe().members[0].member_assignment == b"1"


def test_an_assignment_that_cannot_be_stored_starts_the_next_rebalance() -> None:
    world = World()
    (leader, other), generation = joined(world)
    world.log.error = ErrorCode.not_enough_replicas
    tokens = [world.sync(other, generation), world.sync(leader, generation, {leader: b"1"})]
    assert [error(world, token) for token in tokens] == ["coordinator_not_available"] * 2
    assert world.groups["g"].state == "PreparingRebalance"


def test_an_assignment_stored_too_late_is_nobodys() -> None:
    """A new member came while it was on its way: the generation it was made for is over."""
    world = World()
    (leader, other), generation = joined(world)
    world.log.hold()
    tokens = [world.sync(other, generation), world.sync(leader, generation, {leader: b"1", other: b"2"})]
    world.enter()
    assert [error(world, token) for token in tokens] == ["rebalance_in_progress"] * 2
    world.release()
    assert world.groups["g"].state == "PreparingRebalance"
    assert all(not member.assignment for member in world.groups["g"].members.values())


def test_an_assignment_stored_too_late_is_not_the_next_generations_either() -> None:
    world = World()
    (leader, other), generation = joined(world)
    world.log.hold()
    world.sync(leader, generation, {leader: b"1", other: b"2"})
    third, _ = world.enter()
    for member in (leader, other):
        world.join(member)
    waiting = world.sync(third, generation + 1)
    world.release()
    assert waiting not in world.answers
    assert world.groups["g"].state == "CompletingRebalance"


def test_members_without_an_assignment_get_an_empty_one() -> None:
    world = World()
    (leader, other), generation = joined(world)
    waiting = world.sync(other, generation)
    world.sync(leader, generation, {leader: b"1"})
    assert world.answers[waiting].assignment == b""


def test_a_stable_group_tells_assignments_again() -> None:
    world = World()
    ids, generation = world.stable(2)
    assert world.answers[world.sync(ids[1], generation)].assignment == ids[1].encode()


def test_other_generations_are_not_heard() -> None:
    """G3: and nothing of theirs is written."""
    world = World()
    ids, generation = world.stable(2)
    assert error(world, world.sync(ids[1], generation - 1)) == "illegal_generation"
    assert world.heartbeat(ids[1], generation + 1) == "illegal_generation"
    assert world.committed(1, member_id=ids[1], generation=generation - 1) == "illegal_generation"
    assert world.fetched() == world.reloaded().fetched() == -1


def test_strangers_are_not_heard() -> None:
    world = World()
    _, generation = world.stable(1)
    assert error(world, world.sync("x", generation)) == "unknown_member_id"
    assert world.heartbeat("x", generation) == "unknown_member_id"
    assert world.heartbeat("x", generation, group="nobody") == "unknown_member_id"
    assert error(world, world.sync("x", generation, group="nobody")) == "unknown_member_id"
    assert world.leave(("x", None)).members[0].error_code is ErrorCode.unknown_member_id


def test_a_sync_for_another_protocol_is_refused() -> None:
    world = World()
    ids, generation = world.stable(1)
    assert error(world, world.sync(ids[0], generation, protocol_name="sticky")) == "inconsistent_group_protocol"
    assert error(world, world.sync(ids[0], generation, protocol_type="connect")) == "inconsistent_group_protocol"
    assert error(world, world.sync(ids[0], generation, protocol_type="consumer", protocol_name="range")) == "none"


def test_a_sync_during_a_rebalance_is_sent_to_join() -> None:
    world = World()
    ids, generation = world.stable(2)
    world.enter()
    assert error(world, world.sync(ids[0], generation)) == "rebalance_in_progress"


def test_a_member_that_falls_silent_is_out_after_its_session() -> None:
    world = World()
    ids, generation = world.stable(2)
    world.advance(SESSION - 1)
    assert world.heartbeat(ids[0], generation) == "none"
    world.advance(2)
    assert world.heartbeat(ids[0], generation) == "rebalance_in_progress"
    assert list(world.groups["g"].members) == [ids[0]]


def test_a_commit_counts_as_a_sign_of_life() -> None:
    world = World()
    ids, generation = world.stable(1)
    for n in range(4):
        world.advance(SESSION // 2)
        assert world.committed(n, member_id=ids[0], generation=generation) == "none"


def test_members_that_wait_for_an_answer_need_not_heartbeat() -> None:
    world = World()
    ids, generation = world.stable(2)
    _, third = world.enter()
    again = world.join(ids[1])
    world.advance(SESSION * 2)
    assert world.answers[third].generation_id == world.answers[again].generation_id == generation + 1
    assert ids[0] not in world.groups["g"].members  # it neither joined nor spoke


def test_a_member_that_never_asks_for_its_assignment_is_out() -> None:
    world = World()
    (leader, other), generation = joined(world)
    world.sync(leader, generation, {leader: b"1", other: b"2"})
    for _ in range(REBALANCE // 5_000):
        world.advance(5_000)
        world.heartbeat(other, generation)
        world.heartbeat(leader, generation)
    assert list(world.groups["g"].members) == [leader]
    assert world.groups["g"].state == "PreparingRebalance"


def test_the_last_member_leaves_an_empty_group() -> None:
    world = World()
    ids, generation = world.stable(1)
    assert world.leave((ids[0], None)).members[0].error_code is ErrorCode.none
    assert world.groups["g"].state == "Empty"
    assert world.groups["g"].generation == generation + 1
    assert world.reloaded().groups["g"].generation == generation + 1


def test_members_that_leave_together_cost_one_rebalance() -> None:
    world = World()
    ids, generation = world.stable(3)
    answer = world.leave((ids[1], None), (ids[2], None), ("x", None))
    assert [line.error_code.name for line in answer.members] == ["none", "none", "unknown_member_id"]
    token = world.join(ids[0])
    assert world.answers[token].generation_id == generation + 1
    assert len(world.answers[token].members) == 1


def test_a_member_that_leaves_before_it_joined_is_not_waited_for() -> None:
    world = World()
    ids, generation = world.stable(1)
    given = world.answers[world.join()].member_id
    again = world.join(ids[0])
    world.leave((given, None))
    assert world.answers[again].generation_id == generation + 1


def test_a_new_member_that_vanishes_before_its_first_generation_is_given_up() -> None:
    world = World(new_member_join_timeout_ms=20_000)
    ids, generation = world.stable(1)
    _, gone = world.enter()
    for _ in range(5):
        world.advance(5_000)
        world.heartbeat(ids[0], generation)
    assert world.answers[gone].error_code is ErrorCode.unknown_member_id
