"""Metadata, ListOffsets and administration: what versions changed besides adding fields."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from insync.wire.convert import convert, item_type
from insync.wire.errors import ErrorCode
from insync.wire.messages import delete_topics, list_offsets
from insync.wire.versions.context import RequestContext, TopicNames

_UPGRADE = 1
_SAFE_DOWNGRADE = 2
_UNDERSTOOD_SINCE = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
"""Special timestamps of ListOffsets, and the version that introduced each."""
_OFFSET_NOT_AVAILABLE_SINCE = 5
_LISTENER_NOT_FOUND_SINCE = 6


# --- ListOffsets ---


def downgrade_list_offsets(response: Any, target: Any, context: RequestContext, names: TopicNames) -> Any:
    version = target.__version__
    special = {
        (topic.name, partition.partition_index): partition.timestamp
        for topic in context.client_request.topics
        for partition in topic.partitions
        if partition.timestamp < 0 and version < _UNDERSTOOD_SINCE.get(partition.timestamp, version + 1)
    }
    if not special and version >= _OFFSET_NOT_AVAILABLE_SINCE:
        return response
    topics = tuple(
        [
            replace(
                topic,
                partitions=tuple(
                    [
                        _offset_line(line, (topic.name, line.partition_index) in special, version)
                        for line in topic.partitions
                    ]
                ),
            )
            for topic in response.topics
        ]
    )
    return replace(response, topics=topics)


def _offset_line(line: Any, is_unknown: bool, version: int) -> Any:
    if is_unknown:
        return list_offsets.ListOffsetsPartitionResponse(
            partition_index=line.partition_index, error_code=ErrorCode.unsupported_version
        )
    if line.error_code is ErrorCode.offset_not_available and version < _OFFSET_NOT_AVAILABLE_SINCE:  # W20
        return replace(line, error_code=ErrorCode.leader_not_available)
    return line


# --- Metadata ---


def upgrade_metadata(request: Any, pinned: Any, context: RequestContext, names: TopicNames) -> Any:
    """W9: version 0 has no null, and means all topics by an empty list."""
    if request.__version__ == 0 and not request.topics:
        return convert(request, pinned, topics=None)
    return convert(request, pinned)


def downgrade_metadata(response: Any, target: Any, context: RequestContext, names: TopicNames) -> Any:
    if target.__version__ < _LISTENER_NOT_FOUND_SINCE:
        response = replace(response, topics=tuple([_without_listener_errors(topic) for topic in response.topics]))
    if context.wants_cluster_operations:
        return convert(response, target, cluster_authorized_operations=context.cluster_operations)
    return convert(response, target)


def _without_listener_errors(topic: Any) -> Any:
    """Older clients do not know that a leader may lack the listener that they use."""
    if all(partition.error_code is not ErrorCode.listener_not_found for partition in topic.partitions):
        return topic
    partitions = [
        replace(partition, error_code=ErrorCode.leader_not_available)
        if partition.error_code is ErrorCode.listener_not_found
        else partition
        for partition in topic.partitions
    ]
    return replace(topic, partitions=tuple(partitions))


# --- ApiVersions ---


def downgrade_api_versions(response: Any, target: Any, context: RequestContext, names: TopicNames) -> Any:
    """Clients of version 3 fail to read a feature whose lowest level is 0, so it is left out."""
    if target.__version__ < 4 and response.supported_features:
        readable = tuple([feature for feature in response.supported_features if feature.min_version > 0])
        response = replace(response, supported_features=readable)
    return convert(response, target)


# --- DeleteTopics ---


def upgrade_delete_topics(request: Any, pinned: Any, context: RequestContext, names: TopicNames) -> Any:
    if request.__version__ >= 6:
        return convert(request, pinned)
    topics = tuple([delete_topics.DeleteTopicState(name=name, topic_id=None) for name in request.topic_names])
    return convert(request, pinned, topics=topics)


# --- InitProducerId ---


def downgrade_init_producer_id(response: Any, target: Any, context: RequestContext, names: TopicNames) -> Any:
    if target.__version__ < 4 and response.error_code is ErrorCode.producer_fenced:
        response = replace(response, error_code=ErrorCode.invalid_producer_epoch)
    return convert(response, target)


# --- UpdateFeatures ---


def upgrade_update_features(request: Any, pinned: Any, context: RequestContext, names: TopicNames) -> Any:
    """Version 0 has a flag for downgrades; later versions have the type of the upgrade."""
    if request.__version__ > 0:
        return convert(request, pinned)
    update_type = item_type(pinned, "feature_updates")
    updates = tuple(
        [
            convert(update, update_type, upgrade_type=_SAFE_DOWNGRADE if update.allow_downgrade else _UPGRADE)
            for update in request.feature_updates
        ]
    )
    return convert(request, pinned, feature_updates=updates)


def downgrade_update_features(response: Any, target: Any, context: RequestContext, names: TopicNames) -> Any:
    """Before version 2 every feature has a result of its own if the request succeeds; since then all share one."""
    if target.__version__ >= 2 or type(response).__version__ < 2:
        return convert(response, target)
    if response.error_code is not ErrorCode.none:
        return convert(response, target, results=())
    line = item_type(target, "results")
    updates = context.client_request.feature_updates
    results = [line(feature=update.feature, error_code=ErrorCode.none, error_message=None) for update in updates]
    return convert(response, target, results=tuple(results))
