"""EndQuorumEpoch (54): a leader of the metadata quorum resigns (Q5). Between voters only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.node import Node

KEY = 54


def handle(node: Node, request: Message, token: int, now: int) -> None:
    node.quorum.handle_end_quorum_epoch(request, token, now)
