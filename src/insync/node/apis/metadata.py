"""Metadata: brokers, topics and leaders, from this node's image. May start the creation of a missing topic."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from insync.metadata import topic_names
from insync.metadata.image import Image
from insync.metadata.partition import NO_LEADER, Partition
from insync.node.node_view import NodeView
from insync.sansio import Request
from insync.wire import operations
from insync.wire.errors import ErrorCode
from insync.wire.messages import metadata as api
from insync.wire.types import NO_DURATION


def handle(node: NodeView, event: Request, now: int) -> None:
    request: api.MetadataRequest = event.request
    image = node.image
    alive = [broker for broker in image.brokers.values() if not broker.fenced]
    topics = _topics(node, request, now)
    if request.include_topic_authorized_operations:
        topics = [replace(topic, topic_authorized_operations=operations.ON_TOPIC) for topic in topics]
    answer = api.MetadataResponse(
        throttle_time=NO_DURATION,
        brokers=tuple(
            api.MetadataResponseBroker(
                node_id=broker.id, host=broker.endpoints[0].host, port=broker.endpoints[0].port, rack=broker.rack
            )
            for broker in alive
            if broker.endpoints
        ),
        cluster_id=node.config.cluster_id,
        # Clients send controller requests to a live broker, which forwards them (W7).
        controller_id=next((b.id for b in alive if b.id == node.id), alive[0].id if alive else -1),
        topics=tuple(topics),
        error_code=ErrorCode.none,
    )
    node.out.reply(event.token, answer)


def _topics(node: NodeView, request: api.MetadataRequest, now: int) -> list[api.MetadataResponseTopic]:
    if request.topics is None:
        image = node.image
        complete = [(i, name) for i, name in image.topics.items() if i not in image.incomplete_topics]
        return [_known(node, topic_id, name) for topic_id, name in complete]
    if request.allow_auto_topic_creation and node.broker_role is not None:
        missing = [asked.name for asked in request.topics if asked.name and asked.name not in node.image.topic_ids]
        node.broker_role.topic_creation.create_missing(missing, now)
    return [_asked(node, asked.topic_id, asked.name) for asked in request.topics]


def _asked(node: NodeView, topic_id: UUID | None, name: str | None) -> api.MetadataResponseTopic:
    image = node.image
    if name is not None:
        known_id = image.complete_topic(name)
        return _known(node, known_id, name) if known_id else _absent(topic_names.error_if_absent(name), None, name)
    known_name = image.topics.get(topic_id) if topic_id is not None else None
    if topic_id is None or known_name is None or topic_id in image.incomplete_topics:
        return _absent(ErrorCode.unknown_topic_id, topic_id, None)
    return _known(node, topic_id, known_name)


def _known(node: NodeView, topic_id: UUID, name: str) -> api.MetadataResponseTopic:
    """Described once per change of the image: after a failover every client asks at once."""
    described = node.described_topics.get(topic_id)
    if described is None:
        described = node.described_topics[topic_id] = _topic(node.image, topic_id, name)
    return described


def _absent(error: ErrorCode, topic_id: UUID | None, name: str | None) -> api.MetadataResponseTopic:
    return api.MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, partitions=())


def _topic(image: Image, topic_id: UUID, name: str) -> api.MetadataResponseTopic:
    return api.MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=name,
        topic_id=topic_id,
        is_internal=name in topic_names.INTERNAL_TOPICS,
        partitions=tuple(_partition(image, partition) for partition in image.partitions[topic_id].values()),
    )


def _partition(image: Image, partition: Partition) -> api.MetadataResponsePartition:
    brokers = image.brokers
    leader = brokers.get(partition.leader)
    leaderless = leader is None or leader.fenced  # as in Kafka: clients cannot reach a leader that is not listed
    return api.MetadataResponsePartition(
        error_code=ErrorCode.leader_not_available if leaderless else ErrorCode.none,
        partition_index=partition.index,
        leader_id=NO_LEADER if leaderless else partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=tuple(b for b in partition.replicas if b not in brokers or brokers[b].fenced),
    )
