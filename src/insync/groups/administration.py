"""ListGroups, DescribeGroups, DeleteGroups, OffsetDelete, and the removal of expired groups.

Notes: group_deleted(group).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from insync.groups import offsets, records
from insync.groups.group import DEAD, EMPTY, STABLE, Group, TopicPartition
from insync.groups.shard import OnStored, Shard
from insync.sansio import Client
from insync.wire import operations
from insync.wire.batch import NewRecord
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_groups, list_groups

CLASSIC = "classic"
GROUP_ID_NOT_FOUND_FROM = 6
"""The first DescribeGroups version with this error."""


def list_group(group: Group) -> list_groups.ListedGroup:
    return list_groups.ListedGroup(
        group_id=group.id, protocol_type=group.protocol_type or "", group_state=group.state, group_type=CLASSIC
    )


def make_filter(request: list_groups.ListGroupsRequest) -> Callable[[Group], bool]:
    """A predicate for the groups that a ListGroups request asks for."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    has_type = not types or CLASSIC in types
    return lambda group: has_type and (not states or group.state.lower() in states)


def describe_missing_group(group_id: str, client: Client) -> describe_groups.DescribedGroup:
    """A group that does not exist is described as Dead, and since version 6 with an error."""
    if 0 <= client.version < GROUP_ID_NOT_FOUND_FROM:
        return describe_group(None, group_id)
    description = describe_group(None, group_id, ErrorCode.group_id_not_found)
    return replace(description, group_state=DEAD, error_message=f"Group {group_id} not found.")


def describe_group(
    group: Group | None, group_id: str, error: ErrorCode = ErrorCode.none
) -> describe_groups.DescribedGroup:
    """The metadata of members is included in a stable group only."""
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


def with_operations(description: describe_groups.DescribedGroup, include: bool) -> describe_groups.DescribedGroup:
    if not include or description.error_code is not ErrorCode.none:
        return description
    return replace(description, authorized_operations=operations.ON_GROUP)


def _members(group: Group, stable: bool) -> tuple[describe_groups.DescribedGroupMember, ...]:
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
    """Delete an empty group. It is Dead, and admits no members, until its tombstones are committed."""
    group = shard.groups.get(group_id)
    if group is None or group.state == DEAD:
        then(ErrorCode.group_id_not_found, now)
    elif group.state != EMPTY:
        then(ErrorCode.non_empty_group, now)
    else:
        _delete_group(shard, group, then, now)


def _delete_group(shard: Shard, group: Group, then: OnStored, now: int) -> None:
    group.set_state(DEAD, group.state_since_ms)
    partitions: dict[TopicPartition, None] = dict.fromkeys((*group.offsets, *group.pending_commits))

    def apply() -> None:
        if shard.groups.get(group.id) is group:
            group.close()
            del shard.groups[group.id]
            shard.out.note("group_deleted", group=group.id)

    def discard() -> None:
        group.set_state(EMPTY, group.state_since_ms)

    tombstone = NewRecord(records.group_key(group.id), None)
    shard.store([*offsets.tombstones(group, partitions), tombstone], then, now, apply=apply, discard=discard)


def delete_offsets(
    shard: Shard, group_id: str, partitions: dict[TopicPartition, ErrorCode], then: OnStored, now: int
) -> None:
    """OffsetDelete: `partitions` holds the errors known so far, and gets those found here."""
    group = shard.groups.get(group_id)
    if group is None or group.state == DEAD:
        then(ErrorCode.group_id_not_found, now)
        return
    if group.state != EMPTY and not group.uses_consumer_protocol:
        then(ErrorCode.non_empty_group, now)
        return
    for partition, error in partitions.items():
        if error is ErrorCode.none and group.subscribes(partition[0]):
            partitions[partition] = ErrorCode.group_subscribed_to_topic
    deletable = [partition for partition, error in partitions.items() if error is ErrorCode.none]
    offsets.delete(shard, group, deletable, then, now)


def remove_expired(shard: Shard, now: int) -> None:
    """Expire offsets. A group without members and offsets is deleted in the round after its last offset expired."""
    for group in list(shard.groups.values()):
        if group.state == EMPTY and not (group.offsets or group.pending_commits or group.pending_members):
            _delete_group(shard, group, lambda _error, _now: None, now)
        elif group.state != DEAD:
            offsets.expire(shard, group, now)


def delete_topic_offsets(shard: Shard, topics: dict[str, None], now: int) -> None:
    """The offsets of deleted topics go too: a new topic of the same name starts without any."""
    for group in list(shard.groups.values()):  # a commit meanwhile may remove one
        partitions = [partition for partition in (*group.offsets, *group.pending_commits) if partition[0] in topics]
        if partitions and group.state != DEAD:
            offsets.delete(shard, group, dict.fromkeys(partitions), lambda _error, _now: None, now)
