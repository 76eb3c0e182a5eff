"""What the nodes say about a topic, asked over their own protocol.

During a cut they disagree: the one with the newest leader epoch is right, because a leader that was replaced without
hearing of it still shows the epoch before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from insync.sansio import Message
from insync.server import ask
from insync.server.local_cluster import ClusterError, LocalNode
from insync.wire.errors import ErrorCode
from insync.wire.messages import api_versions, create_topics, describe_topic_partitions, metadata
from insync.wire.types import ms

ANSWER_S = 5.0
CREATE_S = 30.0


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition as one node sees it; a leader of -1 is none."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


def partition_on(node: LocalNode, topic: str, index: int) -> PartitionView | None:
    """None if this node does not know it, or does not answer. Asked in a way that is answered at once: who asks for
    Metadata may be kept waiting, while a leader is being replaced and at a node that knows nobody yet."""
    request = describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=(describe_topic_partitions.TopicRequest(name=topic),),
        response_partition_limit=1,
        cursor=describe_topic_partitions.RequestCursor(topic_name=topic, partition_index=index),
    )
    try:
        found = ask.ask(node.address, request, ANSWER_S).topics[0].partitions
    except ask.NoAnswer:
        return None
    return next((_view(entry) for entry in found if entry.partition_index == index), None)


def newest(nodes: Iterable[LocalNode], topic: str, index: int) -> PartitionView | None:
    """As the latest leader sees it, or whoever has heard of it."""
    views = [(node.id, view) for node in nodes if (view := partition_on(node, topic, index)) is not None]
    _, view = max(views, key=lambda each: (each[1].leader_epoch, each[0] == each[1].leader), default=(0, None))
    return view


def knows_leaders(node: LocalNode, topic: str, partitions: int) -> bool:
    """Whether this node knows so many partitions of a topic, and who leads each."""
    asked = metadata.MetadataRequestTopic(topic_id=None, name=topic)
    request = metadata.MetadataRequest(
        topics=(asked,), allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    try:
        found = ask.ask(node.address, request, ANSWER_S).topics[0].partitions
    except ask.NoAnswer:
        return False
    return len(found) == partitions and all(entry.leader_id >= 0 for entry in found)


def create(node: LocalNode, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> None:
    wanted = create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=(),
        configs=tuple(create_topics.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
    )
    request = create_topics.CreateTopicsRequest(
        topics=(wanted,), timeout=ms(int(CREATE_S * 1_000)), validate_only=False
    )
    try:
        answer = ask.ask(node.address, request, CREATE_S).topics[0]
    except ask.NoAnswer as error:
        raise ClusterError(f"topic {name!r} was not created: node {node.id} does not answer ({error})") from error
    if answer.error_code is not ErrorCode.none:
        why = answer.error_message or "no reason given"
        raise ClusterError(f"topic {name!r} was not created: {answer.error_code.name.upper()} ({why})")


def answers(node: LocalNode) -> bool:
    """Whether this node is up as far as a client can tell, which may be long before it is in touch with others."""
    request = api_versions.ApiVersionsRequest(client_software_name="insync", client_software_version="")
    try:
        ask.ask(node.address, request, ANSWER_S)
    except ask.NoAnswer:
        return False
    return True


def _view(entry: Message) -> PartitionView:
    return PartitionView(
        entry.leader_id,
        entry.leader_epoch,
        tuple(entry.replica_nodes),
        tuple(entry.isr_nodes),
    )
