"""DescribeGroups (15): the groups that this broker coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 15
VERSIONS = (0, 6)


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.groups.coordinator.describe(request, token, broker.client)
