"""Whatever clients make up about groups and members, a coordinator remembers only so much of it."""

from __future__ import annotations

from group_world import DELAY, SESSION, World

from insync.groups import memory_budget, timers
from insync.groups.timers import Timers
from insync.sansio import Client
from insync.wire.errors import ErrorCode

ROOM = 100_000


def used(world: World) -> int:
    return world.coordinator._memory.used


def test_groups_that_nobody_joins_are_forgotten_with_the_member_ids_given_out() -> None:
    """W21: a client that asks for a member id and never comes back."""
    world = World()
    for at in range(100):
        world.join(group=f"g{at}")
    assert len(world.groups) == 100
    world.advance(SESSION + 1)
    assert (len(world.groups), used(world)) == (0, 0)
    assert not world.log.batches, "what was never stored needs no tombstone"


def test_a_refused_join_leaves_no_group_behind() -> None:
    world = World()
    refused = world.answers[world.join(protocols=())]
    assert refused.error_code is ErrorCode.inconsistent_group_protocol
    assert not world.groups


def test_a_commit_of_nothing_leaves_no_group_behind() -> None:
    world = World()
    assert world.committed(1, topic="nowhere") == "unknown_topic_or_partition"
    assert not world.groups


def test_a_commit_that_could_not_be_stored_leaves_no_group_behind() -> None:
    world = World()
    world.log.hold()
    world.commit(1)
    world.release(ErrorCode.not_enough_replicas)
    assert not world.groups


def test_newcomers_are_refused_when_there_is_no_room() -> None:
    world = World(groups_max_bytes=ROOM)
    errors = [world.answers[world.join(group=f"g{at}")].error_code for at in range(200)]
    assert errors.count(ErrorCode.member_id_required) == len(world.groups) < 100
    assert errors[-1] is ErrorCode.group_max_size_reached
    assert used(world) <= ROOM
    assert [world.committed(1, group=name) for name in "abc"][-1] == "coordinator_not_available"


def test_what_members_say_of_themselves_takes_room() -> None:
    world = World(groups_max_bytes=ROOM)
    client = Client("app", "/10.0.0.1", 3)  # of the versions that join at once
    tokens = [world.join(client=client, protocols=(("range", bytes(10_000)),)) for _ in range(20)]
    refused = [token for token in tokens if token in world.answers]
    assert {world.answers[token].error_code for token in refused} == {ErrorCode.group_max_size_reached}
    assert len(world.groups["g"].members) == 20 - len(refused) < 10
    assert used(world) <= ROOM


def test_groups_that_exist_go_on_when_there_is_no_room() -> None:
    world = World(groups_max_bytes=ROOM)
    (leader, other), generation = world.stable()
    for at in range(200):
        world.join(group=f"g{at}")
    again = [world.join(member, protocols=(("range", b"new"),)) for member in (leader, other)]
    world.advance(DELAY)
    assert {world.answers[token].error_code for token in again} == {ErrorCode.none}
    token = world.sync(leader, generation + 1, {leader: bytes(1_000), other: bytes(1_000)})
    assert world.answers[token].error_code is ErrorCode.none


def test_assignments_take_room() -> None:
    world = World(groups_max_bytes=ROOM)
    (leader, other), generation = world.stable()
    before = used(world)
    again = [world.join(member, protocols=(("range", b"new"),)) for member in (leader, other)]
    world.advance(DELAY)
    assert again[0] in world.answers
    token = world.sync(leader, generation + 1, {leader: bytes(3 * ROOM)})
    assert world.answers[token].error_code is ErrorCode.coordinator_not_available
    world.sync(leader, generation + 1, {leader: bytes(1_000)})
    assert 0 < used(world) - before < 1_000


def test_room_is_given_back() -> None:
    world = World()
    (leader, other), _ = world.stable()
    assert used(world) > memory_budget.GROUP_BYTES + 2 * memory_budget.MEMBER_BYTES
    world.leave((leader, None), (other, None))
    assert used(world) < memory_budget.GROUP_BYTES + 100
    assert world.delete("g") == {"g": "none"}
    assert used(world) == 0


def test_a_coordinator_that_lets_go_of_its_groups_has_its_room_back() -> None:
    world = World()
    world.stable()
    loaded = world.reloaded()
    assert used(loaded) > memory_budget.GROUP_BYTES
    loaded.coordinator.unload(0)
    assert used(loaded) == 0


def test_alarms_that_were_cancelled_do_not_pile_up() -> None:
    """A heap keeps what is far away; thousands of members that come and go would stay in it for their session."""
    clock = Timers()
    rang: list[int] = []
    kept = clock.create(rang.append)
    kept.set(1_000)
    for _ in range(10_000):
        alarm = clock.create(rang.append)
        alarm.set(500_000)
        alarm.cancel()
    assert len(clock) <= 2 * timers.MIN_SWEEP_SIZE
    alarm.set(2_000)  # one that was swept out can be set again
    clock.run(1_000)
    clock.run(2_000)
    assert rang == [1_000, 2_000]


def test_nothing_stays_of_clients_that_vanish() -> None:
    """Members, ids that were given out, generations, assignments, commits: all of it has an end of its own."""
    world = World(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)
    for number in range(20):
        group = f"g{number}"
        world.join(group=group)  # never comes back with its id
        world.enter(group=group)  # waits for a generation, and is gone when it comes
        world.join(group=group, instance="static")
        world.commit(number, group=f"offsets-only-{number}")
    world.advance(10 * 60_000)
    assert world.groups == {}
    assert world.coordinator._memory.used == 0
    assert len(world.coordinator._timers) <= 2 * timers.MIN_SWEEP_SIZE
    assert world.reloaded().groups == {}
    assert sorted(world.answers) == list(range(1, world.tokens + 1)), "a request without an answer"
