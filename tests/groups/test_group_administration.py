"""ListGroups, DescribeGroups, DeleteGroups, and coordinators that are not there (yet)."""

from __future__ import annotations

from group_world import World

from insync.sansio import Client
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import delete_groups


def test_groups_are_listed_with_their_state() -> None:
    world = World()
    world.stable(1)
    world.committed(1, group="offsets-only")
    found = {each.group_id: (each.group_state, each.protocol_type, each.group_type) for each in world.list().groups}
    assert found == {"g": ("Stable", "consumer", "classic"), "offsets-only": ("Empty", "", "classic")}


def test_lists_are_filtered() -> None:
    world = World()
    world.stable(1)
    world.committed(1, group="offsets-only")
    assert [each.group_id for each in world.list(states=("stable",)).groups] == ["g"]
    assert [each.group_id for each in world.list(types=("Classic",), states=("Empty",)).groups] == ["offsets-only"]
    assert world.list(types=("consumer",)).groups == ()


def test_members_are_described() -> None:
    world = World()
    ids, _ = world.stable(2, client=Client("app", "/10.0.0.1", 9))
    found = world.describe()
    assert (found.group_state, found.protocol_type, found.protocol_data) == ("Stable", "consumer", "range")
    assert {m.member_id: m.member_assignment for m in found.members} == {each: each.encode() for each in ids}
    assert {(m.client_id, m.client_host, m.member_metadata) for m in found.members} == {("app", "/10.0.0.1", b"r")}


def test_a_group_between_generations_has_no_assignments_to_show() -> None:
    world = World()
    world.stable(1)
    world.enter()
    found = world.describe()
    assert (found.group_state, found.protocol_data) == ("PreparingRebalance", "")
    assert all(m.member_assignment == b"" for m in found.members)


def test_a_group_that_is_not_there_is_dead_and_since_version_6_an_error() -> None:
    old = World().describe("nobody", client=Client("app", "/10.0.0.1", 5))
    assert (old.error_code, old.group_state, old.members) == (ErrorCode.none, "Dead", ())
    new = World().describe("nobody", client=Client("app", "/10.0.0.1", 6))
    assert (new.error_code, new.error_message) == (ErrorCode.group_id_not_found, "Group nobody not found.")
    assert new.group_state == "Dead"


def test_only_empty_groups_are_deleted() -> None:
    world = World()
    world.stable(1)
    world.committed(1, group="offsets-only")
    assert world.delete("g", "offsets-only", "nobody", "") == {
        "g": "non_empty_group",
        "offsets-only": "none",
        "nobody": "group_id_not_found",
        "": "group_id_not_found",
    }
    assert list(world.groups) == ["g"]
    assert list(world.reloaded().groups) == ["g"]


def test_offsets_without_a_group_name_can_be_deleted_too() -> None:
    world = World()
    world.committed(1, group="")
    assert list(world.groups) == [""]
    assert world.delete("") == {"": "none"}
    assert not world.groups


def test_what_may_be_done_with_a_group_is_told_to_whoever_asks() -> None:
    """Without an authorizer, all that can be done: Kafka's bits of read, delete, describe, and configs."""
    world = World()
    world.stable(1)
    assert world.describe().authorized_operations == -(2**31)
    assert world.describe(operations=True).authorized_operations == 0b1101_0100_1000


def test_a_group_that_is_being_deleted_takes_nobody_in() -> None:
    world = World()
    world.committed(1)
    world.log.hold()
    world.coordinator.delete(delete_groups.DeleteGroupsRequest(groups_names=("g",)), 99, world.now)
    assert world.answers[world.join()].error_code is ErrorCode.coordinator_not_available
    assert world.committed(2) == "coordinator_not_available"
    assert world.fetched() == -1
    world.release(ErrorCode.not_enough_replicas)
    assert world.answers[99].results[0].error_code is ErrorCode.coordinator_not_available
    assert world.fetched() == 1
    assert world.delete("g") == {"g": "none"}
    assert world.answers[world.join()].error_code is ErrorCode.member_id_required


