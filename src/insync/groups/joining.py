"""JoinGroup: into the group's next generation.

A dynamic member first gets a member id, and joins when it comes back with it (since version 4): a client that loses the
answer and starts over leaves no member behind that everybody would wait for. A static member is known by its instance
id; a restarted process takes over its predecessor's place, and in a stable group nobody else notices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.groups import answers, rebalancing, records
from insync.groups import room as rooms
from insync.groups.group import COMPLETING, DEAD, PREPARING, STABLE, Group
from insync.groups.member import Member
from insync.sansio import Client, Message
from insync.wire.errors import ErrorCode
from insync.wire.types import millis

if TYPE_CHECKING:
    from insync.groups.shard import Shard

MEMBER_ID_FIRST = 4
SKIPS_ASSIGNMENT = 9
_MEMBER_ID_SUFFIX = 37  # a dash and a uuid


def join(shard: Shard, request: Message, token: int, client: Client, now: int) -> None:
    member_id = request.member_id
    group = shard.groups.get(request.group_id)
    if not _storable(request, client):
        _refuse(shard, token, member_id, ErrorCode.invalid_request)
        return
    if not _has_room(shard, group, request):
        _refuse(shard, token, member_id, ErrorCode.group_max_size_reached)
        return
    if group is None and not member_id:
        group = shard.create(request.group_id)
    if group is None:
        _refuse(shard, token, member_id, ErrorCode.unknown_member_id)
        return
    if not group.has_room(member_id, shard.config.group_max_size):
        group.forget_pending(member_id)
        _refuse(shard, token, "", ErrorCode.group_max_size_reached)
    elif group.state == DEAD:
        _refuse(shard, token, member_id, ErrorCode.coordinator_not_available)
    elif not group.supports(request.protocol_type, _protocols(request)):
        _refuse(shard, token, member_id, ErrorCode.inconsistent_group_protocol)
    elif not member_id:
        _newcomer(shard, group, request, token, client, now)
    else:
        _known(shard, group, request, token, client, now)
    shard.forget_if_void(group)


def abandon(shard: Shard, group_id: str, token: int, now: int) -> None:
    """Whoever asked is gone. A newcomer has no assignment to keep for it, and would get one that nobody works on; a
    member of a generation has its session to come back."""
    group = shard.groups.get(group_id)
    for member in list(group.members.values()) if group is not None else ():
        if group is not None and member.join_token == token and member.is_new and not member.is_static:
            rebalancing.remove_member(shard, group, member)
            rebalancing.member_gone(shard, group, f"{member.id} left before it had joined", now)


# --- without a member id ---------------------------------------------------------------------------------------------


def _newcomer(shard: Shard, group: Group, request: Message, token: int, client: Client, now: int) -> None:
    instance_id = request.group_instance_id
    new_id = shard.new_member_id(instance_id or client.id)
    if instance_id is None:
        if must_have_id(client):
            _give_id(shard, group, new_id, request, token, now)
        else:
            _add(shard, group, new_id, request, token, client, now)
        return
    owner = group.members.get(group.static.get(instance_id, ""))
    if owner is None:
        _add(shard, group, new_id, request, token, client, now)
    else:
        _take_over(shard, group, owner, new_id, request, token, client, now)


def must_have_id(client: Client) -> bool:
    return client.version < 0 or client.version >= MEMBER_ID_FIRST


def _give_id(shard: Shard, group: Group, new_id: str, request: Message, token: int, now: int) -> None:
    def expired(now: int) -> None:
        group.forget_pending(new_id)
        if group.state == PREPARING and group.all_joined:
            rebalancing.complete_join(shard, group, now)
        shard.forget_if_void(group)

    alarm = shard.timers.alarm(expired)
    group.await_join(new_id, alarm)
    alarm.set(now + millis(request.session_timeout))
    _refuse(shard, token, new_id, ErrorCode.member_id_required)


def _add(shard: Shard, group: Group, member_id: str, request: Message, token: int, client: Client, now: int) -> None:
    if not group.members:
        group.protocol_type = request.protocol_type
    member = shard.member(
        group,
        member_id,
        request.group_instance_id,
        client_id=client.id,
        client_host=client.host,
        session_timeout=millis(request.session_timeout),
        rebalance_timeout=_rebalance_timeout(request),
        protocols=_protocols(request),
    )
    member.is_new = True
    member.join_token = token
    if group.state == PREPARING and group.initial:
        group.new_member_added = True
    group.add(member)
    member.session.set(now + shard.config.new_member_join_timeout_ms)
    rebalancing.members_changed(shard, group, f"{member_id} joins", now)


def _take_over(
    shard: Shard, group: Group, member: Member, new_id: str, request: Message, token: int, client: Client, now: int
) -> None:
    """Whoever had the instance id before is fenced from now on."""
    led = group.leader
    answers.refuse_join(shard.out, member, member.id, ErrorCode.fenced_instance_id)
    answers.answer_sync(shard.out, group, member, ErrorCode.fenced_instance_id)
    group.rename(member, new_id)
    member.client_id, member.client_host = client.id, client.host
    member.heard(now)
    _update(shard, group, member, request, token)
    if group.state == STABLE and group.chosen_protocol() == group.protocol:
        _resume(shard, group, member, led, client, now)
    elif group.state in (STABLE, COMPLETING):
        rebalancing.prepare(shard, group, f"static member {member.instance_id} came back", now)
    else:
        rebalancing.maybe_complete(shard, group, now)


def _resume(shard: Shard, group: Group, member: Member, led: str | None, client: Client, now: int) -> None:
    """The generation and its assignment stand. An old client that leads must not learn of it: it would assign anew."""
    generation = group.generation

    def on_stored(error: ErrorCode, now: int) -> None:
        if shard.closed or group.generation != generation:
            return
        if error is not ErrorCode.none:
            answers.refuse_join(shard.out, member, "", error)
            return
        knows = client.version < 0 or client.version >= SKIPS_ASSIGNMENT
        is_leader = group.leader == member.id
        response = answers.joined(group, member, skip_assignment=knows and is_leader)
        if is_leader and not knows:
            response = answers.joined_as_follower(group, member, led or "")
        answers.answer_join(shard.out, member, response)

    kept = {each.id: each.assignment for each in group.members.values()}
    shard.store_group(group.stored(kept), group.id, on_stored, now)


# --- with a member id ------------------------------------------------------------------------------------------------


def _known(shard: Shard, group: Group, request: Message, token: int, client: Client, now: int) -> None:
    member_id = request.member_id
    if member_id in group.pending and request.group_instance_id is None:
        _add(shard, group, member_id, request, token, client, now)
        return
    error = group.member_error(member_id, request.group_instance_id)
    if error is not ErrorCode.none:
        _refuse(shard, token, member_id, error)
        return
    member = group.members[member_id]
    if _nothing_new(group, member, request):
        shard.out.reply(token, answers.joined(group, member))
        return
    _update(shard, group, member, request, token)
    rebalancing.members_changed(shard, group, f"{member_id} joins again", now)


def _nothing_new(group: Group, member: Member, request: Message) -> bool:
    """The answer was lost, or a follower looks in: it is told the generation that it belongs to.

    A leader that joins again in a stable group wants to assign anew, whatever its reason.
    """
    if member.protocols != _protocols(request):
        return False
    return group.state == COMPLETING or (group.state == STABLE and group.leader != member.id)


def _update(shard: Shard, group: Group, member: Member, request: Message, token: int) -> None:
    answers.refuse_join(shard.out, member, member.id, ErrorCode.rebalance_in_progress)  # it asks anew
    group.set_protocols(member, _protocols(request))
    member.rebalance_timeout = _rebalance_timeout(request)
    member.session_timeout = millis(request.session_timeout)
    member.join_token = token


def _storable(request: Message, client: Client) -> bool:
    names = (protocol.name for protocol in request.protocols)
    generated = (request.group_instance_id or client.id) + "-" * _MEMBER_ID_SUFFIX
    return records.fits(generated, client.host, request.protocol_type, *names)


def _has_room(shard: Shard, group: Group | None, request: Message) -> bool:
    said = sum(len(protocol.metadata) for protocol in request.protocols)
    if group is not None and request.member_id in group.members:
        return shard.room.has_for_member(said)
    return shard.room.has_for_newcomer(rooms.GROUP + rooms.MEMBER + said)


def _protocols(request: Message) -> tuple[tuple[str, bytes], ...]:
    return tuple((protocol.name, protocol.metadata) for protocol in request.protocols)


def _rebalance_timeout(request: Message) -> int:
    given = millis(request.rebalance_timeout)
    return given if given >= 0 else millis(request.session_timeout)


def _refuse(shard: Shard, token: int, member_id: str, error: ErrorCode) -> None:
    shard.out.reply(token, answers.join_refused(member_id, error))
