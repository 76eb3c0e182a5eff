"""OffsetCommit (8): answered when the offsets are committed to the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.node.parts import Parts
from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 8

PARTS = Parts(asked=("topics", "partitions"), answered=("topics", "partitions"), keys=("name",), limit=2_000)
"""A commit of up to 2,000 partitions is one batch, all or nothing. Kafka refuses what does not fit into one batch."""


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.groups.coordinator.commit(request, token, broker.client, now)
