"""DescribeGroups (15): the groups that this broker coordinates. Nobody's authorized operations are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message
from insync.wire.messages import describe_groups as api

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 15
VERSIONS = (0, 5)
REQUEST = api.DescribeGroupsRequest


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.groups.coordinator.describe(request, token)
