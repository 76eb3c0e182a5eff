"""ListGroups, DescribeGroups, DeleteGroups, OffsetDelete, and groups that nobody needs any longer.

Notes: group_deleted(group).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from insync.groups import offsets, records
from insync.groups.group import DEAD, EMPTY, STABLE, Group, Place
from insync.sansio import Client, Message
from insync.wire import operations
from insync.wire.batch import NewRecord
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_groups, list_groups

if TYPE_CHECKING:
    from insync.groups.shard import OnStored, Shard

CLASSIC = "classic"
MISSING_IS_AN_ERROR_FROM = 6


def listed(group: Group) -> Message:
    return list_groups.ListedGroup(
        group_id=group.id, protocol_type=group.protocol_type or "", group_state=group.state, group_type=CLASSIC
    )


def matcher(request: Message) -> Callable[[Group], bool]:
    """Whether a group is one that ListGroups asks for."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    has_type = not types or CLASSIC in types
    return lambda group: has_type and (not states or group.state.lower() in states)


def missing(group_id: str, client: Client) -> Message:
    """A group that is not there is Dead, and since version 6 an error."""
    if 0 <= client.version < MISSING_IS_AN_ERROR_FROM:
        return described(None, group_id)
    line = described(None, group_id, ErrorCode.group_id_not_found)
    return replace(line, group_state=DEAD, error_message=f"Group {group_id} not found.")


def described(group: Group | None, group_id: str, error: ErrorCode = ErrorCode.none) -> Message:
    """Members' metadata is told once a generation is in force."""
    stable = group is not None and group.state == STABLE
    return describe_groups.DescribedGroup(
        error_code=error,
        group_id=group_id,
        group_state=group.state if group is not None else "" if error is not ErrorCode.none else DEAD,
        protocol_type=(group.protocol_type or "") if group is not None else "",
        protocol_data=(group.protocol or "") if group is not None and stable else "",
        members=_members(group, stable) if group is not None else (),
        authorized_operations=operations.NOT_ASKED,
    )


def with_operations(line: Message, asked: bool) -> Message:
    told = asked and line.error_code is ErrorCode.none
    return replace(line, authorized_operations=operations.ON_GROUP) if told else line


def _members(group: Group, stable: bool) -> tuple[Message, ...]:
    return tuple(
        describe_groups.DescribedGroupMember(
            member_id=member.id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata(group.protocol) if stable else b"",
            member_assignment=member.assignment if stable else b"",
        )
        for member in group.members.values()
    )


# --- deleting --------------------------------------------------------------------------------------------------------


def delete(shard: Shard, group_id: str, then: OnStored, now: int) -> None:
    """Only an empty group; it is Dead until its tombstones are committed, and takes nobody in meanwhile."""
    group = shard.groups.get(group_id)
    if group is None or group.state == DEAD:
        then(ErrorCode.group_id_not_found, now)
    elif group.state != EMPTY:
        then(ErrorCode.non_empty_group, now)
    else:
        _bury(shard, group, then, now)


def _bury(shard: Shard, group: Group, then: OnStored, now: int) -> None:
    group.become(DEAD, group.state_since)
    places: dict[Place, None] = dict.fromkeys((*group.offsets, *group.pending_commits))

    def apply() -> None:
        if shard.groups.get(group.id) is group:
            group.silence()
            del shard.groups[group.id]
            shard.out.note("group_deleted", group=group.id)

    def discard() -> None:
        group.become(EMPTY, group.state_since)

    grave = NewRecord(records.group_key(group.id), None)
    shard.store([*offsets.tombstones(group, places), grave], then, now, apply=apply, discard=discard)


def delete_offsets(shard: Shard, group_id: str, places: dict[Place, ErrorCode], then: OnStored, now: int) -> None:
    """OffsetDelete: `places` with an error known already, and with those found here."""
    group = shard.groups.get(group_id)
    if group is None or group.state == DEAD:
        then(ErrorCode.group_id_not_found, now)
        return
    if group.state != EMPTY and not group.uses_consumer_protocol:
        then(ErrorCode.non_empty_group, now)
        return
    for place, error in places.items():
        if error is ErrorCode.none and group.subscribes(place[0]):
            places[place] = ErrorCode.group_subscribed_to_topic
    wanted = [place for place, error in places.items() if error is ErrorCode.none]
    offsets.delete(shard, group, wanted, then, now)


def tidy(shard: Shard, now: int) -> None:
    """Expire offsets; a group without members and offsets goes in the round after its last offset went."""
    for group in list(shard.groups.values()):
        if group.state == EMPTY and not (group.offsets or group.pending_commits or group.pending):
            _bury(shard, group, lambda _error, _now: None, now)
        elif group.state != DEAD:
            offsets.expire(shard, group, now)


def topics_deleted(shard: Shard, topics: dict[str, None], now: int) -> None:
    """The offsets of a topic go with it: one of the same name starts anew."""
    for group in list(shard.groups.values()):  # what commits meanwhile may remove one
        places = [place for place in (*group.offsets, *group.pending_commits) if place[0] in topics]
        if places and group.state != DEAD:
            offsets.delete(shard, group, dict.fromkeys(places), lambda _error, _now: None, now)
