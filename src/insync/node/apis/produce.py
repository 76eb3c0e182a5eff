"""Produce (0), by topic id: append to the partitions that this broker leads (P)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.node.parts import Parts
from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 0
ADMINISTRATOR = "__admin_client"
"""The only client that may write to the brokers' own topics, as in Kafka; others would break groups with it."""

CODEC_AT, CODEC_MASK = 22, 0b111
"""Where a batch says how its records are compressed."""
PART_BYTES = 1 << 16
COMPRESSED_PART_BYTES = 1_400
HEAVIEST_BOMB = 12


def _weigh(data: Message) -> int:
    """By what an append costs: so much for itself, and more for every byte that is copied and checked. A small batch
    may hold a thousand times its size when it is uncompressed, up to the topic's limit."""
    records = data.records
    if records is None:
        return 1
    weight = 1 + len(records) // PART_BYTES
    if len(records) > CODEC_AT and records[CODEC_AT] & CODEC_MASK:
        return max(weight, min(1 + len(records) // COMPRESSED_PART_BYTES, HEAVIEST_BOMB))
    return weight


PARTS = Parts(
    asked=("topic_data", "partition_data"),
    answered=("responses", "partition_responses"),
    keys=("topic_id",),
    limit=25,
    weigh=_weigh,
)
"""P1: the unit is the partition's batch. A part with acks=all waits for its own high watermarks."""


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    internal = broker.client.id == ADMINISTRATOR
    broker.replicas.produce(request, token, now, more=broker.more, internal=internal)


def abandon(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.replicas.abandon_produce(token)
