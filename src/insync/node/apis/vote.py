"""Vote (52), with pre-vote (Q4). Between voters only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.node import Node

KEY = 52


def handle(node: Node, request: Message, token: int, now: int) -> None:
    node.quorum.handle_vote(request, token, now)
