"""Produce, by topic id: append to the partitions that this broker leads (P)."""

from __future__ import annotations

from insync.node.broker_role import BrokerRole
from insync.node.parts import Parts
from insync.sansio import Request
from insync.wire.messages import produce as api

ADMINISTRATOR = "__admin_client"
"""The only client id that may write to the brokers' own topics, as in Kafka; other writes there would break groups."""

CODEC_AT, CODEC_MASK = 22, 0b111
"""Where a batch has the codec of its records."""
PART_BYTES = 1 << 16
COMPRESSED_PART_BYTES = 1_400
HEAVIEST_BOMB = 12


def _weigh(data: api.PartitionProduceData) -> int:
    """The cost of an append: a fixed part, and a part for every byte that is copied and checked. A small compressed
    batch may hold a thousand times its size, up to the topic's limit."""
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


def handle(broker: BrokerRole, event: Request, now: int) -> None:
    internal = event.client.id == ADMINISTRATOR
    broker.replicas.produce(event.request, event.token, now, more=event.more, internal=internal)
