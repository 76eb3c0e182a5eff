"""Metadata: brokers, topics and leaders, from this node's image. May start the creation of a missing topic.

Brokers are described by their endpoints of the listener that the request arrived on; those without it are left out.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from insync.metadata import topic_names
from insync.metadata.image import Image
from insync.metadata.partition import NO_LEADER, Partition
from insync.node.node_view import NodeView
from insync.sansio import Client, Request
from insync.wire import operations
from insync.wire.errors import ErrorCode
from insync.wire.messages import metadata as api
from insync.wire.types import NO_DURATION


def handle(node: NodeView, event: Request, now: int) -> None:
    request: api.MetadataRequest = event.request
    image = node.image
    alive = [broker for broker in image.brokers.values() if not broker.fenced]
    listener = event.client.listener
    topics = _topics(node, request, event.client, now)
    if request.include_topic_authorized_operations:
        topics = [
            topic if topic.name is None else replace(topic, topic_authorized_operations=operations.ON_TOPIC)
            for topic in topics
        ]
    answer = api.MetadataResponse(
        throttle_time=NO_DURATION,
        brokers=tuple(
            api.MetadataResponseBroker(node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker in alive
            if (endpoint := broker.endpoint(listener)) is not None
        ),
        cluster_id=node.config.cluster_id,
        # Clients send controller requests to a live broker, which forwards them (W7).
        controller_id=next((b.id for b in alive if b.id == node.id), alive[0].id if alive else -1),
        topics=tuple(topics),
        error_code=ErrorCode.none,
    )
    node.out.reply(event.token, answer)


def _topics(node: NodeView, request: api.MetadataRequest, client: Client, now: int) -> list[api.MetadataResponseTopic]:
    listener = client.listener
    if request.topics is None:
        image = node.image
        complete = [(i, name) for i, name in image.topics.items() if i not in image.incomplete_topics]
        return [_known(node, topic_id, name, listener) for topic_id, name in complete]
    if request.allow_auto_topic_creation and node.broker_role is not None:
        missing = [asked.name for asked in request.topics if asked.name and asked.name not in node.image.topic_ids]
        node.broker_role.topic_creation.create_missing(missing, client, now)
    return [_asked(node, asked.topic_id, asked.name, listener) for asked in request.topics]


def _asked(node: NodeView, topic_id: UUID | None, name: str | None, listener: str) -> api.MetadataResponseTopic:
    image = node.image
    if name is not None:
        known_id = image.complete_topic(name)
        if known_id:
            return _known(node, known_id, name, listener)
        return _absent(topic_names.error_if_absent(name), None, name)
    known_name = image.topics.get(topic_id) if topic_id is not None else None
    if topic_id is None or known_name is None or topic_id in image.incomplete_topics:
        return _absent(ErrorCode.unknown_topic_id, topic_id, None)
    return _known(node, topic_id, known_name, listener)


def _known(node: NodeView, topic_id: UUID, name: str, listener: str) -> api.MetadataResponseTopic:
    """Described once per change of the image: after a failover every client asks at once."""
    described = node.described_topics.get((topic_id, listener))
    if described is None:
        described = node.described_topics[topic_id, listener] = _topic(node.image, topic_id, name, listener)
    return described


def _absent(error: ErrorCode, topic_id: UUID | None, name: str | None) -> api.MetadataResponseTopic:
    return api.MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, partitions=())


def _topic(image: Image, topic_id: UUID, name: str, listener: str) -> api.MetadataResponseTopic:
    return api.MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=name,
        topic_id=topic_id,
        is_internal=name in topic_names.INTERNAL_TOPICS,
        partitions=tuple(_partition(image, partition, listener) for partition in image.partitions[topic_id].values()),
    )


def _partition(image: Image, partition: Partition, listener: str) -> api.MetadataResponsePartition:
    """As in Kafka, a leader that is not listed is not named: its clients could not reach it."""
    brokers = image.brokers
    leader = brokers.get(partition.leader)
    if leader is None or leader.fenced:
        error = ErrorCode.leader_not_available
    else:
        error = ErrorCode.none if leader.endpoint(listener) else ErrorCode.listener_not_found
    return api.MetadataResponsePartition(
        error_code=error,
        partition_index=partition.index,
        leader_id=partition.leader if error is ErrorCode.none else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=tuple(b for b in partition.replicas if is_offline(image, b, listener)),
    )


def is_offline(image: Image, broker_id: int, listener: str) -> bool:
    """Whether clients of this listener cannot reach the broker."""
    broker = image.brokers.get(broker_id)
    return broker is None or broker.fenced or broker.endpoint(listener) is None
