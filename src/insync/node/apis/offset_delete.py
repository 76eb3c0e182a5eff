"""OffsetDelete (47): some offsets of a group, of topics that it does not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.node.parts import Parts
from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 47

PARTS = Parts(asked=("topics", "partitions"), answered=("topics", "partitions"), keys=("name",), limit=2_000)


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.groups.coordinator.delete_offsets(request, token, now)
