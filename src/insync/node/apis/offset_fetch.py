"""OffsetFetch (9): where groups left off. Without transactions every offset is stable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 9
VERSIONS = (1, 9)


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.groups.coordinator.fetch(request, token)
