"""SyncGroup, Heartbeat and LeaveGroup: what members of a generation do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.groups import answers, rebalancing
from insync.groups.group import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, Group
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import leave_group
from insync.wire.types import NO_DURATION

if TYPE_CHECKING:
    from insync.groups.shard import Shard


def sync(shard: Shard, request: Message, token: int, now: int) -> None:
    """A member asks for its assignment; the leader brings everybody's."""
    group = shard.groups.get(request.group_id)
    error = _sync_error(group, request)
    if group is None or error is not ErrorCode.none:
        shard.out.reply(token, answers.sync_refused(error))
        return
    if not shard.room.has_for_member(sum(len(each.assignment) for each in request.assignments)):
        shard.out.reply(token, answers.sync_refused(ErrorCode.coordinator_not_available))
        return
    member = group.members[request.member_id]
    rebalancing.sync_received(group, member)
    if group.state == STABLE:
        shard.out.reply(token, answers.assigned(group, member))
        return
    answers.answer_sync(shard.out, group, member, ErrorCode.rebalance_in_progress)  # it asks anew
    member.sync_token = token
    if group.leader == member.id and not assignment_given(group):
        given = {each.member_id: each.assignment for each in request.assignments}
        rebalancing.store_assignment(shard, group, given, now)


def assignment_given(group: Group) -> bool:
    """Safeguard: a leader that asks twice does not change what is already on its way to the log."""
    return group.storing == group.generation


def _sync_error(group: Group | None, request: Message) -> ErrorCode:
    if group is None or group.state == EMPTY:
        return ErrorCode.unknown_member_id
    if group.state == DEAD:
        return ErrorCode.coordinator_not_available
    error = _membership_error(group, request)
    if error is not ErrorCode.none:
        return error
    if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (None, group.protocol):
        return ErrorCode.inconsistent_group_protocol
    return ErrorCode.rebalance_in_progress if group.state == PREPARING else ErrorCode.none


def _membership_error(group: Group, request: Message) -> ErrorCode:
    error = group.member_error(request.member_id, request.group_instance_id)
    return group.generation_error(request.generation_id) if error is ErrorCode.none else error


def heartbeat(shard: Shard, request: Message, now: int) -> ErrorCode:
    group = shard.groups.get(request.group_id)
    if group is None or group.state == EMPTY:
        return ErrorCode.unknown_member_id
    if group.state == DEAD:
        return ErrorCode.coordinator_not_available
    error = _membership_error(group, request)
    if error is not ErrorCode.none:
        return error
    group.members[request.member_id].heard(now)
    return ErrorCode.rebalance_in_progress if group.state == PREPARING else ErrorCode.none


def leave(shard: Shard, request: Message, now: int) -> Message:
    """Members of one request leave together: one rebalance for all."""
    group = shard.groups.get(request.group_id)
    if group is not None and group.state == DEAD:
        return left(ErrorCode.coordinator_not_available, ())
    lines = tuple(
        leave_group.MemberResponse(
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            error_code=_leave_one(shard, group, each),
        )
        for each in request.members
    )
    if group is not None and any(line.error_code is ErrorCode.none for line in lines):
        if group.state in (COMPLETING, STABLE):
            rebalancing.members_changed(shard, group, "members left", now)
        else:
            rebalancing.maybe_complete(shard, group, now)
    return left(ErrorCode.none, lines)


def _leave_one(shard: Shard, group: Group | None, each: Message) -> ErrorCode:
    if group is None:
        return ErrorCode.unknown_member_id
    member_id = each.member_id
    if not member_id:  # an administrator, who knows instance ids only
        member_id = group.static.get(each.group_instance_id or "", "")
    if group.forget_pending(member_id):
        return ErrorCode.none
    error = group.member_error(member_id, each.group_instance_id)
    if error is ErrorCode.none:
        rebalancing.remove_member(shard, group, group.members[member_id])
    return error


def left(error: ErrorCode, members: tuple[Message, ...]) -> Message:
    return leave_group.LeaveGroupResponse(throttle_time=NO_DURATION, error_code=error, members=members)
