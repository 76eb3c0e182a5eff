"""ListGroups (16): the groups that this broker coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message
from insync.wire.messages import list_groups as api

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 16
VERSIONS = (0, 5)
REQUEST = api.ListGroupsRequest


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.groups.coordinator.list(request, token)
