"""Produce and Fetch: topics by name below version 13, and compression that old versions do not know.

Nodes know topics by id. A name without an id never reaches the node: the translator answers for those partitions. If a
topic is deleted before the response, an old client gets an error that it understands.

A Fetch by name is always served without a session. A session would have to remember the names, and the ids that they
had when they were sent. Session id 0 in the response makes the client continue with full requests, which most clients
of those versions send anyway.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from insync.wire.convert import convert, converter, item_type
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch, produce
from insync.wire.versions.context import RequestContext, TopicNames

BY_ID = 13
"""The first version of either that has topic ids."""
SESSIONS = 7
"""The first Fetch with sessions."""
REPLICA_STATE = 15
"""The first Fetch with a broker epoch."""
PRODUCE_ZSTD = 7
FETCH_ZSTD = 10

_ATTRIBUTES = 22
"""Position of the low byte of a batch's attributes; the three lowest bits are the codec."""
_ZSTD = 4

_OLD_ERRORS = {
    ErrorCode.unknown_topic_id: ErrorCode.unknown_topic_or_partition,
    ErrorCode.inconsistent_topic_id: ErrorCode.unknown_topic_or_partition,
}


def is_zstd(records: Any) -> bool:
    return records is not None and len(records) > _ATTRIBUTES and records[_ATTRIBUTES] & 7 == _ZSTD


def to_old_error(error: ErrorCode) -> ErrorCode:
    """The error for a client whose version has no topic ids."""
    return _OLD_ERRORS.get(error, error)


# --- Produce ---


def upgrade_produce(request: Any, pinned: Any, context: RequestContext, names: TopicNames) -> Any:
    if request.__version__ >= BY_ID:
        return convert(request, pinned)
    topics = []
    for topic in request.topic_data:
        topic_id = context.id_of(names, topic.name)
        if topic_id is None:
            unknown = ErrorCode.unknown_topic_or_partition
            context.refused += [(topic.name, data.index, unknown) for data in topic.partition_data]
            continue
        partitions = _refuse_zstd(topic, context) if request.__version__ < PRODUCE_ZSTD else topic.partition_data
        topics.append(produce.TopicProduceData(topic_id=topic_id, partition_data=_produce_data(partitions)))
    return produce.ProduceRequest(
        transactional_id=request.transactional_id, acks=request.acks, timeout=request.timeout, topic_data=tuple(topics)
    )


def _produce_data(partitions: Any) -> tuple[produce.PartitionProduceData, ...]:
    return tuple([produce.PartitionProduceData(index=data.index, records=data.records) for data in partitions])


def _refuse_zstd(topic: Any, context: RequestContext) -> list[Any]:
    """W12: before version 7 clients may not send zstd, since consumers of that age could not read it."""
    kept = [data for data in topic.partition_data if not is_zstd(data.records)]
    if len(kept) < len(topic.partition_data):
        error = ErrorCode.unsupported_compression_type
        context.refused += [(topic.name, data.index, error) for data in topic.partition_data if is_zstd(data.records)]
    return kept


def downgrade_produce(response: Any, target: Any, context: RequestContext, names: TopicNames) -> Any:
    if target.__version__ >= BY_ID:
        return convert(response, target)
    topic_type = item_type(target, "responses")
    line = converter(produce.PartitionProduceResponse, item_type(topic_type, "partition_responses"))
    topics = []
    for topic in response.responses:
        name = context.name_of(names, topic.topic_id)
        topics.append((name, [_with_old_error(line(partition)) for partition in topic.partition_responses]))
    for name, refused in context.refused_by_topic().items():
        topics.append((name, [_refused_produce_line(line, index, error) for index, error in refused]))
    if context.refused:
        _restore_order(topics, [topic.name for topic in context.client_request.topic_data])
    responses = tuple([topic_type(name=name, partition_responses=tuple(lines)) for name, lines in topics])
    return convert(response, target, responses=responses)


def _refused_produce_line(line: Any, index: int, error: ErrorCode) -> Any:
    return line(produce.PartitionProduceResponse(index=index, error_code=error, base_offset=-1, record_errors=()))


# --- Fetch ---


