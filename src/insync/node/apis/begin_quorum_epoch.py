"""BeginQuorumEpoch (53): a new leader of the metadata quorum makes itself known (Q4). Between voters only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.node import Node

KEY = 53


def handle(node: Node, request: Message, token: int, now: int) -> None:
    node.quorum.handle_begin_quorum_epoch(request, token, now)
