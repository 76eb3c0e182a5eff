"""Produce and Fetch: topics by name below version 13, and compression that old versions do not know.

The node knows topics by id. A name without an id never reaches it: the edge answers those partitions itself. An answer
whose topic has gone meanwhile says what an old client understands.

A Fetch by names is always served outside of sessions. A session would have to remember names, and what they meant when
they were sent; a session id of 0 in the answer tells the client to go on with full requests, which is what most
clients of those versions do anyway.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from insync.wire.convert import convert, converter, item_type
from insync.wire.edge.exchange import Exchange, TopicNames
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch, produce

PRODUCE = 0
FETCH = 1
BY_ID = 13
"""The first version of either that names topics by id."""
SESSIONS = 7
"""The first Fetch with sessions."""
REPLICA_STATE = 15
"""The first Fetch with a broker epoch."""
PRODUCE_ZSTD = 7
FETCH_ZSTD = 10

_ATTRIBUTES = 22
"""Where a batch keeps the low byte of its attributes; the three lowest bits are the codec."""
_ZSTD = 4

_IN_OLD_WORDS = {
    ErrorCode.unknown_topic_id: ErrorCode.unknown_topic_or_partition,
    ErrorCode.inconsistent_topic_id: ErrorCode.unknown_topic_or_partition,
}


def is_zstd(records: Any) -> bool:
    return records is not None and len(records) > _ATTRIBUTES and records[_ATTRIBUTES] & 7 == _ZSTD


def in_old_words(error: ErrorCode) -> ErrorCode:
    """Errors about topic ids, told to a client that has never heard of them."""
    return _IN_OLD_WORDS.get(error, error)


# --- Produce ---


def upgrade_produce(asked: Any, canonical: Any, exchange: Exchange, names: TopicNames) -> Any:
    if asked.__version__ >= BY_ID:
        return convert(asked, canonical)
    topics = []
    for topic in asked.topic_data:
        topic_id = exchange.id_of(names, topic.name)
        if topic_id is None:
            unknown = ErrorCode.unknown_topic_or_partition
            exchange.refused += [(topic.name, data.index, unknown) for data in topic.partition_data]
            continue
        partitions = _without_zstd(topic, exchange) if asked.__version__ < PRODUCE_ZSTD else topic.partition_data
        topics.append(produce.TopicProduceData(topic_id=topic_id, partition_data=_produce_data(partitions)))
    return produce.ProduceRequest(
        transactional_id=asked.transactional_id, acks=asked.acks, timeout=asked.timeout, topic_data=tuple(topics)
    )


def _produce_data(partitions: Any) -> tuple[produce.PartitionProduceData, ...]:
    return tuple([produce.PartitionProduceData(index=data.index, records=data.records) for data in partitions])


def _without_zstd(topic: Any, exchange: Exchange) -> list[Any]:
    """W12: before version 7 nobody may send zstd, since consumers of that age could not read it."""
    kept = [data for data in topic.partition_data if not is_zstd(data.records)]
    if len(kept) < len(topic.partition_data):
        error = ErrorCode.unsupported_compression_type
        exchange.refused += [(topic.name, data.index, error) for data in topic.partition_data if is_zstd(data.records)]
    return kept


def downgrade_produce(response: Any, target: Any, exchange: Exchange, names: TopicNames) -> Any:
    if target.__version__ >= BY_ID:
        return convert(response, target)
    topic_type = item_type(target, "responses")
    line = converter(produce.PartitionProduceResponse, item_type(topic_type, "partition_responses"))
    topics = []
    for topic in response.responses:
        name = exchange.name_of(names, topic.topic_id)
        topics.append((name, [_reworded(line(partition)) for partition in topic.partition_responses]))
    for name, refused in exchange.refused_topics().items():
        topics.append((name, [_refused_produce(line, index, error) for index, error in refused]))
    responses = tuple([topic_type(name=name, partition_responses=tuple(lines)) for name, lines in topics])
    return convert(response, target, responses=responses)


def _refused_produce(line: Any, index: int, error: ErrorCode) -> Any:
    return line(produce.PartitionProduceResponse(index=index, error_code=error, base_offset=-1, record_errors=()))


# --- Fetch ---


def upgrade_fetch(asked: Any, canonical: Any, exchange: Exchange, names: TopicNames) -> Any:
    version = asked.__version__
    replaced: dict[str, Any] = {"topics": _topics_by_id(asked, exchange, names)}
    if version < REPLICA_STATE:
        replaced["replica_state"] = fetch.ReplicaState(replica_id=asked.replica_id, replica_epoch=-1)
    if version < BY_ID:
        replaced["forgotten_topics_data"] = _forgotten(asked, names)
        if version >= SESSIONS and asked.session_epoch == 0:
            replaced["session_epoch"] = -1
    if exchange.refused:
        replaced["min_bytes"] = 0  # bad news does not wait for good
    return convert(asked, canonical, **replaced)


def _topics_by_id(asked: Any, exchange: Exchange, names: TopicNames) -> tuple[fetch.FetchTopic, ...]:
    version = asked.__version__
    topics = []
    for topic in asked.topics:
        topic_id = topic.topic_id if version >= BY_ID else exchange.id_of(names, topic.topic)
        if topic_id is None and version < BY_ID:
            unknown = ErrorCode.unknown_topic_or_partition
            exchange.refused += [(topic.topic, line.partition, unknown) for line in topic.partitions]
        else:
            partitions = tuple([_fetch_line(line, version) for line in topic.partitions])
            topics.append(fetch.FetchTopic(topic_id=topic_id, partitions=partitions))
    return tuple(topics)


def _fetch_line(line: Any, version: int) -> fetch.FetchPartition:
    """By hand: a consumer sends one for every partition that it reads, in every request."""
    return fetch.FetchPartition(
        partition=line.partition,
        current_leader_epoch=line.current_leader_epoch if version >= 9 else -1,
        fetch_offset=line.fetch_offset,
        last_fetched_epoch=line.last_fetched_epoch if version >= 12 else -1,
        log_start_offset=line.log_start_offset if version >= 5 else -1,
        partition_max_bytes=line.partition_max_bytes,
    )


def _forgotten(asked: Any, names: TopicNames) -> tuple[fetch.ForgottenTopic, ...]:
    forgotten = [(names.id_of(topic.topic), topic.partitions) for topic in getattr(asked, "forgotten_topics_data", ())]
    return tuple(
        [fetch.ForgottenTopic(topic_id=topic_id, partitions=indexes) for topic_id, indexes in forgotten if topic_id]
    )


def downgrade_fetch(response: Any, target: Any, exchange: Exchange, names: TopicNames) -> Any:
    if target.__version__ >= BY_ID:
        return convert(response, target)
    topic_type = item_type(target, "responses")
    line = converter(fetch.PartitionData, item_type(topic_type, "partitions"))
    readable = _readable_without_zstd if target.__version__ < FETCH_ZSTD else _as_it_is
    topics = []
    for topic in response.responses:
        name = exchange.name_of(names, topic.topic_id)
        topics.append((name, [_reworded(line(readable(partition))) for partition in topic.partitions]))
    for name, refused in exchange.refused_topics().items():
        topics.append((name, [line(refused_fetch(index, error)) for index, error in refused]))
    responses = tuple([topic_type(topic=name, partitions=tuple(lines)) for name, lines in topics])
    return convert(response, target, responses=responses)


def refused_fetch(index: int, error: ErrorCode) -> fetch.PartitionData:
    return fetch.PartitionData(
        partition_index=index, error_code=error, high_watermark=-1, aborted_transactions=None, records=b""
    )


def _as_it_is(partition: fetch.PartitionData) -> fetch.PartitionData:
    return partition


def _readable_without_zstd(partition: fetch.PartitionData) -> fetch.PartitionData:
    if not is_zstd(partition.records):
        return partition
    return refused_fetch(partition.partition_index, ErrorCode.unsupported_compression_type)


# --- both ---


def _reworded(line: Any) -> Any:
    error = in_old_words(line.error_code)
    return line if error is line.error_code else replace(line, error_code=error)
