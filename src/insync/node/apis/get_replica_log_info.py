"""GetReplicaLogInfo (93): what this broker's replicas hold, for unclean recovery (E6). Between nodes only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 93


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.replicas.get_replica_log_info(request, token, now)
