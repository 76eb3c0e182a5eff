"""Questions about offsets: ListOffsets (H4), OffsetForLeaderEpoch (D2), GetReplicaLogInfo (E6).

Notes: hwm_unknown(partition, hwm, leso).
"""

from __future__ import annotations

from insync.replication import divergence
from insync.replication import leader as leading
from insync.replication.core import Core
from insync.replication.fetch_server import elsewhere, unhosted
from insync.replication.fetch_session import DEBUG_CONSUMER
from insync.replication.leader import Leader
from insync.replication.replica import Replica
from insync.storage.log import Log
from insync.wire.errors import ErrorCode
from insync.wire.get_replica_log_info import MAX_PARTITIONS
from insync.wire.messages import get_replica_log_info, list_offsets, offset_for_leader_epoch
from insync.wire.types import NO_DURATION

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
"""This one and LATEST_TIERED are about remote storage. There is none, so no offset answers them."""
_NONE = ErrorCode.none

Found = tuple[int, int]
"""(offset, timestamp)"""


# --- ListOffsets ---


def answer_list_offsets(core: Core, request: list_offsets.ListOffsetsRequest) -> list_offsets.ListOffsetsResponse:
    consumer = request.replica_id < 0
    find = _local_offset if request.replica_id == DEBUG_CONSUMER else _offset
    topics: dict[str, dict[int, list_offsets.ListOffsetsPartitionResponse]] = {}
    for topic in request.topics:
        lines = topics.setdefault(topic.name, {})
        for asked in topic.partitions:
            # A partition that is named more than once is refused, as in Kafka: which answer would be whose?
            repeated = asked.partition_index in lines
            line = (
                refused(asked.partition_index, ErrorCode.invalid_request)
                if repeated
                else find(core, topic.name, asked, consumer)
            )
            lines[asked.partition_index] = line
    return list_offsets.ListOffsetsResponse(
        throttle_time=NO_DURATION,
        topics=tuple(
            list_offsets.ListOffsetsTopicResponse(name=name, partitions=tuple(lines.values()))
            for name, lines in topics.items()
        ),
    )


def refused(index: int, error: ErrorCode) -> list_offsets.ListOffsetsPartitionResponse:
    return list_offsets.ListOffsetsPartitionResponse(partition_index=index, error_code=error)


def _offset(
    core: Core, topic: str, asked: list_offsets.ListOffsetsPartition, consumer: bool
) -> list_offsets.ListOffsetsPartitionResponse:
    leader = leader_by_name(core, topic, asked.partition_index, asked.current_leader_epoch)
    found = leader if isinstance(leader, ErrorCode) else _find(leader, asked.timestamp, consumer)
    if isinstance(found, ErrorCode) or isinstance(leader, ErrorCode):
        return refused(asked.partition_index, found if isinstance(found, ErrorCode) else _NONE)
    if found is None:
        return refused(asked.partition_index, _NONE)
    offset, timestamp = found
    epoch = leader.epoch if asked.timestamp == LATEST else leader.replica.log.epochs.epoch_at(offset)
    return list_offsets.ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=_NONE,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch,
    )


def _local_offset(
    core: Core, topic: str, asked: list_offsets.ListOffsetsPartition, consumer: bool
) -> list_offsets.ListOffsetsPartitionResponse:
    """From this replica's own log, up to its end, whether it leads or follows."""
    replica = core.by_name.get((topic, asked.partition_index))
    if replica is None:
        return _offset(core, topic, asked, consumer)
    log = replica.log
    found = (log.leo, -1) if asked.timestamp == LATEST else _search(log, asked.timestamp, log.leo)
    if isinstance(found, ErrorCode):
        return refused(asked.partition_index, found)
    if found is None:
        return refused(asked.partition_index, _NONE)
    offset, timestamp = found
    return list_offsets.ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=_NONE,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=log.last_epoch if asked.timestamp == LATEST else log.epochs.epoch_at(offset),
    )


def _find(leader: Leader, timestamp: int, consumer: bool) -> Found | ErrorCode | None:
    log = leader.replica.log
    limit = log.hwm if consumer else log.leo
    if timestamp == LATEST:
        return _hwm_unknown(leader) if consumer and not may_tell_hwm(leader) else (limit, -1)
    found = _search(log, timestamp, limit)
    if found is None and timestamp >= MAX_TIMESTAMP and consumer and not may_tell_hwm(leader):
        return _hwm_unknown(leader)
    return found


