"""DescribeQuorum (55): the metadata quorum as its leader sees it. A broker that is not the leader asks the leader."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_quorum as api

if TYPE_CHECKING:
    from insync.node.node import Node

KEY = 55
VERSIONS = (0, 2)


def handle(node: Node, request: Message, token: int, now: int) -> None:
    if node.quorum.is_leader or node.broker_role is None:
        node.quorum.handle_describe_quorum(request, token, now)
    else:
        node.broker_role.forwarding.forward(sys.modules[__name__], request, token, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.DescribeQuorumResponse(error_code=error, error_message=None, topics=(), nodes=())
