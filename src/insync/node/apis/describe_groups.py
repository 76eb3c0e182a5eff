"""DescribeGroups (15): the groups that this broker coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.node.parts import Parts, without_repeats
from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 15

PARTS = Parts(asked=("groups",), answered=("groups",), limit=50, without_repeats=without_repeats("groups"))


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.groups.coordinator.describe(request, token, broker.client)
