"""Consumer groups: requests that became batched.

Joining takes two steps since version 4. That is not translated: the coordinator goes by the client's version.
"""

from __future__ import annotations

from typing import Any

from insync.wire.convert import convert, item_type
from insync.wire.errors import ErrorCode
from insync.wire.types import millis
from insync.wire.versions.context import RequestContext, TopicNames

# --- OffsetCommit: versions 2 to 4 have a retention time ---


def upgrade_offset_commit(request: Any, pinned: Any, context: RequestContext, names: TopicNames) -> Any:
    retention = millis(request.retention_time) if 2 <= request.__version__ <= 4 else -1
    if retention < 0:
        return convert(request, pinned)
    from insync.wire.old_requests import OldOffsetCommitRequest  # loads the schema, when the first such request arrives

    return convert(request, OldOffsetCommitRequest, retention_ms=retention)


# --- OffsetFetch: several groups from version 8 on ---


def upgrade_offset_fetch(request: Any, pinned: Any, context: RequestContext, names: TopicNames) -> Any:
    if request.__version__ >= 8:
        return convert(request, pinned)
    group_type = item_type(pinned, "groups")
    topic_type = item_type(group_type, "topics")
    # Version 1 has no null, and an empty list asks for nothing.
    topics = None if request.topics is None else tuple([convert(topic, topic_type) for topic in request.topics])
    group = convert(request, group_type, topics=topics)
    return convert(request, pinned, groups=(group,))


def downgrade_offset_fetch(response: Any, target: Any, context: RequestContext, names: TopicNames) -> Any:
    if target.__version__ >= 8 or not response.groups:
        return convert(response, target)
    group = response.groups[0]
    topics = group.topics
    if target.__version__ < 2 and group.error_code is not ErrorCode.none:
        return convert(response, target, topics=_partition_errors(context.client_request, target, group.error_code))
    topic_type = item_type(target, "topics")
    replaced = {"topics": tuple([convert(topic, topic_type) for topic in topics])}
    if target.__version__ >= 2:
        replaced["error_code"] = group.error_code
    return convert(response, target, **replaced)


def _partition_errors(request: Any, target: Any, error: ErrorCode) -> tuple[Any, ...]:
    """Version 1 can report a group's error only at its partitions."""
    topic_type = item_type(target, "topics")
    line = item_type(topic_type, "partitions")
    return tuple(
        [
            topic_type(
                name=topic.name,
                partitions=tuple(
                    [
                        line(partition_index=index, committed_offset=-1, metadata="", error_code=error)
                        for index in topic.partition_indexes
                    ]
                ),
            )
            for topic in request.topics
        ]
    )


# --- FindCoordinator: several keys from version 4 on ---


def upgrade_find_coordinator(request: Any, pinned: Any, context: RequestContext, names: TopicNames) -> Any:
    if request.__version__ >= 4:
        return convert(request, pinned)
    return convert(request, pinned, coordinator_keys=(request.key,))


def downgrade_find_coordinator(response: Any, target: Any, context: RequestContext, names: TopicNames) -> Any:
    if target.__version__ >= 4 or not response.coordinators:
        return convert(response, target)
    coordinator = response.coordinators[0]
    replaced = {name: getattr(coordinator, name) for name in ("error_code", "node_id", "host", "port")}
    if target.__version__ >= 1:
        replaced["error_message"] = coordinator.error_message
    return convert(response, target, **replaced)


# --- JoinGroup ---


def upgrade_join_group(request: Any, pinned: Any, context: RequestContext, names: TopicNames) -> Any:
    """Version 0 has one timeout for session and rebalance."""
    if request.__version__ > 0:
        return convert(request, pinned)
    return convert(request, pinned, rebalance_timeout=request.session_timeout)


# --- LeaveGroup: several members from version 3 on ---


def upgrade_leave_group(request: Any, pinned: Any, context: RequestContext, names: TopicNames) -> Any:
    if request.__version__ >= 3:
        return convert(request, pinned)
    member = convert(request, item_type(pinned, "members"))
    return convert(request, pinned, members=(member,))


def downgrade_leave_group(response: Any, target: Any, context: RequestContext, names: TopicNames) -> Any:
    if target.__version__ >= 3 or response.error_code is not ErrorCode.none or not response.members:
        return convert(response, target)
    return convert(response, target, error_code=response.members[0].error_code)
