"""ListOffsets (2): the first and last offsets, and those of a time (H4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 2
VERSIONS = (1, 11)


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.replicas.list_offsets(request, token, now)
