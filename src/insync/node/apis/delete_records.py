"""DeleteRecords (21): raise the log start of partitions that this broker leads; answered when followers have too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.node.parts import Parts
from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 21

PARTS = Parts(asked=("topics", "partitions"), answered=("topics", "partitions"), keys=("name",), limit=100)


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.replicas.delete_records(request, token, now)


def abandon(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.replicas.abandon_delete_records(token)
