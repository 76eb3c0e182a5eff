"""AssignReplicasToDirs: a broker reports that one of its replicas cannot be used (D6, KIP-858).

As in Kafka, a replica in the lost directory leaves the ISR and does not lead. Unlike Kafka's controller, this one
refuses if no other member of the ISR could lead: the replica is then the best that there is, and its broker keeps
serving what is intact. The directory of a replica is not stored: a node has one.
"""

from __future__ import annotations

from insync.controller.decision import Decision
from insync.controller.partition_change import without
from insync.controller.state import ControllerState
from insync.metadata.partition import Partition, PartitionKey
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import assign_replicas_to_dirs as messages
from insync.wire.types import NO_DURATION, ZERO_UUID


def assign_replicas(state: ControllerState, request: messages.AssignReplicasToDirsRequest, now: int) -> Decision:
    if not state.is_current_epoch(request.broker_id, request.broker_epoch):
        return _make_decision(ErrorCode.stale_broker_epoch, [], ())  # B8
    made: list[records.MetadataRecord] = []
    changed: dict[PartitionKey, None] = {}
    directories = []
    for directory in request.directories:
        topics = []
        for topic in directory.topics:
            results = []
            for entry in topic.partitions:
                key = (topic.topic_id or ZERO_UUID, entry.partition_index)
                partition = state.image.partition(key)
                error = _find_error(state, request.broker_id, key, partition)
                is_lost = directory.id_ == records.LOST_DIRECTORY and key not in changed
                if partition is not None and error is ErrorCode.none and is_lost:
                    changed[key] = None
                    error = _take_offline(state, request.broker_id, partition, made)
                results.append(messages.ResponsePartition(partition_index=entry.partition_index, error_code=error))
            topics.append(messages.ResponseTopic(topic_id=topic.topic_id, partitions=tuple(results)))
        directories.append(messages.ResponseDirectory(id_=directory.id_, topics=tuple(topics)))
    return _make_decision(ErrorCode.none, made, tuple(directories))


def _find_error(state: ControllerState, broker: int, key: PartitionKey, partition: Partition | None) -> ErrorCode:
    if partition is None:
        is_known = key[0] in state.image.topics
        return ErrorCode.unknown_topic_or_partition if is_known else ErrorCode.unknown_topic_id
    return ErrorCode.none if broker in partition.replicas else ErrorCode.not_leader_or_follower


def _take_offline(
    state: ControllerState, broker: int, partition: Partition, made: list[records.MetadataRecord]
) -> ErrorCode:
    """D6: a damaged leader gives way only to another member of the ISR."""
    if broker not in partition.isr:
        return ErrorCode.none
    if not any(member != broker and state.can_lead(member) for member in partition.isr):
        return ErrorCode.eligible_leaders_not_available
    builder = state.change(partition, eligible=lambda other: other != broker and state.can_lead(other))
    builder.isr = without(partition.isr, (broker,))
    record = state.build(builder, "its replica is damaged")
    if record is not None:
        made.append(record)
    return ErrorCode.none


def _make_decision(
    error: ErrorCode, made: list[records.MetadataRecord], directories: tuple[messages.ResponseDirectory, ...]
) -> Decision:
    response = messages.AssignReplicasToDirsResponse(
        throttle_time=NO_DURATION, error_code=error, directories=directories
    )
    return Decision(records=tuple(made), response=response)
