"""FetchSnapshot (59): a piece of a metadata snapshot (Q6). Between nodes only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.node import Node

KEY = 59


def handle(node: Node, request: Message, token: int, now: int) -> None:
    node.quorum.handle_fetch_snapshot(request, token, now)
