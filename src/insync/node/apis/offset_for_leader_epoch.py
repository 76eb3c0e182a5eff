"""OffsetForLeaderEpoch (23): where an epoch ended in this leader's log (D1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.node.parts import Parts
from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 23

PARTS = Parts(asked=("topics", "partitions"), answered=("topics", "partitions"), keys=("topic",), limit=500)


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.replicas.offset_for_leader_epoch(request, token, now)
