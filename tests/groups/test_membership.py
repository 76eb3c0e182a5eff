"""SyncGroup, Heartbeat, LeaveGroup, sessions."""

from __future__ import annotations

from insync.wire.errors import ErrorCode
from tests.groups.group_harness import DELAY, REBALANCE, SESSION, GroupHarness


def joined(harness: GroupHarness, size: int = 2) -> tuple[list[str], int]:
    entered = [harness.enter() for _ in range(size)]
    harness.advance(2 * DELAY)
    leader = harness.answers[entered[0][1]].leader
    return [leader, *(member for member, _ in entered if member != leader)], 1


def error(harness: GroupHarness, token: int) -> str:
    return str(harness.answers[token].error_code.name)


def test_members_wait_for_the_leaders_assignment() -> None:
    harness = GroupHarness()
    (leader, other), generation = joined(harness)
    waiting = harness.sync(other, generation)
    assert waiting not in harness.answers
    first = harness.sync(leader, generation, {leader: b"1", other: b"2"})
    assert harness.answers[first].assignment == b"1"
    assert harness.answers[waiting].assignment == b"2"
    assert harness.answers[waiting].protocol_name == "range"


def test_no_member_gets_an_assignment_before_it_is_committed() -> None:
    harness = GroupHarness()
    (leader, other), generation = joined(harness)
    harness.log.hold()
    tokens = [harness.sync(other, generation), harness.sync(leader, generation, {leader: b"1", other: b"2"})]
    assert not any(token in harness.answers for token in tokens)
    assert harness.groups["g"].state == "CompletingRebalance"
    harness.release()
    assert [harness.answers[token].assignment for token in tokens] == [b"2", b"1"]


def test_a_leader_that_asks_twice_cannot_assign_twice() -> None:
    harness = GroupHarness()
    (leader, other), generation = joined(harness)
    harness.log.hold()
    first = harness.sync(leader, generation, {leader: b"1", other: b"2"})
    second = harness.sync(leader, generation, {leader: b"other", other: b"thing"})
    harness.release()
    assert error(harness, first) == "rebalance_in_progress"
    assert harness.answers[second].assignment == b"1"
    assert harness.reloaded().describe().members[0].member_assignment == b"1"


def test_an_assignment_that_cannot_be_stored_starts_the_next_rebalance() -> None:
    harness = GroupHarness()
    (leader, other), generation = joined(harness)
    harness.log.error = ErrorCode.not_enough_replicas
    tokens = [harness.sync(other, generation), harness.sync(leader, generation, {leader: b"1"})]
    assert [error(harness, token) for token in tokens] == ["coordinator_not_available"] * 2
    assert harness.groups["g"].state == "PreparingRebalance"


def test_an_assignment_stored_after_its_generation_is_not_delivered() -> None:
    """A new member joined while it was being stored: the generation it was made for is over."""
    harness = GroupHarness()
    (leader, other), generation = joined(harness)
    harness.log.hold()
    tokens = [harness.sync(other, generation), harness.sync(leader, generation, {leader: b"1", other: b"2"})]
    harness.enter()
    assert [error(harness, token) for token in tokens] == ["rebalance_in_progress"] * 2
    harness.release()
    assert harness.groups["g"].state == "PreparingRebalance"
    assert all(not member.assignment for member in harness.groups["g"].members.values())


def test_an_assignment_stored_too_late_is_not_delivered_in_the_next_generation() -> None:
    harness = GroupHarness()
    (leader, other), generation = joined(harness)
    harness.log.hold()
    harness.sync(leader, generation, {leader: b"1", other: b"2"})
    third, _ = harness.enter()
    for member in (leader, other):
        harness.join(member)
    waiting = harness.sync(third, generation + 1)
    harness.release()
    assert waiting not in harness.answers
    assert harness.groups["g"].state == "CompletingRebalance"


def test_members_without_an_assignment_get_an_empty_one() -> None:
    harness = GroupHarness()
    (leader, other), generation = joined(harness)
    waiting = harness.sync(other, generation)
    harness.sync(leader, generation, {leader: b"1"})
    assert harness.answers[waiting].assignment == b""


def test_a_stable_group_repeats_assignments_on_request() -> None:
    harness = GroupHarness()
    ids, generation = harness.stable(2)
    assert harness.answers[harness.sync(ids[1], generation)].assignment == ids[1].encode()


def test_requests_of_other_generations_are_refused() -> None:
    """G3: and nothing of theirs is written."""
    harness = GroupHarness()
    ids, generation = harness.stable(2)
    assert error(harness, harness.sync(ids[1], generation - 1)) == "illegal_generation"
    assert harness.heartbeat(ids[1], generation + 1) == "illegal_generation"
    assert harness.committed(1, member_id=ids[1], generation=generation - 1) == "illegal_generation"
    assert harness.fetched() == harness.reloaded().fetched() == -1


