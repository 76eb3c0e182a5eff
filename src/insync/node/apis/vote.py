"""Vote (52), with pre-vote (Q4). Between voters only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message
from insync.wire.messages import vote as api

if TYPE_CHECKING:
    from insync.node.node import Node

REQUEST = api.VoteRequest


def handle(node: Node, request: Message, token: int, now: int) -> None:
    node.quorum.handle_vote(request, token, now)
