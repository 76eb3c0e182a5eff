"""Fetch (1), by topic id: followers and consumers read the partitions led here (F, H5); voters and observers read the
metadata log (Q4). One request asks for the one or the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message
from insync.wire.types import METADATA_TOPIC_ID

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole
    from insync.node.node import Node

KEY = 1
"""Version 18 adds the high watermark that a replica knows (KIP-1166): a leader of the metadata quorum need not be told,
it remembers what it sent (`quorum.leader`). So nodes speak version 17 to each other, which older nodes know too.
"""


def handle(node: Node, request: Message, token: int, now: int) -> None:
    topics = request.topics
    if topics and topics[0].topic_id == METADATA_TOPIC_ID:
        node.quorum.handle_fetch(request, token, now)
    elif node.broker_role:
        node.broker_role.replicas.fetch(request, token, now, more=node.broker_role.more)
    else:
        node.out.hang_up(token, "a controller holds no partitions")


def abandon(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.replicas.abandon_fetch(token)
