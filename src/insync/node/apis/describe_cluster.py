"""DescribeCluster: the brokers, or the controllers (KIP-919) if the request asks a controller for them.

A node with both roles has one listener for both, so the request's endpoint type decides.
"""

from __future__ import annotations

from dataclasses import replace

from insync.node.node_view import NodeView
from insync.sansio import Request
from insync.wire import operations
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_cluster as api
from insync.wire.types import NO_DURATION

_BROKERS, _CONTROLLERS = 1, 2


def handle(node: NodeView, event: Request, now: int) -> None:
    request: api.DescribeClusterRequest = event.request
    kind = request.endpoint_type
    if kind == _BROKERS:
        answer = _describe_brokers(node, event.client.listener, with_fenced=request.include_fenced_brokers)
    elif kind == _CONTROLLERS and node.config.is_controller:
        answer = _describe_controllers(node)
    elif kind == _CONTROLLERS:
        answer = _answer(node, _BROKERS, -1, (), ErrorCode.mismatched_endpoint_type)
    else:
        answer = _answer(node, _BROKERS, -1, (), ErrorCode.unsupported_endpoint_type)
    if request.include_cluster_authorized_operations:
        answer = replace(answer, cluster_authorized_operations=operations.ON_CLUSTER)
    node.out.reply(event.token, answer)


def _describe_brokers(node: NodeView, listener: str, with_fenced: bool) -> api.DescribeClusterResponse:
    alive = [broker for broker in node.image.brokers.values() if not broker.fenced]
    lines = tuple(
        _line(broker.id, endpoint.host, endpoint.port, broker.rack, fenced=broker.fenced)
        for broker in (node.image.brokers.values() if with_fenced else alive)
        if (endpoint := broker.endpoint(listener)) is not None
    )
    # A live broker, which forwards what is for the controller (W7).
    forwarder = node.id if any(broker.id == node.id for broker in alive) else alive[0].id if alive else -1
    return _answer(node, _BROKERS, forwarder, lines)


def _describe_controllers(node: NodeView) -> api.DescribeClusterResponse:
    voters = sorted(node.config.quorum.addresses.items())
    lines = tuple(_line(voter, host, port) for voter, (host, port) in voters)
    return _answer(node, _CONTROLLERS, node.quorum.leader_id, lines)


def _line(
    node_id: int, host: str, port: int, rack: str | None = None, *, fenced: bool = False
) -> api.DescribeClusterBroker:
    return api.DescribeClusterBroker(broker_id=node_id, host=host, port=port, rack=rack, is_fenced=fenced)


def _answer(
    node: NodeView,
    kind: int,
    controller_id: int,
    lines: tuple[api.DescribeClusterBroker, ...],
    error: ErrorCode = ErrorCode.none,
) -> api.DescribeClusterResponse:
    return api.DescribeClusterResponse(
        throttle_time=NO_DURATION,
        error_code=error,
        error_message=None if error is ErrorCode.none else "This node has no such endpoints to describe.",
        endpoint_type=kind,
        cluster_id=node.config.cluster_id,
        controller_id=controller_id,
        brokers=lines,
    )
