"""JoinGroup: into the group's next generation.

A dynamic member first gets a member id, and joins when it comes back with it (since version 4): a client that loses the
answer and starts over leaves no member behind for which the others would wait. A static member is known by its instance
id; a restarted process takes its predecessor's place, and in a stable group the other members do not notice.
"""

from __future__ import annotations

from insync.groups import answers, memory_budget, rebalancing, records
from insync.groups.group import COMPLETING, DEAD, PREPARING, STABLE, Group
from insync.groups.member import Member
from insync.groups.shard import Shard
from insync.sansio import Client
from insync.wire.errors import ErrorCode
from insync.wire.messages import join_group
from insync.wire.types import millis

MEMBER_ID_VERSION = 4
"""The first JoinGroup version whose dynamic members need a member id."""
SKIP_ASSIGNMENT_VERSION = 9
"""The first JoinGroup version that can tell a leader not to assign."""
MEMBER_ID_SUFFIX_LENGTH = 37  # a dash and a uuid


def join(shard: Shard, request: join_group.JoinGroupRequest, token: int, client: Client, now: int) -> None:
    member_id = request.member_id
    group = shard.groups.get(request.group_id)
    if not _can_be_stored(request, client):
        _refuse(shard, token, member_id, ErrorCode.invalid_request)
        return
    if not _has_memory_for(shard, group, request):
        _refuse(shard, token, member_id, ErrorCode.group_max_size_reached)
        return
    if group is None and not member_id:
        group = shard.create_group(request.group_id)
    if group is None:
        _refuse(shard, token, member_id, ErrorCode.unknown_member_id)
        return
    if not group.can_admit(member_id, shard.config.group_max_size):
        group.forget_pending(member_id)
        _refuse(shard, token, "", ErrorCode.group_max_size_reached)
    elif group.state == DEAD:
        _refuse(shard, token, member_id, ErrorCode.coordinator_not_available)
    elif not group.supports(request.protocol_type, _protocols(request)):
        _refuse(shard, token, member_id, ErrorCode.inconsistent_group_protocol)
    elif not member_id:
        _join_without_id(shard, group, request, token, client, now)
    else:
        _join_with_id(shard, group, request, token, client, now)
    shard.forget_if_unused(group)


def abandon(shard: Shard, group_id: str, token: int, now: int) -> None:
    """The client disconnected. A new member is removed, because no assignment waits for it; a member of a generation
    may come back until its session ends."""
    group = shard.groups.get(group_id)
    for member in list(group.members.values()) if group is not None else ():
        if group is not None and member.join_token == token and member.is_new and not member.is_static:
            rebalancing.remove_member(shard, group, member)
            rebalancing.on_member_gone(shard, group, f"{member.id} left before it had joined", now)


# --- without a member id ---------------------------------------------------------------------------------------------


def _join_without_id(
    shard: Shard, group: Group, request: join_group.JoinGroupRequest, token: int, client: Client, now: int
) -> None:
    instance_id = request.group_instance_id
    new_id = shard.new_member_id(instance_id or client.id)
    if instance_id is None:
        if requires_member_id(client):
            _assign_member_id(shard, group, new_id, request, token, now)
        else:
            _add(shard, group, new_id, request, token, client, now)
        return
    owner = group.members.get(group.static_members.get(instance_id, ""))
    if owner is None:
        _add(shard, group, new_id, request, token, client, now)
    else:
        _replace_static_member(shard, group, owner, new_id, request, token, client, now)


def requires_member_id(client: Client) -> bool:
    return client.version < 0 or client.version >= MEMBER_ID_VERSION


def _assign_member_id(
    shard: Shard, group: Group, new_id: str, request: join_group.JoinGroupRequest, token: int, now: int
) -> None:
    def on_timeout(now: int) -> None:
        group.forget_pending(new_id)
        if group.state == PREPARING and group.have_all_joined:
            rebalancing.complete_join(shard, group, now)
        shard.forget_if_unused(group)

    timer = shard.timers.create(on_timeout)
    group.await_join(new_id, timer)
    timer.set(now + millis(request.session_timeout))
    _refuse(shard, token, new_id, ErrorCode.member_id_required)


def _add(
    shard: Shard,
    group: Group,
    member_id: str,
    request: join_group.JoinGroupRequest,
    token: int,
    client: Client,
    now: int,
) -> None:
    if not group.members:
        group.protocol_type = request.protocol_type
    member = shard.create_member(
        group,
        member_id,
        request.group_instance_id,
        client_id=client.id,
        client_host=client.host,
        session_timeout_ms=millis(request.session_timeout),
        rebalance_timeout_ms=_rebalance_timeout_ms(request),
        protocols=_protocols(request),
    )
    member.is_new = True
    member.join_token = token
    if group.state == PREPARING and group.is_initial_rebalance:
        group.new_member_added = True
    group.add(member)
    member.session_timer.set(now + shard.config.new_member_join_timeout_ms)
    rebalancing.on_members_changed(shard, group, f"{member_id} joins", now)


