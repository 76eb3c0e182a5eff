"""DescribeCluster (60): the brokers, or the controllers (KIP-919) if a controller is asked.

Nodes of both roles listen on one port, so what is asked decides.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from insync.sansio import Message
from insync.wire import operations
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_cluster as api
from insync.wire.types import NO_DURATION

if TYPE_CHECKING:
    from insync.node.node import Node

KEY = 60

_BROKERS, _CONTROLLERS = 1, 2


def handle(node: Node, request: Message, token: int, now: int) -> None:
    kind = request.endpoint_type
    if kind == _BROKERS:
        answer = _brokers(node, fenced_too=request.include_fenced_brokers)
    elif kind == _CONTROLLERS and node.config.is_controller:
        answer = _controllers(node)
    elif kind == _CONTROLLERS:
        answer = _answer(node, _BROKERS, -1, (), ErrorCode.mismatched_endpoint_type)
    else:
        answer = _answer(node, _BROKERS, -1, (), ErrorCode.unsupported_endpoint_type)
    if request.include_cluster_authorized_operations:
        answer = replace(answer, cluster_authorized_operations=operations.ON_CLUSTER)
    node.out.reply(token, answer)


def _brokers(node: Node, fenced_too: bool) -> Message:
    known = [broker for broker in node.image.brokers.values() if broker.endpoints]
    alive = [broker for broker in known if not broker.fenced]
    lines = tuple(
        _line(each.id, each.endpoints[0].host, each.endpoints[0].port, each.rack, fenced=each.fenced)
        for each in (known if fenced_too else alive)
    )
    # A live broker, which forwards what is for the controller (W7).
    forwarder = node.id if any(each.id == node.id for each in alive) else alive[0].id if alive else -1
    return _answer(node, _BROKERS, forwarder, lines)


def _controllers(node: Node) -> Message:
    voters = sorted(node.config.quorum.addresses.items())
    lines = tuple(_line(voter, host, port) for voter, (host, port) in voters)
    return _answer(node, _CONTROLLERS, node.quorum.leader_id, lines)


def _line(node_id: int, host: str, port: int, rack: str | None = None, *, fenced: bool = False) -> Message:
    return api.DescribeClusterBroker(broker_id=node_id, host=host, port=port, rack=rack, is_fenced=fenced)


def _answer(
    node: Node, kind: int, controller_id: int, lines: tuple[Message, ...], error: ErrorCode = ErrorCode.none
) -> Message:
    return api.DescribeClusterResponse(
        throttle_time=NO_DURATION,
        error_code=error,
        error_message=None if error is ErrorCode.none else "This node has no such endpoints to describe.",
        endpoint_type=kind,
        cluster_id=node.config.cluster_id,
        controller_id=controller_id,
        brokers=lines,
    )
