"""DeleteGroups (42): empty groups and their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 42
VERSIONS = (0, 2)


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.groups.coordinator.delete(request, token, now)
