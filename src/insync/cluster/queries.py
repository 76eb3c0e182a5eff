"""Requests to single nodes: how each of them sees a topic.

During a cut the nodes disagree. The answer with the newest leader epoch is right: a leader that was replaced without
learning of it still shows the previous epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from insync.sansio import Message
from insync.server import node_query
from insync.server.local_cluster import ClusterError, LocalNode
from insync.wire.errors import ErrorCode
from insync.wire.messages import api_versions, create_topics, describe_topic_partitions, metadata
from insync.wire.types import ms

TIMEOUT_S = 5.0
CREATE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition as one node sees it; leader -1 means that there is none."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


def partition_on(node: LocalNode, topic: str, index: int) -> PartitionView | None:
    """None if the node does not know the partition or does not answer.

    DescribeTopicPartitions is answered at once. Metadata may be delayed while a leader is being replaced, or by a node
    that does not know any broker yet.
    """
    request = describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=(describe_topic_partitions.TopicRequest(name=topic),),
        response_partition_limit=1,
        cursor=describe_topic_partitions.RequestCursor(topic_name=topic, partition_index=index),
    )
    try:
        partitions = _ask(node, request).topics[0].partitions
    except node_query.NoAnswerError:
        return None
    return next((_view(entry) for entry in partitions if entry.partition_index == index), None)


def newest_view(nodes: Iterable[LocalNode], topic: str, index: int) -> PartitionView | None:
    """The view with the newest leader epoch, preferably the leader's own."""
    views = [
        (view.leader_epoch, node.id == view.leader, view)
        for node in nodes
        if (view := partition_on(node, topic, index)) is not None
    ]
    return max(views, key=lambda entry: entry[:2])[2] if views else None


def knows_leaders(node: LocalNode, topic: str, partitions: int) -> bool:
    """Whether the node knows this many partitions of the topic, and a leader of each."""
    topic_entry = metadata.MetadataRequestTopic(topic_id=None, name=topic)
    request = metadata.MetadataRequest(
        topics=(topic_entry,), allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    try:
        entries = _ask(node, request).topics[0].partitions
    except node_query.NoAnswerError:
        return False
    return len(entries) == partitions and all(entry.leader_id >= 0 for entry in entries)


def create_topic(
    node: LocalNode, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
) -> None:
    topic_entry = create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=(),
        configs=tuple(create_topics.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
    )
    request = create_topics.CreateTopicsRequest(
        topics=(topic_entry,), timeout=ms(int(CREATE_TIMEOUT_S * 1_000)), validate_only=False
    )
    try:
        answer = _ask(node, request, CREATE_TIMEOUT_S).topics[0]
    except node_query.NoAnswerError as error:
        raise ClusterError(f"topic {name!r} was not created: node {node.id} did not answer ({error})") from error
    if answer.error_code is not ErrorCode.none:
        why = answer.error_message or "no reason given"
        raise ClusterError(f"topic {name!r} was not created: {answer.error_code.name.upper()} ({why})")


def answers(node: LocalNode) -> bool:
    """Whether the node answers ApiVersions, which may be long before it is in contact with its peers."""
    request = api_versions.ApiVersionsRequest(client_software_name="insync", client_software_version="")
    try:
        _ask(node, request)
    except node_query.NoAnswerError:
        return False
    return True


def _ask(node: LocalNode, request: Message, timeout_s: float = TIMEOUT_S) -> Message:
    return node_query.send_request(node.address, request, timeout_s, node.tls)


def _view(entry: Message) -> PartitionView:
    return PartitionView(
        entry.leader_id,
        entry.leader_epoch,
        tuple(entry.replica_nodes),
        tuple(entry.isr_nodes),
    )
