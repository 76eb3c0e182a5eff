"""FetchSnapshot (59): a piece of a metadata snapshot (Q6). Between nodes only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message
from insync.wire.messages import fetch_snapshot as api

if TYPE_CHECKING:
    from insync.node.node import Node

REQUEST = api.FetchSnapshotRequest


def handle(node: Node, request: Message, token: int, now: int) -> None:
    node.quorum.handle_fetch_snapshot(request, token, now)
