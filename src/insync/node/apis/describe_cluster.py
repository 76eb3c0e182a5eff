"""DescribeCluster (60): the brokers. Leaves out: endpoints of controllers (KIP-919), authorized operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_cluster as api
from insync.wire.types import NO_DURATION

if TYPE_CHECKING:
    from insync.node.node import Node

KEY = 60
VERSIONS = (0, 1)
REQUEST = api.DescribeClusterRequest

_BROKERS, _CONTROLLERS = 1, 2


def handle(node: Node, request: Message, token: int, now: int) -> None:
    error = _endpoint_error(request.endpoint_type)
    alive = [broker for broker in node.image.brokers.values() if not broker.fenced and broker.endpoints]
    node.out.reply(
        token,
        api.DescribeClusterResponse(
            throttle_time=NO_DURATION,
            error_code=error,
            error_message=None if error is ErrorCode.none else "Only the endpoints of brokers are described.",
            endpoint_type=request.endpoint_type,
            cluster_id=node.config.cluster_id,
            # A live broker, which forwards what is for the controller (WIRE.md, trap 4).
            controller_id=node.id if any(b.id == node.id for b in alive) else alive[0].id if alive else -1,
            brokers=tuple(
                api.DescribeClusterBroker(
                    broker_id=broker.id, host=broker.endpoints[0].host, port=broker.endpoints[0].port, rack=broker.rack
                )
                for broker in alive
                if error is ErrorCode.none
            ),
        ),
    )


def _endpoint_error(endpoint_type: int) -> ErrorCode:
    if endpoint_type == _BROKERS:
        return ErrorCode.none
    return ErrorCode.mismatched_endpoint_type if endpoint_type == _CONTROLLERS else ErrorCode.unsupported_endpoint_type
