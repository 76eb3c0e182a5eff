"""DescribeQuorum: the metadata quorum as its leader knows it. A broker that is not the leader asks the leader."""

from __future__ import annotations

from insync.node.controller_apis import Forwardable
from insync.node.node_view import NodeView
from insync.sansio import Request
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_quorum as api
from insync.wire.types import METADATA_TOPIC


def handle(node: NodeView, event: Request, now: int) -> None:
    request: api.DescribeQuorumRequest = event.request
    if not _is_for_metadata_log(request):
        node.out.reply(event.token, _unknown(request))
    elif node.quorum.is_leader or node.broker_role is None:
        node.quorum.handle_describe_quorum(request, event.token, now)
    else:
        node.broker_role.forwarding.forward(_FORWARDABLE, request, event.token, event.client, now)


def _is_for_metadata_log(request: api.DescribeQuorumRequest) -> bool:
    asked = [(topic.topic_name, line.partition_index) for topic in request.topics for line in topic.partitions]
    return asked == [(METADATA_TOPIC, 0)]


def _unknown(request: api.DescribeQuorumRequest) -> api.DescribeQuorumResponse:
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


def _refuse(_: api.DescribeQuorumRequest, error: ErrorCode) -> api.DescribeQuorumResponse:
    return api.DescribeQuorumResponse(error_code=error, error_message=None, topics=(), nodes=())


_FORWARDABLE = Forwardable(refuse=_refuse)
