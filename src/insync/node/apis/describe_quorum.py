"""DescribeQuorum (55): the metadata quorum as its leader sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message
from insync.wire.messages import describe_quorum as api

if TYPE_CHECKING:
    from insync.node.node import Node

REQUEST = api.DescribeQuorumRequest


def handle(node: Node, request: Message, token: int, now: int) -> None:
    node.quorum.handle_describe_quorum(request, token, now)
