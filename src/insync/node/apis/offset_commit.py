"""OffsetCommit (8): answered when the offsets are committed to the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 8
VERSIONS = (2, 9)


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.groups.coordinator.commit(request, token, broker.client, now)
