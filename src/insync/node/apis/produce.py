"""Produce (0), by topic id: append to the partitions that this broker leads (P)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 0
ADMINISTRATOR = "__admin_client"
"""The only client that may write to the brokers' own topics, as in Kafka; others would break groups with it."""
VERSIONS = (0, 13)  # 0 to 2 are for show: see edge.LOWEST_PRODUCE


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    internal = broker.client.id == ADMINISTRATOR
    broker.replicas.produce(request, token, now, more=broker.more, internal=internal)


def abandon(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.replicas.abandon_produce(token)