def test_requests_of_unknown_members_are_refused() -> None:
    harness = GroupHarness()
    _, generation = harness.stable(1)
    assert error(harness, harness.sync("x", generation)) == "unknown_member_id"
    assert harness.heartbeat("x", generation) == "unknown_member_id"
    assert harness.heartbeat("x", generation, group="missing") == "unknown_member_id"
    assert error(harness, harness.sync("x", generation, group="missing")) == "unknown_member_id"
    assert harness.leave(("x", None)).members[0].error_code is ErrorCode.unknown_member_id


def test_a_sync_for_another_protocol_is_refused() -> None:
    harness = GroupHarness()
    ids, generation = harness.stable(1)
    assert error(harness, harness.sync(ids[0], generation, protocol_name="sticky")) == "inconsistent_group_protocol"
    assert error(harness, harness.sync(ids[0], generation, protocol_type="connect")) == "inconsistent_group_protocol"
    assert error(harness, harness.sync(ids[0], generation, protocol_type="consumer", protocol_name="range")) == "none"


def test_a_sync_during_a_rebalance_is_answered_rebalance_in_progress() -> None:
    harness = GroupHarness()
    ids, generation = harness.stable(2)
    harness.enter()
    assert error(harness, harness.sync(ids[0], generation)) == "rebalance_in_progress"


def test_a_silent_member_is_removed_at_its_session_timeout() -> None:
    harness = GroupHarness()
    ids, generation = harness.stable(2)
    harness.advance(SESSION - 1)
    assert harness.heartbeat(ids[0], generation) == "none"
    harness.advance(2)
    assert harness.heartbeat(ids[0], generation) == "rebalance_in_progress"
    assert list(harness.groups["g"].members) == [ids[0]]


def test_a_commit_extends_the_session() -> None:
    harness = GroupHarness()
    ids, generation = harness.stable(1)
    for n in range(4):
        harness.advance(SESSION // 2)
        assert harness.committed(n, member_id=ids[0], generation=generation) == "none"


def test_members_that_wait_for_an_answer_need_not_heartbeat() -> None:
    harness = GroupHarness()
    ids, generation = harness.stable(2)
    _, third = harness.enter()
    again = harness.join(ids[1])
    harness.advance(SESSION * 2)
    assert harness.answers[third].generation_id == harness.answers[again].generation_id == generation + 1
    assert ids[0] not in harness.groups["g"].members  # it neither joined nor sent a heartbeat


def test_a_member_that_never_asks_for_its_assignment_is_removed() -> None:
    harness = GroupHarness()
    (leader, other), generation = joined(harness)
    harness.sync(leader, generation, {leader: b"1", other: b"2"})
    for _ in range(REBALANCE // 5_000):
        harness.advance(5_000)
        harness.heartbeat(other, generation)
        harness.heartbeat(leader, generation)
    assert list(harness.groups["g"].members) == [leader]
    assert harness.groups["g"].state == "PreparingRebalance"


def test_the_last_member_leaves_an_empty_group() -> None:
    harness = GroupHarness()
    ids, generation = harness.stable(1)
    assert harness.leave((ids[0], None)).members[0].error_code is ErrorCode.none
    assert harness.groups["g"].state == "Empty"
    assert harness.groups["g"].generation == generation + 1
    assert harness.reloaded().groups["g"].generation == generation + 1


def test_members_that_leave_together_cause_one_rebalance() -> None:
    harness = GroupHarness()
    ids, generation = harness.stable(3)
    answer = harness.leave((ids[1], None), (ids[2], None), ("x", None))
    assert [member.error_code.name for member in answer.members] == ["none", "none", "unknown_member_id"]
    token = harness.join(ids[0])
    assert harness.answers[token].generation_id == generation + 1
    assert len(harness.answers[token].members) == 1


def test_a_member_that_leaves_before_it_joined_is_not_waited_for() -> None:
    harness = GroupHarness()
    ids, generation = harness.stable(1)
    given = harness.answers[harness.join()].member_id
    again = harness.join(ids[0])
    harness.leave((given, None))
    assert harness.answers[again].generation_id == generation + 1


def test_a_new_member_that_vanishes_before_its_first_generation_is_removed() -> None:
    harness = GroupHarness(new_member_join_timeout_ms=20_000)
    ids, generation = harness.stable(1)
    _, gone = harness.enter()
    for _ in range(5):
        harness.advance(5_000)
        harness.heartbeat(ids[0], generation)
    assert harness.answers[gone].error_code is ErrorCode.unknown_member_id