def _replace_static_member(
    shard: Shard,
    group: Group,
    member: Member,
    new_id: str,
    request: join_group.JoinGroupRequest,
    token: int,
    client: Client,
    now: int,
) -> None:
    """The process that had the instance id before is fenced from now on."""
    previous_leader = group.leader
    answers.refuse_join(shard.out, member, member.id, ErrorCode.fenced_instance_id)
    answers.answer_sync(shard.out, group, member, ErrorCode.fenced_instance_id)
    group.rename(member, new_id)
    member.client_id, member.client_host = client.id, client.host
    member.extend_session(now)
    _update(shard, group, member, request, token)
    if group.state == STABLE and group.chosen_protocol() == group.protocol:
        _keep_generation(shard, group, member, previous_leader, client, now)
    elif group.state in (STABLE, COMPLETING):
        rebalancing.prepare_rebalance(shard, group, f"static member {member.instance_id} came back", now)
    else:
        rebalancing.complete_join_if_all_joined(shard, group, now)


def _keep_generation(
    shard: Shard, group: Group, member: Member, previous_leader: str | None, client: Client, now: int
) -> None:
    """The generation and its assignment stay. A leader with an old client must not learn that it leads, because it
    would assign again."""
    generation = group.generation

    def on_stored(error: ErrorCode, now: int) -> None:
        if shard.is_closed or group.generation != generation:
            return
        if error is not ErrorCode.none:
            answers.refuse_join(shard.out, member, "", error)
            return
        can_skip = client.version < 0 or client.version >= SKIP_ASSIGNMENT_VERSION
        is_leader = group.leader == member.id
        if is_leader and not can_skip:
            response = answers.join_response(group, member, leader=previous_leader or "")
        else:
            response = answers.join_response(group, member, skip_assignment=is_leader)
        answers.answer_join(shard.out, member, response)

    assignments = {member.id: member.assignment for member in group.members.values()}
    shard.store_group(group.to_record(assignments), group.id, on_stored, now)


# --- with a member id ------------------------------------------------------------------------------------------------


def _join_with_id(
    shard: Shard, group: Group, request: join_group.JoinGroupRequest, token: int, client: Client, now: int
) -> None:
    member_id = request.member_id
    if member_id in group.pending_members and request.group_instance_id is None:
        _add(shard, group, member_id, request, token, client, now)
        return
    error = group.member_error(member_id, request.group_instance_id)
    if error is not ErrorCode.none:
        _refuse(shard, token, member_id, error)
        return
    member = group.members[member_id]
    if _is_repeated_join(group, member, request):
        shard.out.reply(token, answers.join_response(group, member))
        return
    _update(shard, group, member, request, token)
    rebalancing.on_members_changed(shard, group, f"{member_id} joins again", now)


def _is_repeated_join(group: Group, member: Member, request: join_group.JoinGroupRequest) -> bool:
    """The answer was lost, or a follower joins without need: it gets the current generation.

    A leader that joins again in a stable group wants to assign again, whatever its reason.
    """
    if member.protocols != _protocols(request):
        return False
    return group.state == COMPLETING or (group.state == STABLE and group.leader != member.id)


def _update(shard: Shard, group: Group, member: Member, request: join_group.JoinGroupRequest, token: int) -> None:
    answers.refuse_join(shard.out, member, member.id, ErrorCode.rebalance_in_progress)  # this request replaces it
    group.set_protocols(member, _protocols(request))
    member.rebalance_timeout_ms = _rebalance_timeout_ms(request)
    member.session_timeout_ms = millis(request.session_timeout)
    member.join_token = token


def _can_be_stored(request: join_group.JoinGroupRequest, client: Client) -> bool:
    names = (protocol.name for protocol in request.protocols)
    generated = (request.group_instance_id or client.id) + "-" * MEMBER_ID_SUFFIX_LENGTH
    return records.fits(generated, client.host, request.protocol_type, *names)


def _has_memory_for(shard: Shard, group: Group | None, request: join_group.JoinGroupRequest) -> bool:
    metadata_bytes = sum(len(protocol.metadata) for protocol in request.protocols)
    if group is not None and request.member_id in group.members:
        return shard.memory.has_space_for_member(metadata_bytes)
    size = memory_budget.GROUP_BYTES + memory_budget.MEMBER_BYTES + metadata_bytes
    return shard.memory.has_space_for_new_member(size)


def _protocols(request: join_group.JoinGroupRequest) -> tuple[tuple[str, bytes], ...]:
    return tuple((protocol.name, protocol.metadata) for protocol in request.protocols)


def _rebalance_timeout_ms(request: join_group.JoinGroupRequest) -> int:
    timeout_ms = millis(request.rebalance_timeout)
    return timeout_ms if timeout_ms >= 0 else millis(request.session_timeout)


def _refuse(shard: Shard, token: int, member_id: str, error: ErrorCode) -> None:
    shard.out.reply(token, answers.join_error(member_id, error))
