"""Metadata (3): brokers, topics and leaders, from this node's image. A topic that is missing may be made on the way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from insync.metadata import topic_names
from insync.metadata.image import Image
from insync.metadata.partition import NO_LEADER, Partition
from insync.node.parts import Parts, without_repeats
from insync.sansio import Message
from insync.wire import operations
from insync.wire.errors import ErrorCode
from insync.wire.messages import metadata as api
from insync.wire.types import NO_DURATION

if TYPE_CHECKING:
    from insync.node.node import Node

KEY = 3

PARTS = Parts(asked=("topics",), answered=("topics",), limit=200, without_repeats=without_repeats("topics"))


def handle(node: Node, request: Message, token: int, now: int) -> None:
    image = node.image
    alive = [broker for broker in image.brokers.values() if not broker.fenced]
    node.out.reply(
        token,
        api.MetadataResponse(
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
            topics=_with_operations(_topics(node, request, now), request.include_topic_authorized_operations),
            error_code=ErrorCode.none,
        ),
    )


def _topics(node: Node, request: Message, now: int) -> list[Message]:
    if request.topics is None:
        image = node.image
        return [_known(node, i, name) for i, name in image.topics.items() if i not in image.incomplete_topics]
    if request.allow_auto_topic_creation and node.broker_role is not None:
        missing = [asked.name for asked in request.topics if asked.name and asked.name not in node.image.topic_ids]
        node.broker_role.topic_creation.wanted(missing, now)
    return [_asked(node, asked.topic_id, asked.name) for asked in request.topics]


def _with_operations(topics: list[Message], asked: bool) -> tuple[Message, ...]:
    if not asked:
        return tuple(topics)
    return tuple(replace(topic, topic_authorized_operations=operations.ON_TOPIC) for topic in topics)


def _asked(node: Node, topic_id: UUID | None, name: str | None) -> Message:
    if name is not None:
        found = node.image.complete_topic(name)
        return _known(node, found, name) if found else _absent(topic_names.absence(name), None, name)
    known = node.image.topics.get(topic_id) if topic_id is not None else None
    if topic_id is None or known is None or topic_id in node.image.incomplete_topics:
        return _absent(ErrorCode.unknown_topic_id, topic_id, None)
    return _known(node, topic_id, known)


def _known(node: Node, topic_id: UUID, name: str) -> Message:
    """After a failover every client asks at once: a topic is described once per change of the image."""
    described = node.described_topics.get(topic_id)
    if described is None:
        described = node.described_topics[topic_id] = _topic(node.image, topic_id, name)
    return described


def _absent(error: ErrorCode, topic_id: UUID | None, name: str | None) -> Message:
    return api.MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, partitions=())


def _topic(image: Image, topic_id: UUID, name: str) -> Message:
    return api.MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=name,
        topic_id=topic_id,
        is_internal=topic_names.is_internal(name),
        partitions=tuple(_partition(image, partition) for partition in image.partitions[topic_id].values()),
    )


def _partition(image: Image, partition: Partition) -> Message:
    brokers = image.brokers
    leader = brokers.get(partition.leader)
    leaderless = leader is None or leader.fenced  # as in Kafka: a leader that is not among the brokers is no help
    return api.MetadataResponsePartition(
        error_code=ErrorCode.leader_not_available if leaderless else ErrorCode.none,
        partition_index=partition.index,
        leader_id=NO_LEADER if leaderless else partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=tuple(b for b in partition.replicas if b not in brokers or brokers[b].fenced),
    )
