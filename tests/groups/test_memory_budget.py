"""The memory for groups and members is limited, whatever clients send."""

from __future__ import annotations

from insync.groups import memory_budget, timers
from insync.groups.timers import Timers
from insync.sansio import Client
from insync.wire.errors import ErrorCode
from tests.groups.group_harness import DELAY, SESSION, GroupHarness

ROOM = 100_000


def used(harness: GroupHarness) -> int:
    return harness.coordinator._memory.used


def test_groups_that_are_never_joined_are_forgotten_with_their_member_ids() -> None:
    """W21: a client that asks for a member id and never comes back."""
    harness = GroupHarness()
    for at in range(100):
        harness.join(group=f"g{at}")
    assert len(harness.groups) == 100
    harness.advance(SESSION + 1)
    assert (len(harness.groups), used(harness)) == (0, 0)
    assert not harness.log.batches, "a group that was never stored needs no tombstone"


def test_a_refused_join_leaves_no_group_behind() -> None:
    harness = GroupHarness()
    refused = harness.answers[harness.join(protocols=())]
    assert refused.error_code is ErrorCode.inconsistent_group_protocol
    assert not harness.groups


def test_a_commit_of_nothing_leaves_no_group_behind() -> None:
    harness = GroupHarness()
    assert harness.committed(1, topic="nowhere") == "unknown_topic_or_partition"
    assert not harness.groups


def test_a_commit_that_could_not_be_stored_leaves_no_group_behind() -> None:
    harness = GroupHarness()
    harness.log.hold()
    harness.commit(1)
    harness.release(ErrorCode.not_enough_replicas)
    assert not harness.groups


def test_new_members_are_refused_when_the_budget_is_used_up() -> None:
    harness = GroupHarness(groups_max_bytes=ROOM)
    errors = [harness.answers[harness.join(group=f"g{at}")].error_code for at in range(200)]
    assert errors.count(ErrorCode.member_id_required) == len(harness.groups) < 100
    assert errors[-1] is ErrorCode.group_max_size_reached
    assert used(harness) <= ROOM
    assert [harness.committed(1, group=name) for name in "abc"][-1] == "coordinator_not_available"


def test_the_metadata_of_members_counts() -> None:
    harness = GroupHarness(groups_max_bytes=ROOM)
    client = Client("app", "/10.0.0.1", 3)  # a version that joins without a member id
    tokens = [harness.join(client=client, protocols=(("range", bytes(10_000)),)) for _ in range(20)]
    refused = [token for token in tokens if token in harness.answers]
    assert {harness.answers[token].error_code for token in refused} == {ErrorCode.group_max_size_reached}
    assert len(harness.groups["g"].members) == 20 - len(refused) < 10
    assert used(harness) <= ROOM


def test_existing_groups_continue_when_the_budget_is_used_up() -> None:
    harness = GroupHarness(groups_max_bytes=ROOM)
    (leader, other), generation = harness.stable()
    for at in range(200):
        harness.join(group=f"g{at}")
    again = [harness.join(member, protocols=(("range", b"new"),)) for member in (leader, other)]
    harness.advance(DELAY)
    assert {harness.answers[token].error_code for token in again} == {ErrorCode.none}
    token = harness.sync(leader, generation + 1, {leader: bytes(1_000), other: bytes(1_000)})
    assert harness.answers[token].error_code is ErrorCode.none


def test_assignments_count() -> None:
    harness = GroupHarness(groups_max_bytes=ROOM)
    (leader, other), generation = harness.stable()
    before = used(harness)
    again = [harness.join(member, protocols=(("range", b"new"),)) for member in (leader, other)]
    harness.advance(DELAY)
    assert again[0] in harness.answers
    token = harness.sync(leader, generation + 1, {leader: bytes(3 * ROOM)})
    assert harness.answers[token].error_code is ErrorCode.coordinator_not_available
    harness.sync(leader, generation + 1, {leader: bytes(1_000)})
    assert 0 < used(harness) - before < 1_000


def test_memory_is_released() -> None:
    harness = GroupHarness()
    (leader, other), _ = harness.stable()
    assert used(harness) > memory_budget.GROUP_BYTES + 2 * memory_budget.MEMBER_BYTES
    harness.leave((leader, None), (other, None))
    assert used(harness) < memory_budget.GROUP_BYTES + 100
    assert harness.delete("g") == {"g": "none"}
    assert used(harness) == 0


def test_unloading_groups_releases_their_memory() -> None:
    harness = GroupHarness()
    harness.stable()
    loaded = harness.reloaded()
    assert used(loaded) > memory_budget.GROUP_BYTES
    loaded.coordinator.unload(0)
    assert used(loaded) == 0


def test_cancelled_timers_do_not_pile_up() -> None:
    """A heap keeps what is far away; thousands of members that come and go would stay in it for their session."""
    clock = Timers()
    rang: list[int] = []
    kept = clock.create(rang.append)
    kept.set(1_000)
    for _ in range(10_000):
        timer = clock.create(rang.append)
        timer.set(500_000)
        timer.cancel()
    assert len(clock) <= 2 * timers.MIN_SWEEP_SIZE
    timer.set(2_000)  # a timer that was swept out can be set again
    clock.run(1_000)
    clock.run(2_000)
    assert rang == [1_000, 2_000]


def test_nothing_remains_of_clients_that_vanish() -> None:
    """Members, assigned member ids, generations, assignments and commits all end at some time."""
    harness = GroupHarness(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)
    for number in range(20):
        group = f"g{number}"
        harness.join(group=group)  # never comes back with its id
        harness.enter(group=group)  # waits for a generation, and is gone when that begins
        harness.join(group=group, instance="static")
        harness.commit(number, group=f"offsets-only-{number}")
    harness.advance(10 * 60_000)
    assert harness.groups == {}
    assert harness.coordinator._memory.used == 0
    assert len(harness.coordinator._timers) <= 2 * timers.MIN_SWEEP_SIZE
    assert harness.reloaded().groups == {}
    assert sorted(harness.answers) == list(range(1, harness.tokens + 1)), "a request without an answer"
