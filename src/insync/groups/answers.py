"""Answers to JoinGroup and SyncGroup. Both requests wait on their member until the answer is known."""

from __future__ import annotations

from insync.groups.group import Group
from insync.groups.member import Member
from insync.sansio import Outbox
from insync.wire.errors import ErrorCode
from insync.wire.messages import join_group, sync_group
from insync.wire.types import NO_DURATION


def join_response(
    group: Group, member: Member, *, leader: str | None = None, skip_assignment: bool = False
) -> join_group.JoinGroupResponse:
    """The generation as `member` sees it: only the leader, which assigns, sees the others. `leader`: another than the
    group's, for a leader whose client cannot be told to keep the assignment."""
    if leader is None:
        leader = group.leader or ""
    return join_group.JoinGroupResponse(
        throttle_time=NO_DURATION,
        error_code=ErrorCode.none,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=leader,
        skip_assignment=skip_assignment,
        member_id=member.id,
        members=_members(group) if leader == member.id else (),
    )


def _members(group: Group) -> tuple[join_group.JoinGroupResponseMember, ...]:
    return tuple(
        join_group.JoinGroupResponseMember(
            member_id=member.id, group_instance_id=member.instance_id, metadata=member.metadata(group.protocol)
        )
        for member in group.members.values()
    )


def join_error(member_id: str, error: ErrorCode) -> join_group.JoinGroupResponse:
    """By default it has no generation and no protocol type."""
    return join_group.JoinGroupResponse(
        throttle_time=NO_DURATION, error_code=error, protocol_name=None, leader="", member_id=member_id, members=()
    )


def sync_error(error: ErrorCode) -> sync_group.SyncGroupResponse:
    return sync_group.SyncGroupResponse(throttle_time=NO_DURATION, error_code=error, assignment=b"")


def sync_response(group: Group, member: Member) -> sync_group.SyncGroupResponse:
    return sync_group.SyncGroupResponse(
        throttle_time=NO_DURATION,
        error_code=ErrorCode.none,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=member.assignment,
    )


def answer_join(out: Outbox, member: Member, response: join_group.JoinGroupResponse) -> None:
    token, member.join_token = member.join_token, None
    if token is not None:
        out.reply(token, response)


def refuse_join(out: Outbox, member: Member, member_id: str, error: ErrorCode) -> None:
    if member.join_token is not None:
        answer_join(out, member, join_error(member_id, error))


def answer_sync(out: Outbox, group: Group, member: Member, error: ErrorCode) -> bool:
    token, member.sync_token = member.sync_token, None
    if token is None:
        return False
    out.reply(token, sync_response(group, member) if error is ErrorCode.none else sync_error(error))
    return True
