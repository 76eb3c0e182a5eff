"""OffsetFetch (9): where groups left off. Without transactions every offset is stable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.node.parts import Parts, without_repeats
from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 9

PARTS = Parts(
    asked=("groups", "topics", "partition_indexes"),
    answered=("groups", "topics", "partitions"),
    keys=("group_id", "name"),
    limit=500,
    whole=100,
    without_repeats=without_repeats("groups"),
)


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.groups.coordinator.fetch(request, token)
