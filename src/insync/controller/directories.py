"""AssignReplicasToDirs: a broker says that one of its replicas cannot be used (D6, KIP-858).

As in Kafka, a replica in the lost directory leaves the ISR and does not lead. Unlike Kafka's controller, this one
refuses where no other member of the ISR could lead: the replica is then the best that there is, and its broker keeps
serving what is intact. Which directory a replica is in is not kept: a node has one.
"""

from __future__ import annotations

from typing import Any

from insync.controller import eligibility
from insync.controller.context import Context
from insync.controller.decision import Decision
from insync.controller.partition_change import without
from insync.metadata.partition import Partition, PartitionKey
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import assign_replicas_to_dirs as api
from insync.wire.types import LOST_DIRECTORY, NO_DURATION, uuid_of


def assign(ctx: Context, request: Any, now: int) -> Decision:
    if not eligibility.epoch_is_current(ctx.image, request.broker_id, request.broker_epoch):
        return _decision(ErrorCode.stale_broker_epoch, [], ())  # B8
    made: list[records.MetadataRecord] = []
    changed: dict[PartitionKey, None] = {}
    directories = []
    for directory in request.directories:
        topics = []
        for topic in directory.topics:
            lines = []
            for asked in topic.partitions:
                key = (uuid_of(topic.topic_id), asked.partition_index)
                error = _check(ctx, request.broker_id, key)
                if error is ErrorCode.none and directory.id_ == LOST_DIRECTORY and key not in changed:
                    changed[key] = None
                    error = _take_offline(ctx, request.broker_id, key, made)
                lines.append(api.ResponsePartition(partition_index=asked.partition_index, error_code=error))
            topics.append(api.ResponseTopic(topic_id=topic.topic_id, partitions=tuple(lines)))
        directories.append(api.ResponseDirectory(id_=directory.id_, topics=tuple(topics)))
    return _decision(ErrorCode.none, made, tuple(directories))


def _check(ctx: Context, broker: int, key: PartitionKey) -> ErrorCode:
    partition = ctx.image.partition(key)
    if partition is None:
        known = key[0] in ctx.image.topics
        return ErrorCode.unknown_topic_or_partition if known else ErrorCode.unknown_topic_id
    return ErrorCode.none if broker in partition.replicas else ErrorCode.not_leader_or_follower


def _take_offline(ctx: Context, broker: int, key: PartitionKey, made: list[records.MetadataRecord]) -> ErrorCode:
    partition = ctx.image.partition(key)
    if partition is None or broker not in partition.isr:
        return ErrorCode.none
    if not another_can_lead(ctx, partition, broker):
        return ErrorCode.eligible_leaders_not_available
    builder = ctx.builder(partition, eligible=lambda other: other != broker and ctx.may_lead(other))
    builder.isr = without(partition.isr, (broker,))
    record = ctx.build(builder)
    if record is not None:
        made.append(record)
    return ErrorCode.none


def another_can_lead(ctx: Context, partition: Partition, broker: int) -> bool:
    """Safeguard, D6: a damaged leader gives way only to another member of the ISR."""
    return any(member != broker and ctx.may_lead(member) for member in partition.isr)


def _decision(error: ErrorCode, made: list[records.MetadataRecord], directories: tuple[Any, ...]) -> Decision:
    response = api.AssignReplicasToDirsResponse(throttle_time=NO_DURATION, error_code=error, directories=directories)
    return Decision(records=tuple(made), response=response)
