"""DescribeQuorum (55): the metadata quorum as its leader sees it. A broker that is not the leader asks the leader."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_quorum as api
from insync.wire.types import METADATA_TOPIC

if TYPE_CHECKING:
    from insync.node.node import Node

KEY = 55


def handle(node: Node, request: Message, token: int, now: int) -> None:
    if not _asks_for_the_metadata_log(request):
        node.out.reply(token, _unknown(request))
    elif node.quorum.is_leader or node.broker_role is None:
        node.quorum.handle_describe_quorum(request, token, now)
    else:
        node.broker_role.forwarding.forward(sys.modules[__name__], request, token, now)


def _asks_for_the_metadata_log(request: Message) -> bool:
    asked = [(topic.topic_name, line.partition_index) for topic in request.topics for line in topic.partitions]
    return asked == [(METADATA_TOPIC, 0)]


def _unknown(request: Message) -> Message:
    topics = tuple(
        api.ResponseTopic(
            topic_name=topic.topic_name,
            partitions=tuple(
                api.ResponsePartition(
                    partition_index=line.partition_index,
                    error_code=ErrorCode.unknown_topic_or_partition,
                    error_message=None,
                    leader_id=0,
                    leader_epoch=0,
                    high_watermark=0,
                    current_voters=(),
                    observers=(),
                )
                for line in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return api.DescribeQuorumResponse(error_code=ErrorCode.none, error_message=None, topics=topics, nodes=())


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.DescribeQuorumResponse(error_code=error, error_message=None, topics=(), nodes=())
