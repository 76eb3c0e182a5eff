"""FindCoordinator (10): which broker a group is to talk to. Transactions are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.node.parts import Parts
from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 10

PARTS = Parts(asked=("coordinator_keys",), answered=("coordinators",), limit=500)


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.groups.find(request, token, now)
