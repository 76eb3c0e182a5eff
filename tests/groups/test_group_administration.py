"""ListGroups, DescribeGroups, DeleteGroups, and coordinators that moved or are still loading."""

from __future__ import annotations

from insync.sansio import Client
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import delete_groups
from tests.groups.group_harness import GroupHarness


def test_groups_are_listed_with_their_state() -> None:
    harness = GroupHarness()
    harness.stable(1)
    harness.committed(1, group="offsets-only")
    groups = {g.group_id: (g.group_state, g.protocol_type, g.group_type) for g in harness.list_groups().groups}
    assert groups == {"g": ("Stable", "consumer", "classic"), "offsets-only": ("Empty", "", "classic")}


def test_lists_are_filtered() -> None:
    harness = GroupHarness()
    harness.stable(1)
    harness.committed(1, group="offsets-only")
    assert [group.group_id for group in harness.list_groups(states=("stable",)).groups] == ["g"]
    assert [group.group_id for group in harness.list_groups(types=("Classic",), states=("Empty",)).groups] == [
        "offsets-only"
    ]
    assert harness.list_groups(types=("consumer",)).groups == ()


def test_members_are_described() -> None:
    harness = GroupHarness()
    ids, _ = harness.stable(2, client=Client("app", "/10.0.0.1", 9))
    group = harness.describe()
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    assert {m.member_id: m.member_assignment for m in group.members} == {member: member.encode() for member in ids}
    assert {(m.client_id, m.client_host, m.member_metadata) for m in group.members} == {("app", "/10.0.0.1", b"r")}


def test_a_rebalancing_group_is_described_without_assignments() -> None:
    harness = GroupHarness()
    harness.stable(1)
    harness.enter()
    group = harness.describe()
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert all(m.member_assignment == b"" for m in group.members)


def test_a_missing_group_is_described_as_dead_and_since_version_6_with_an_error() -> None:
    old = GroupHarness().describe("missing", client=Client("app", "/10.0.0.1", 5))
    assert (old.error_code, old.group_state, old.members) == (ErrorCode.none, "Dead", ())
    new = GroupHarness().describe("missing", client=Client("app", "/10.0.0.1", 6))
    assert (new.error_code, new.error_message) == (ErrorCode.group_id_not_found, "Group missing not found.")
    assert new.group_state == "Dead"


def test_only_empty_groups_are_deleted() -> None:
    harness = GroupHarness()
    harness.stable(1)
    harness.committed(1, group="offsets-only")
    assert harness.delete("g", "offsets-only", "missing", "") == {
        "g": "non_empty_group",
        "offsets-only": "none",
        "missing": "group_id_not_found",
        "": "group_id_not_found",
    }
    assert list(harness.groups) == ["g"]
    assert list(harness.reloaded().groups) == ["g"]


def test_offsets_without_a_group_name_can_be_deleted_too() -> None:
    harness = GroupHarness()
    harness.committed(1, group="")
    assert list(harness.groups) == [""]
    assert harness.delete("") == {"": "none"}
    assert not harness.groups


def test_authorized_operations_are_described_on_request() -> None:
    """Without an authorizer these are all operations: Kafka's bits of read, delete, describe, and configs."""
    harness = GroupHarness()
    harness.stable(1)
    assert harness.describe().authorized_operations == -(2**31)
    assert harness.describe(operations=True).authorized_operations == 0b1101_0100_1000


def test_a_group_that_is_being_deleted_admits_no_member() -> None:
    harness = GroupHarness()
    harness.committed(1)
    harness.log.hold()
    harness.coordinator.delete(delete_groups.DeleteGroupsRequest(groups_names=("g",)), 99, harness.now)
    assert harness.answers[harness.join()].error_code is ErrorCode.coordinator_not_available
    assert harness.committed(2) == "coordinator_not_available"
    assert harness.fetched() == -1
    harness.release(ErrorCode.not_enough_replicas)
    assert harness.answers[99].results[0].error_code is ErrorCode.coordinator_not_available
    assert harness.fetched() == 1
    assert harness.delete("g") == {"g": "none"}
    assert harness.answers[harness.join()].error_code is ErrorCode.member_id_required