def _search(log: Log, timestamp: int, limit: int) -> Found | ErrorCode | None:
    """What a timestamp, or a special value other than LATEST, means in this log below `limit`."""
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return (log.log_start, -1)
    if timestamp == MAX_TIMESTAMP:
        return log.offset_of_max_timestamp(limit)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return None
    return log.offset_for_timestamp(timestamp, limit) if timestamp >= 0 else ErrorCode.unsupported_version


def may_tell_hwm(leader: Leader) -> bool:
    """H4: clients rely on a high watermark that does not go back, so only the true one is told."""
    return leader.knows_true_hwm()


def _hwm_unknown(leader: Leader) -> ErrorCode:
    name = leader.replica.partition.name
    leader.core.out.note("hwm_unknown", partition=name, hwm=leader.replica.log.hwm, leso=leader.leso)
    return ErrorCode.offset_not_available


# --- OffsetForLeaderEpoch ---


def answer_offset_for_leader_epoch(
    core: Core, request: offset_for_leader_epoch.OffsetForLeaderEpochRequest
) -> offset_for_leader_epoch.OffsetForLeaderEpochResponse:
    return offset_for_leader_epoch.OffsetForLeaderEpochResponse(
        throttle_time=NO_DURATION,
        topics=tuple(
            offset_for_leader_epoch.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(_epoch_end(core, topic.topic, asked) for asked in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def _epoch_end(
    core: Core, topic: str, asked: offset_for_leader_epoch.OffsetForLeaderPartition
) -> offset_for_leader_epoch.EpochEndOffset:
    leader = leader_by_name(core, topic, asked.partition, asked.current_leader_epoch)
    if isinstance(leader, ErrorCode):
        return offset_for_leader_epoch.EpochEndOffset(error_code=leader, partition=asked.partition)
    log = leader.replica.log
    if not 0 <= asked.leader_epoch <= log.last_epoch:
        return offset_for_leader_epoch.EpochEndOffset(error_code=_NONE, partition=asked.partition)
    end = divergence.end_of(log, asked.leader_epoch)
    return offset_for_leader_epoch.EpochEndOffset(
        error_code=_NONE, partition=asked.partition, leader_epoch=end.epoch, end_offset=end.end_offset
    )


# --- GetReplicaLogInfo ---


def answer_get_replica_log_info(
    core: Core, request: get_replica_log_info.GetReplicaLogInfoRequest
) -> get_replica_log_info.GetReplicaLogInfoResponse:
    """E6: how far each log goes, for the controller to choose by; any role answers."""
    room = MAX_PARTITIONS
    truncated = False
    topics = []
    for topic in request.topic_partitions or ():
        indexes = topic.partitions[:room]
        truncated = truncated or len(indexes) < len(topic.partitions)
        room -= len(indexes)
        lines = tuple(_log_info(core, topic, index) for index in indexes)
        topics.append(get_replica_log_info.TopicPartitionLogInfo(topic_id=topic.topic_id, partition_log_info=lines))
    return get_replica_log_info.GetReplicaLogInfoResponse(
        throttle_time=NO_DURATION,
        broker_epoch=core.cluster.broker_epoch,
        truncated=truncated,
        topic_partition_log_info_list=tuple(topics),
    )


def _log_info(
    core: Core, topic: get_replica_log_info.TopicPartitions, index: int
) -> get_replica_log_info.PartitionLogInfo:
    replica = None if topic.topic_id is None else core.replicas.get((topic.topic_id, index))
    if replica is None:
        return get_replica_log_info.PartitionLogInfo(
            partition=index,
            last_written_leader_epoch=-1,
            current_leader_epoch=-1,
            log_end_offset=-1,
            error_code=unhosted(core, topic.topic_id, index),
        )
    return get_replica_log_info.PartitionLogInfo(
        partition=index,
        last_written_leader_epoch=last_written_epoch(replica),
        current_leader_epoch=replica.partition.leader_epoch,
        log_end_offset=replica.log.leo,
        error_code=_NONE,
    )


def last_written_epoch(replica: Replica) -> int:
    """The epoch of the last record; an epoch in which this replica led and wrote nothing does not count."""
    log = replica.log
    return log.epochs.epoch_at(log.leo - 1) if log.leo > log.log_start else -1


# --- who answers ---


def leader_by_name(core: Core, topic: str, index: int, leader_epoch: int) -> Leader | ErrorCode:
    """F3, for requests that name topics by name."""
    replica = core.by_name.get((topic, index))
    if replica is None:
        return elsewhere(core, topic, index)
    error = leading.leader_epoch_error(leader_epoch, replica.partition.leader_epoch)
    if error is not None:
        return error
    return replica.role if isinstance(replica.role, Leader) else ErrorCode.not_leader_or_follower
