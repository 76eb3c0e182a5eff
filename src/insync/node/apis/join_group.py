"""JoinGroup (11): answered when the group's next generation begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 11


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.groups.coordinator.join(request, token, broker.client, now)


def abandon(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.groups.coordinator.abandon_join(request, token, now)