def test_a_deletion_that_timed_out_still_takes_effect_when_its_tombstones_commit() -> None:
    """G2: the group stays Dead meanwhile, so it accepts no commit that a new coordinator would not load."""
    harness = GroupHarness()
    harness.committed(1)
    harness.log.hold()
    harness.coordinator.delete(delete_groups.DeleteGroupsRequest(groups_names=("g",)), 99, harness.now)
    harness.log.time_out(harness.now)
    harness.drain()
    assert harness.answers[99].results[0].error_code is ErrorCode.coordinator_not_available
    assert harness.committed(2) == "coordinator_not_available"
    harness.log.commit_late(harness.now)
    assert harness.coordinator.shards[0].groups == {}
    assert harness.fetched() == harness.reloaded().fetched() == -1


def test_a_pending_commit_is_deleted_with_its_group() -> None:
    harness = GroupHarness()
    harness.committed(1, topic="u")
    harness.log.hold()
    harness.commit(1)
    harness.coordinator.delete(delete_groups.DeleteGroupsRequest(groups_names=("g",)), 99, harness.now)
    harness.release()
    assert harness.answers[99].results[0].error_code is ErrorCode.none
    assert not harness.groups
    assert not harness.reloaded().groups


def test_waiting_members_are_answered_when_the_coordinator_moves() -> None:
    harness = GroupHarness()
    ids, generation = harness.stable(2)
    _, third = harness.enter()
    again = harness.join(ids[0])
    harness.coordinator.unload(0)
    harness.drain()
    assert harness.answers[third].error_code is ErrorCode.not_coordinator
    assert harness.answers[again].error_code is ErrorCode.not_coordinator
    assert harness.heartbeat(ids[1], generation) == "not_coordinator"
    assert harness.coordinator.next_deadline() is None


def test_a_commit_refused_after_the_coordinator_moved_is_answered() -> None:
    harness = GroupHarness()
    harness.log.hold()
    token = harness.commit(1)
    harness.coordinator.unload(0)
    harness.release(ErrorCode.not_leader_or_follower)
    assert harness.commit_error(token) == "not_coordinator"


def test_an_assignment_stored_after_the_coordinator_moved_is_not_delivered() -> None:
    harness = GroupHarness()
    member, token = harness.enter()
    harness.advance(6_000)
    harness.log.hold()
    sync = harness.sync(member, harness.answers[token].generation_id, {member: b"1"})
    harness.coordinator.unload(0)
    harness.release()
    assert harness.answers[sync].error_code is ErrorCode.not_coordinator


def test_groups_that_are_being_loaded_are_not_served_yet() -> None:
    harness = GroupHarness()
    ids, generation = harness.stable(1)
    harness.coordinator.unload(0)
    harness.coordinator.begin_load(0, epoch=0)
    assert harness.answers[harness.join()].error_code is ErrorCode.coordinator_load_in_progress
    assert harness.committed(1) == "coordinator_load_in_progress"
    assert harness.fetch_group("g", None).error_code is ErrorCode.coordinator_load_in_progress
    assert harness.list_groups().error_code is ErrorCode.coordinator_load_in_progress
    assert harness.describe().error_code is ErrorCode.coordinator_load_in_progress
    assert harness.delete("g") == {"g": "coordinator_load_in_progress"}
    assert harness.heartbeat(ids[0], generation) == "none", "members stay"
    assert harness.answers[harness.sync(ids[0], generation)].error_code is ErrorCode.rebalance_in_progress
    assert harness.leave((ids[0], None)).error_code is ErrorCode.coordinator_load_in_progress


def test_unreadable_records_do_not_stop_a_coordinator() -> None:
    harness = GroupHarness()
    harness.committed(5)
    bad = [batch.NewRecord(b"\x00\x01x", b""), batch.NewRecord(None, b"y"), batch.NewRecord(b"\x00\x09", b"")]
    harness.log.batches.append(bytes(batch.build(bad, timestamp_ms=0)))
    harness = harness.reloaded()
    harness.drain()
    assert harness.fetched() == 5
    assert "group_record_unreadable" in [note.kind for note in harness.notes]
