"""Consumer groups: calls that became batched.

That joining takes two steps since version 4 is not hidden here: the coordinator goes by the client's version.
"""

from __future__ import annotations

from typing import Any

from insync.wire.convert import convert, item_type
from insync.wire.edge.exchange import Exchange, TopicNames
from insync.wire.errors import ErrorCode
from insync.wire.types import millis

OFFSET_COMMIT = 8
OFFSET_FETCH = 9
FIND_COORDINATOR = 10
JOIN_GROUP = 11
LEAVE_GROUP = 13


# --- OffsetCommit: versions 2 to 4 say how long to keep it ---


def upgrade_offset_commit(asked: Any, canonical: Any, exchange: Exchange, names: TopicNames) -> Any:
    retention = millis(asked.retention_time) if 2 <= asked.__version__ <= 4 else -1
    if retention < 0:
        return convert(asked, canonical)
    from insync.wire.old_requests import OldOffsetCommitRequest  # its messages are loaded when somebody sends one

    return convert(asked, OldOffsetCommitRequest, retention_ms=retention)


# --- OffsetFetch: many groups from version 8 on ---


def upgrade_offset_fetch(asked: Any, canonical: Any, exchange: Exchange, names: TopicNames) -> Any:
    if asked.__version__ >= 8:
        return convert(asked, canonical)
    group_type = item_type(canonical, "groups")
    topic_type = item_type(group_type, "topics")
    # Version 1 has no null, and an empty list asks for nothing.
    topics = None if asked.topics is None else tuple([convert(topic, topic_type) for topic in asked.topics])
    group = convert(asked, group_type, topics=topics)
    return convert(asked, canonical, groups=(group,))


def downgrade_offset_fetch(response: Any, target: Any, exchange: Exchange, names: TopicNames) -> Any:
    if target.__version__ >= 8 or not response.groups:
        return convert(response, target)
    group = response.groups[0]
    topics = group.topics
    if target.__version__ < 2 and group.error_code is not ErrorCode.none:
        return convert(response, target, topics=_each_partition(exchange.asked, target, group.error_code))
    topic_type = item_type(target, "topics")
    replaced = {"topics": tuple([convert(topic, topic_type) for topic in topics])}
    if target.__version__ >= 2:
        replaced["error_code"] = group.error_code
    return convert(response, target, **replaced)


def _each_partition(asked: Any, target: Any, error: ErrorCode) -> tuple[Any, ...]:
    """Version 1 has no place for the error of a group but the lines of its partitions."""
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
            for topic in asked.topics
        ]
    )


# --- FindCoordinator: many keys from version 4 on ---


def upgrade_find_coordinator(asked: Any, canonical: Any, exchange: Exchange, names: TopicNames) -> Any:
    if asked.__version__ >= 4:
        return convert(asked, canonical)
    return convert(asked, canonical, coordinator_keys=(asked.key,))


def downgrade_find_coordinator(response: Any, target: Any, exchange: Exchange, names: TopicNames) -> Any:
    if target.__version__ >= 4 or not response.coordinators:
        return convert(response, target)
    found = response.coordinators[0]
    replaced = {"error_code": found.error_code, "node_id": found.node_id, "host": found.host, "port": found.port}
    if target.__version__ >= 1:
        replaced["error_message"] = found.error_message
    return convert(response, target, **replaced)


# --- JoinGroup ---


def upgrade_join_group(asked: Any, canonical: Any, exchange: Exchange, names: TopicNames) -> Any:
    """Version 0 has one timeout for both."""
    if asked.__version__ > 0:
        return convert(asked, canonical)
    return convert(asked, canonical, rebalance_timeout=asked.session_timeout)


# --- LeaveGroup: many members from version 3 on ---


def upgrade_leave_group(asked: Any, canonical: Any, exchange: Exchange, names: TopicNames) -> Any:
    if asked.__version__ >= 3:
        return convert(asked, canonical)
    member = convert(asked, item_type(canonical, "members"))
    return convert(asked, canonical, members=(member,))


def downgrade_leave_group(response: Any, target: Any, exchange: Exchange, names: TopicNames) -> Any:
    if target.__version__ >= 3 or response.error_code is not ErrorCode.none or not response.members:
        return convert(response, target)
    return convert(response, target, error_code=response.members[0].error_code)
