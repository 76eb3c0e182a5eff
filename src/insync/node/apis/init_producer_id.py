"""InitProducerId (22): an id for an idempotent producer (P4); transactions are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 22


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.producer_ids.init(request, token, now)


def abandon(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.producer_ids.abandon(token)
