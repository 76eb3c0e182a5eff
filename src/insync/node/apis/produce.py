"""Produce (0), by topic id: append to the partitions that this broker leads (P)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message
from insync.wire.messages import produce as api

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 0
VERSIONS = (0, 13)  # 0 to 2 are for show: see edge.LOWEST_PRODUCE
REQUEST = api.ProduceRequest


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.replicas.produce(request, token, now)
