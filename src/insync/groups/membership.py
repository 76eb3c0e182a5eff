"""SyncGroup, Heartbeat and LeaveGroup: what members of a generation do."""

from __future__ import annotations

from insync.groups import answers, rebalancing
from insync.groups.group import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, Group
from insync.groups.shard import Shard
from insync.wire.errors import ErrorCode
from insync.wire.messages import heartbeat as heartbeat_messages
from insync.wire.messages import leave_group, sync_group
from insync.wire.types import NO_DURATION


def sync(shard: Shard, request: sync_group.SyncGroupRequest, token: int, now: int) -> None:
    """A member asks for its assignment; the leader also brings the assignments of all members."""
    group = shard.groups.get(request.group_id)
    error = _sync_error(group, request)
    if group is None or error is not ErrorCode.none:
        shard.out.reply(token, answers.sync_error(error))
        return
    if not shard.memory.has_space_for_member(sum(len(member.assignment) for member in request.assignments)):
        shard.out.reply(token, answers.sync_error(ErrorCode.coordinator_not_available))
        return
    member = group.members[request.member_id]
    rebalancing.record_sync(group, member)
    if group.state == STABLE:
        shard.out.reply(token, answers.sync_response(group, member))
        return
    answers.answer_sync(shard.out, group, member, ErrorCode.rebalance_in_progress)  # this request replaces it
    member.sync_token = token
    if group.leader == member.id and not is_assignment_stored(group):
        assignments = {assigned.member_id: assigned.assignment for assigned in request.assignments}
        rebalancing.store_assignment(shard, group, assignments, now)


def is_assignment_stored(group: Group) -> bool:
    """Safeguard: a leader that asks twice does not change an assignment that is already being written to the log."""
    return group.storing_generation == group.generation


def _sync_error(group: Group | None, request: sync_group.SyncGroupRequest) -> ErrorCode:
    error = _membership_error(group, request)
    if group is None or error is not ErrorCode.none:
        return error
    if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (None, group.protocol):
        return ErrorCode.inconsistent_group_protocol
    return ErrorCode.rebalance_in_progress if group.state == PREPARING else ErrorCode.none


def _membership_error(
    group: Group | None, request: sync_group.SyncGroupRequest | heartbeat_messages.HeartbeatRequest
) -> ErrorCode:
    if group is None or group.state == EMPTY:
        return ErrorCode.unknown_member_id
    if group.state == DEAD:
        return ErrorCode.coordinator_not_available
    error = group.member_error(request.member_id, request.group_instance_id)
    return group.generation_error(request.generation_id) if error is ErrorCode.none else error


def heartbeat(shard: Shard, request: heartbeat_messages.HeartbeatRequest, now: int) -> ErrorCode:
    group = shard.groups.get(request.group_id)
    error = _membership_error(group, request)
    if group is None or error is not ErrorCode.none:
        return error
    group.members[request.member_id].extend_session(now)
    return ErrorCode.rebalance_in_progress if group.state == PREPARING else ErrorCode.none


def leave(shard: Shard, request: leave_group.LeaveGroupRequest, now: int) -> leave_group.LeaveGroupResponse:
    """Members in one request leave together, with one rebalance."""
    group = shard.groups.get(request.group_id)
    if group is not None and group.state == DEAD:
        return leave_response(ErrorCode.coordinator_not_available, ())
    results = tuple(
        leave_group.MemberResponse(
            member_id=leaving.member_id,
            group_instance_id=leaving.group_instance_id,
            error_code=_leave_one(shard, group, leaving),
        )
        for leaving in request.members
    )
    if group is not None and any(result.error_code is ErrorCode.none for result in results):
        if group.state in (COMPLETING, STABLE):
            rebalancing.on_members_changed(shard, group, "members left", now)
        else:
            rebalancing.complete_join_if_all_joined(shard, group, now)
    return leave_response(ErrorCode.none, results)


def _leave_one(shard: Shard, group: Group | None, leaving: leave_group.MemberIdentity) -> ErrorCode:
    if group is None:
        return ErrorCode.unknown_member_id
    member_id = leaving.member_id
    if not member_id:  # from an admin client, which knows instance ids only
        member_id = group.static_members.get(leaving.group_instance_id or "", "")
    if group.forget_pending(member_id):
        return ErrorCode.none
    error = group.member_error(member_id, leaving.group_instance_id)
    if error is ErrorCode.none:
        rebalancing.remove_member(shard, group, group.members[member_id])
    return error


def leave_response(error: ErrorCode, members: tuple[leave_group.MemberResponse, ...]) -> leave_group.LeaveGroupResponse:
    return leave_group.LeaveGroupResponse(throttle_time=NO_DURATION, error_code=error, members=members)
