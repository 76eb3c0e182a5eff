"""DescribeTopicPartitions: partitions with their ELR, a page at a time.

Topics are listed by name; the cursor of an answer names the first partition that did not fit. ELR lists are empty where
there are none, never null: Java clients fail on null (W10).
"""

from __future__ import annotations

from insync.metadata import topic_names
from insync.metadata.image import Image
from insync.metadata.partition import NO_LEADER, Partition
from insync.node.apis.metadata import is_offline
from insync.node.node_view import NodeView
from insync.sansio import Request
from insync.wire import operations
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_topic_partitions as api
from insync.wire.types import NO_DURATION

MAX_PARTITIONS = 2_000


def handle(node: NodeView, event: Request, now: int) -> None:
    request: api.DescribeTopicPartitionsRequest = event.request
    image, cursor = node.image, request.cursor
    if cursor is not None and cursor.partition_index < 0:
        refused = tuple(_refused(topic.name) for topic in request.topics)
        node.out.reply(event.token, api.DescribeTopicPartitionsResponse(throttle_time=NO_DURATION, topics=refused))
        return
    names = sorted(dict.fromkeys(topic.name for topic in request.topics) or _complete_topics(image))
    first = 0
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
        first = max(0, cursor.partition_index) if names and names[0] == cursor.topic_name else 0
    room = max(1, min(request.response_partition_limit, MAX_PARTITIONS))
    topics, next_cursor = _page(image, names, first, room, event.client.listener)
    answer = api.DescribeTopicPartitionsResponse(
        throttle_time=NO_DURATION, topics=tuple(topics), next_cursor=next_cursor
    )
    node.out.reply(event.token, answer)


def _complete_topics(image: Image) -> list[str]:
    return [name for name, topic_id in image.topic_ids.items() if topic_id not in image.incomplete_topics]


def _refused(name: str) -> api.DescribeTopicPartitionsResponseTopic:
    return api.DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.invalid_request, name=name, topic_id=None, is_internal=False, partitions=()
    )


def _page(
    image: Image, names: list[str], first: int, room: int, listener: str
) -> tuple[list[api.DescribeTopicPartitionsResponseTopic], api.ResponseCursor | None]:
    topics: list[api.DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if room == 0:
            return topics, api.ResponseCursor(topic_name=name, partition_index=0)
        partitions = _partitions(image, name, first)
        topics.append(_topic(image, name, partitions[:room], listener))
        if len(partitions) > room:
            return topics, api.ResponseCursor(topic_name=name, partition_index=partitions[room].index)
        room = max(0, room - max(1, len(partitions)))  # a topic without partitions takes the place of one
        first = 0
    return topics, None


def _partitions(image: Image, name: str, first: int) -> list[Partition]:
    topic_id = image.complete_topic(name)
    return [] if topic_id is None else [p for p in image.partitions[topic_id].values() if p.index >= first]


def _topic(
    image: Image, name: str, partitions: list[Partition], listener: str
) -> api.DescribeTopicPartitionsResponseTopic:
    topic_id = image.complete_topic(name)
    return api.DescribeTopicPartitionsResponseTopic(
        error_code=topic_names.error_if_absent(name) if topic_id is None else ErrorCode.none,
        name=name,
        topic_id=topic_id,
        is_internal=name in topic_names.INTERNAL_TOPICS,
        partitions=tuple(_partition(image, partition, listener) for partition in partitions),
        topic_authorized_operations=operations.ON_TOPIC,  # unlike in Metadata, no field asks for them
    )


def _partition(image: Image, partition: Partition, listener: str) -> api.DescribeTopicPartitionsResponsePartition:
    leaderless = partition.leader == NO_LEADER
    leader = image.brokers.get(partition.leader)
    is_reachable = leader is None or leader.endpoint(listener) is not None
    return api.DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.leader_not_available if leaderless else ErrorCode.none,
        partition_index=partition.index,
        leader_id=partition.leader if is_reachable else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.elr,
        last_known_elr=partition.last_known_elr,
        offline_replicas=tuple(b for b in partition.replicas if is_offline(image, b, listener)),
    )
