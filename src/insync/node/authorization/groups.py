"""Coordinators, members of groups, and their offsets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from insync.node.access import Access
from insync.node.authorization import checks
from insync.node.authorization.checks import Entries, Narrowed, NodeFacts, Outcome, Refused, Rights, allow, may_on_topic
from insync.node.authorization.errors import (
    CLUSTER_ERROR,
    CLUSTER_REFUSED,
    GROUP_ERROR,
    GROUP_REFUSED,
    TOPIC_ERROR,
    TOPIC_REFUSED,
    TRANSACTIONAL_ID_ERROR,
    TRANSACTIONAL_ID_REFUSED,
)
from insync.sansio import Message
from insync.security.acl import Operation, ResourceType
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from insync.wire.types import NO_DURATION

GROUPS, TRANSACTIONS, SHARE_GROUPS = 0, 1, 2
"""Kinds of coordinators."""
PROTOCOL_IN_SYNC_GROUP = 5
"""The first SyncGroup that has to name the protocol."""


def _on_group(operation: Operation, refuse: Callable[[Any], Message]) -> Rights:
    def check(request: Any, access: Access, node: NodeFacts) -> Outcome:
        return None if access.may_on_group(operation, request.group_id) else Refused(refuse(request))

    return Rights(f"{operation.name} on the group", GROUP_ERROR, check)


def _check_find_coordinator(
    request: find_coordinator.FindCoordinatorRequest, access: Access, node: NodeFacts
) -> Outcome:
    if request.key_type == SHARE_GROUPS:
        if access.may_on_cluster(Operation.CLUSTER_ACTION):
            return None
        lines = tuple(_no_coordinator(key, CLUSTER_REFUSED) for key in request.coordinator_keys)
        return Refused(_respond_coordinators(lines))
    if request.key_type == TRANSACTIONS:
        return _check_transaction_coordinators(request, access, node)
    return _check_group_coordinators(request, access, node) if request.key_type == GROUPS else None


def _no_coordinator(key: str, error: ErrorCode) -> find_coordinator.Coordinator:
    return find_coordinator.Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=None)


def _respond_coordinators(
    lines: tuple[find_coordinator.Coordinator, ...],
) -> find_coordinator.FindCoordinatorResponse:
    return find_coordinator.FindCoordinatorResponse(throttle_time=NO_DURATION, coordinators=lines)


_check_group_coordinators = Entries(
    asked="coordinator_keys",
    answered="coordinators",
    is_allowed=lambda key, access, node: access.may_on_group(Operation.DESCRIBE, key),
    refuse=lambda key: _no_coordinator(key, GROUP_REFUSED),
    respond=_respond_coordinators,
)


_check_transaction_coordinators = Entries(
    asked="coordinator_keys",
    answered="coordinators",
    is_allowed=lambda key, access, node: access.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key),
    refuse=lambda key: _no_coordinator(key, TRANSACTIONAL_ID_REFUSED),
    respond=_respond_coordinators,
)


def _refuse_join_group(_: join_group.JoinGroupRequest) -> join_group.JoinGroupResponse:
    return join_group.JoinGroupResponse(
        throttle_time=NO_DURATION,
        error_code=GROUP_REFUSED,
        generation_id=-1,
        protocol_name=None,
        leader="",
        member_id="",
        members=(),
    )


def _check_sync_group(request: sync_group.SyncGroupRequest, access: Access, node: NodeFacts) -> Outcome:
    needs_protocol = access.client.version < 0 or access.client.version >= PROTOCOL_IN_SYNC_GROUP
    lacks_protocol = needs_protocol and (request.protocol_type is None or request.protocol_name is None)
    if not lacks_protocol and access.may_on_group(Operation.READ, request.group_id):
        return None
    error = ErrorCode.inconsistent_group_protocol if lacks_protocol else GROUP_REFUSED
    return Refused(sync_group.SyncGroupResponse(throttle_time=NO_DURATION, error_code=error, assignment=b""))


def _refuse_heartbeat(_: heartbeat.HeartbeatRequest) -> heartbeat.HeartbeatResponse:
    return heartbeat.HeartbeatResponse(throttle_time=NO_DURATION, error_code=GROUP_REFUSED)


def _refuse_leave_group(_: leave_group.LeaveGroupRequest) -> leave_group.LeaveGroupResponse:
    return leave_group.LeaveGroupResponse(throttle_time=NO_DURATION, error_code=GROUP_REFUSED, members=())


def _check_describe_groups(request: describe_groups.DescribeGroupsRequest, access: Access, node: NodeFacts) -> Outcome:
    outcome = _check_described_groups(request, access, node)
    if isinstance(outcome, Refused) or not request.include_authorized_operations:
        return outcome

    def add_operations(response: Any) -> Any:
        return replace(
            response,
            groups=tuple(
                group
                if group.error_code is not ErrorCode.none
                else replace(group, authorized_operations=access.allowed_operations(ResourceType.GROUP, group.group_id))
                for group in response.groups
            ),
        )

    return checks.change_response(request, outcome, add_operations)


_check_described_groups = Entries(
    asked="groups",
    answered="groups",
    is_allowed=lambda group_id, access, node: access.may_on_group(Operation.DESCRIBE, group_id),
    refuse=lambda group_id: describe_groups.DescribedGroup(
        error_code=GROUP_REFUSED, group_id=group_id, group_state="", protocol_type="", protocol_data="", members=()
    ),
    respond=lambda groups: describe_groups.DescribeGroupsResponse(throttle_time=NO_DURATION, groups=groups),
)


def _check_list_groups(request: Any, access: Access, node: NodeFacts) -> Outcome:
    """Describe on the cluster shows all groups; else those that the client may describe are listed."""
    if access.may_on_cluster(Operation.DESCRIBE, audited=False):
        return None

    def complete(response: Any) -> Any:
        return response and replace(
            response,
            groups=tuple(
                group
                for group in response.groups
                if access.may_on_group(Operation.DESCRIBE, group.group_id, audited=False)
            ),
        )

    return Narrowed(request, complete)


_check_delete_groups = Entries(
    asked="groups_names",
    answered="results",
    is_allowed=lambda group_id, access, node: access.may_on_group(Operation.DELETE, group_id),
    refuse=lambda group_id: delete_groups.DeletableGroupResult(group_id=group_id, error_code=GROUP_REFUSED),
    respond=lambda results: delete_groups.DeleteGroupsResponse(throttle_time=NO_DURATION, results=results),
)


def _check_offset_commit(request: offset_commit.OffsetCommitRequest, access: Access, node: NodeFacts) -> Outcome:
    if access.may_on_group(Operation.READ, request.group_id):
        return _check_committed_topics(request, access, node)
    lines = tuple(_refused_commit(topic, GROUP_REFUSED) for topic in request.topics)
    return Refused(offset_commit.OffsetCommitResponse(throttle_time=NO_DURATION, topics=lines))


def _refused_commit(
    topic: offset_commit.OffsetCommitRequestTopic, error: ErrorCode
) -> offset_commit.OffsetCommitResponseTopic:
    return offset_commit.OffsetCommitResponseTopic(
        name=topic.name,
        partitions=tuple(
            offset_commit.OffsetCommitResponsePartition(partition_index=line.partition_index, error_code=error)
            for line in topic.partitions
        ),
    )


_check_committed_topics = Entries(
    asked="topics",
    answered="topics",
    is_allowed=may_on_topic(Operation.READ),
    refuse=lambda topic: _refused_commit(topic, TOPIC_REFUSED),
    respond=lambda topics: offset_commit.OffsetCommitResponse(throttle_time=NO_DURATION, topics=topics),
)


def _check_offset_fetch(request: offset_fetch.OffsetFetchRequest, access: Access, node: NodeFacts) -> Outcome:
    """A group without Describe is refused, in a group that is described a topic without it; where all topics of a group
    are asked for, such a topic is left out."""
    allowed = [group for group in request.groups if access.may_on_group(Operation.DESCRIBE, group.group_id)]
    refused = [group for group in request.groups if group not in allowed]
    groups = tuple(
        offset_fetch.OffsetFetchResponseGroup(group_id=group.group_id, topics=(), error_code=GROUP_REFUSED)
        for group in refused
    )
    if not allowed:
        return Refused(offset_fetch.OffsetFetchResponse(throttle_time=NO_DURATION, groups=groups))
    kept, lines = [], {}
    for group in allowed:
        topics, refused_topics = _describable_topics(group, access)
        kept.append(group if not refused_topics else replace(group, topics=topics))
        lines[group.group_id] = refused_topics
    if not refused and not any(lines.values()) and all(group.topics is not None for group in allowed):
        return None

    def complete(response: Any) -> Any:
        return response and replace(
            response,
            groups=(
                *(_complete_offsets(group, lines.get(group.group_id, ()), access) for group in response.groups),
                *groups,
            ),
        )

    return Narrowed(replace(request, groups=tuple(kept)), complete)


def _describable_topics(
    group: offset_fetch.OffsetFetchRequestGroup, access: Access
) -> tuple[
    tuple[offset_fetch.OffsetFetchRequestTopics, ...] | None, tuple[offset_fetch.OffsetFetchResponseTopics, ...]
]:
    if group.topics is None:
        return None, ()
    refused = [topic for topic in group.topics if not access.may_on_topic(Operation.DESCRIBE, topic.name)]
    kept = tuple([topic for topic in group.topics if topic not in refused])
    return kept, tuple(_refused_offsets(topic) for topic in refused)


def _refused_offsets(topic: offset_fetch.OffsetFetchRequestTopics) -> offset_fetch.OffsetFetchResponseTopics:
    return offset_fetch.OffsetFetchResponseTopics(
        name=topic.name,
        partitions=tuple(
            offset_fetch.OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, metadata="", error_code=TOPIC_REFUSED
            )
            for index in topic.partition_indexes
        ),
    )


def _complete_offsets(
    group: offset_fetch.OffsetFetchResponseGroup,
    refused: tuple[offset_fetch.OffsetFetchResponseTopics, ...],
    access: Access,
) -> offset_fetch.OffsetFetchResponseGroup:
    if group.error_code is not ErrorCode.none:
        return group
    topics = [t for t in group.topics if access.may_on_topic(Operation.DESCRIBE, t.name, audited=False)]
    return replace(group, topics=(*topics, *refused))


def _check_offset_delete(request: offset_delete.OffsetDeleteRequest, access: Access, node: NodeFacts) -> Outcome:
    if access.may_on_group(Operation.DELETE, request.group_id):
        return _check_deleted_offsets(request, access, node)
    return Refused(offset_delete.OffsetDeleteResponse(error_code=GROUP_REFUSED, throttle_time=NO_DURATION, topics=()))


_check_deleted_offsets = Entries(
    asked="topics",
    answered="topics",
    is_allowed=may_on_topic(Operation.READ),
    refuse=lambda topic: offset_delete.OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=tuple(
            offset_delete.OffsetDeleteResponsePartition(partition_index=line.partition_index, error_code=TOPIC_REFUSED)
            for line in topic.partitions
        ),
    ),
)


FIND_COORDINATOR = Rights(
    "DESCRIBE on each group or transactional id; CLUSTER_ACTION on the cluster for share groups",
    f"{GROUP_ERROR} or {TRANSACTIONAL_ID_ERROR} for the key; {CLUSTER_ERROR}",
    _check_find_coordinator,
)
JOIN_GROUP = _on_group(Operation.READ, _refuse_join_group)
SYNC_GROUP = Rights("READ on the group", GROUP_ERROR, _check_sync_group)
HEARTBEAT = _on_group(Operation.READ, _refuse_heartbeat)
LEAVE_GROUP = _on_group(Operation.READ, _refuse_leave_group)
OFFSET_COMMIT = Rights(
    "READ on the group and on each topic", f"{GROUP_ERROR}; {TOPIC_ERROR} for the topic", _check_offset_commit
)
OFFSET_FETCH = Rights(
    "DESCRIBE on each group and each topic",
    f"{GROUP_ERROR} for the group; {TOPIC_ERROR} for a topic that was named; others are left out",
    _check_offset_fetch,
)
OFFSET_DELETE = Rights(
    "DELETE on the group, READ on each topic", f"{GROUP_ERROR}; {TOPIC_ERROR} for the topic", _check_offset_delete
)
LIST_GROUPS = Rights("DESCRIBE on the cluster, or on each group", "the group is left out", _check_list_groups)
DESCRIBE_GROUPS = Rights("DESCRIBE on each group", f"{GROUP_ERROR} for the group", _check_describe_groups)
DELETE_GROUPS = Rights("DELETE on each group", f"{GROUP_ERROR} for the group", _check_delete_groups)
CONSUMER_GROUP_HEARTBEAT = Rights("nothing: it is refused with UNSUPPORTED_VERSION", "", allow)