def test_a_deletion_that_timed_out_still_takes_effect_when_its_tombstones_commit() -> None:
    """G2: the group stays Dead meanwhile, so nothing is committed to it that a new coordinator would not load."""
    world = World()
    world.committed(1)
    world.log.hold()
    world.coordinator.delete(delete_groups.DeleteGroupsRequest(groups_names=("g",)), 99, world.now)
    world.log.time_out(world.now)
    world.drain()
    assert world.answers[99].results[0].error_code is ErrorCode.coordinator_not_available
    assert world.committed(2) == "coordinator_not_available"
    world.log.commit_late(world.now)
    assert world.coordinator.shards[0].groups == {}
    assert world.fetched() == world.reloaded().fetched() == -1


def test_a_commit_on_its_way_goes_with_its_group() -> None:
    world = World()
    world.committed(1, topic="u")
    world.log.hold()
    world.commit(1)
    world.coordinator.delete(delete_groups.DeleteGroupsRequest(groups_names=("g",)), 99, world.now)
    world.release()
    assert world.answers[99].results[0].error_code is ErrorCode.none
    assert not world.groups
    assert not world.reloaded().groups


def test_who_waits_hears_when_the_coordinator_moves() -> None:
    world = World()
    ids, generation = world.stable(2)
    _, third = world.enter()
    again = world.join(ids[0])
    world.coordinator.unload(0)
    world.drain()
    assert world.answers[third].error_code is ErrorCode.not_coordinator
    assert world.answers[again].error_code is ErrorCode.not_coordinator
    assert world.heartbeat(ids[1], generation) == "not_coordinator"
    assert world.coordinator.next_deadline() is None


def test_a_commit_decided_after_the_coordinator_moved_is_answered() -> None:
    world = World()
    world.log.hold()
    token = world.commit(1)
    world.coordinator.unload(0)
    world.release(ErrorCode.not_leader_or_follower)
    assert world.commit_error(token) == "not_coordinator"


def test_an_assignment_decided_after_the_coordinator_moved_moves_nobody() -> None:
    world = World()
    member, token = world.enter()
    world.advance(6_000)
    world.log.hold()
    sync = world.sync(member, world.answers[token].generation_id, {member: b"1"})
    world.coordinator.unload(0)
    world.release()
    assert world.answers[sync].error_code is ErrorCode.not_coordinator


def test_groups_that_are_being_loaded_are_not_served_yet() -> None:
    world = World()
    ids, generation = world.stable(1)
    world.coordinator.unload(0)
    world.coordinator.begin_load(0, epoch=0)
    assert world.answers[world.join()].error_code is ErrorCode.coordinator_load_in_progress
    assert world.committed(1) == "coordinator_load_in_progress"
    assert world.fetch_group("g", None).error_code is ErrorCode.coordinator_load_in_progress
    assert world.list().error_code is ErrorCode.coordinator_load_in_progress
    assert world.describe().error_code is ErrorCode.coordinator_load_in_progress
    assert world.delete("g") == {"g": "coordinator_load_in_progress"}
    assert world.heartbeat(ids[0], generation) == "none", "a member is not to leave because of it"
    assert world.answers[world.sync(ids[0], generation)].error_code is ErrorCode.rebalance_in_progress
    assert world.leave((ids[0], None)).error_code is ErrorCode.coordinator_load_in_progress


def test_records_that_make_no_sense_do_not_stop_a_coordinator() -> None:
    world = World()
    world.committed(5)
    bad = [batch.NewRecord(b"\x00\x01x", b""), batch.NewRecord(None, b"y"), batch.NewRecord(b"\x00\x09", b"")]
    world.log.batches.append(bytes(batch.build(bad, timestamp_ms=0)))
    world = world.reloaded()
    world.drain()
    assert world.fetched() == 5
    assert "group_record_unreadable" in [note.kind for note in world.notes]
