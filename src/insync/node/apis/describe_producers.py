"""DescribeProducers: the producers that write to partitions of this broker. Not included: transactions."""

from __future__ import annotations

from dataclasses import replace

from insync.metadata import topic_names
from insync.node.broker_role import BrokerRole
from insync.node.parts import Parts
from insync.sansio import Request
from insync.storage.log import Log
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_producers as api
from insync.wire.types import NO_DURATION

_NO_COORDINATOR = -1


def _without_repeats(request: api.DescribeProducersRequest) -> api.DescribeProducersRequest:
    topics: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        topics.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    distinct = tuple(api.TopicRequest(name=name, partition_indexes=tuple(indexes)) for name, indexes in topics.items())
    return replace(request, topics=distinct)


PARTS = Parts(
    asked=("topics", "partition_indexes"),
    answered=("topics", "partitions"),
    keys=("name",),
    limit=100,
    without_repeats=_without_repeats,
)


def handle(broker: BrokerRole, event: Request, now: int) -> None:
    request: api.DescribeProducersRequest = event.request
    topics = tuple(
        api.TopicResponse(
            name=topic.name,
            partitions=tuple(_partition(broker, topic.name, index) for index in topic.partition_indexes),
        )
        for topic in request.topics
    )
    broker.out.reply(event.token, api.DescribeProducersResponse(throttle_time=NO_DURATION, topics=topics))


def _partition(broker: BrokerRole, topic: str, index: int) -> api.PartitionResponse:
    known = broker.metadata_loader.image.find(topic, index)
    if known is None:
        return _line(index, topic_names.error_if_absent(topic), ())
    replica = broker.replicas.replicas.get(known.key)
    if replica is None:
        return _line(index, ErrorCode.not_leader_or_follower, ())
    return _line(index, ErrorCode.none, _producers(replica.log))


def _line(index: int, error: ErrorCode, producers: tuple[api.ProducerState, ...]) -> api.PartitionResponse:
    return api.PartitionResponse(
        partition_index=index, error_code=error, error_message=None, active_producers=producers
    )


def _producers(log: Log) -> tuple[api.ProducerState, ...]:
    return tuple(
        api.ProducerState(
            producer_id=producer_id,
            producer_epoch=producer.epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.timestamp,
            coordinator_epoch=_NO_COORDINATOR,
        )
        for producer_id, producer in log.producers.producers.items()
    )