def upgrade_fetch(request: Any, pinned: Any, context: RequestContext, names: TopicNames) -> Any:
    version = request.__version__
    replaced: dict[str, Any] = {"topics": _topics_by_id(request, context, names)}
    if version < REPLICA_STATE:
        replaced["replica_state"] = fetch.ReplicaState(replica_id=request.replica_id, replica_epoch=-1)
    if version < BY_ID:
        replaced["forgotten_topics_data"] = _forgotten(request, names)
        if version >= SESSIONS and request.session_epoch == 0:
            replaced["session_epoch"] = -1
    if context.refused:
        replaced["min_bytes"] = 0  # the refusals do not wait for records
    return convert(request, pinned, **replaced)


def _topics_by_id(request: Any, context: RequestContext, names: TopicNames) -> tuple[fetch.FetchTopic, ...]:
    version = request.__version__
    topics = []
    for topic in request.topics:
        topic_id = topic.topic_id if version >= BY_ID else context.id_of(names, topic.topic)
        if topic_id is None and version < BY_ID:
            unknown = ErrorCode.unknown_topic_or_partition
            context.refused += [(topic.topic, line.partition, unknown) for line in topic.partitions]
        else:
            partitions = tuple([_fetch_line(line, version) for line in topic.partitions])
            topics.append(fetch.FetchTopic(topic_id=topic_id, partitions=partitions))
    return tuple(topics)


def _fetch_line(line: Any, version: int) -> fetch.FetchPartition:
    """Without `convert`: a consumer sends one for every partition that it reads, in every request."""
    return fetch.FetchPartition(
        partition=line.partition,
        current_leader_epoch=line.current_leader_epoch if version >= 9 else -1,
        fetch_offset=line.fetch_offset,
        last_fetched_epoch=line.last_fetched_epoch if version >= 12 else -1,
        log_start_offset=line.log_start_offset if version >= 5 else -1,
        partition_max_bytes=line.partition_max_bytes,
    )


def _forgotten(request: Any, names: TopicNames) -> tuple[fetch.ForgottenTopic, ...]:
    forgotten = [
        (names.id_of(topic.topic), topic.partitions) for topic in getattr(request, "forgotten_topics_data", ())
    ]
    return tuple(
        [fetch.ForgottenTopic(topic_id=topic_id, partitions=indexes) for topic_id, indexes in forgotten if topic_id]
    )


def downgrade_fetch(response: Any, target: Any, context: RequestContext, names: TopicNames) -> Any:
    if target.__version__ >= BY_ID:
        return convert(response, target)
    topic_type = item_type(target, "responses")
    line = converter(fetch.PartitionData, item_type(topic_type, "partitions"))
    check = _refuse_if_zstd if target.__version__ < FETCH_ZSTD else _unchanged
    topics = []
    for topic in response.responses:
        name = context.name_of(names, topic.topic_id)
        topics.append((name, [_with_old_error(line(check(partition))) for partition in topic.partitions]))
    # A response that is an error as a whole has no partitions.
    refused_names = {} if response.error_code is not ErrorCode.none else context.refused_by_topic()
    for name, refused in refused_names.items():
        topics.append((name, [line(refused_fetch_line(index, error)) for index, error in refused]))
    if context.refused:
        _restore_order(topics, [topic.topic for topic in context.client_request.topics])
    responses = tuple([topic_type(topic=name, partitions=tuple(lines)) for name, lines in topics])
    return convert(response, target, responses=responses)


def refused_fetch_line(index: int, error: ErrorCode) -> fetch.PartitionData:
    return fetch.PartitionData(
        partition_index=index, error_code=error, high_watermark=-1, aborted_transactions=(), records=b""
    )


def _unchanged(partition: fetch.PartitionData) -> fetch.PartitionData:
    return partition


def _refuse_if_zstd(partition: fetch.PartitionData) -> fetch.PartitionData:
    if not is_zstd(partition.records):
        return partition
    return refused_fetch_line(partition.partition_index, ErrorCode.unsupported_compression_type)


# --- both ---


def _restore_order(topics: list[tuple[str, list[Any]]], names: list[str]) -> None:
    """A3: the order of a response must not say which topics the translator refused because they do not exist, and which
    the node refused because the client may not see them."""
    positions = {name: position for position, name in reversed(list(enumerate(names)))}
    topics.sort(key=lambda topic: positions.get(topic[0], len(names)))


def _with_old_error(line: Any) -> Any:
    error = to_old_error(line.error_code)
    return line if error is line.error_code else replace(line, error_code=error)
