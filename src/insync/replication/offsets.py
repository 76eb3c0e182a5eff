"""Queries about offsets: ListOffsets (H4), OffsetForLeaderEpoch (D2), GetReplicaLogInfo (E6).

Notes: hwm_unknown(partition, hwm, leso).
"""

from __future__ import annotations

from insync.replication import divergence
from insync.replication import leader as leading
from insync.replication.fetch_session import DEBUG_CONSUMER
from insync.replication.leader import Leader
from insync.replication.replica import Replica
from insync.replication.state import ReplicationState
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
"""This one and LATEST_TIERED concern remote storage. There is none, so they have no offset."""
_NONE = ErrorCode.none

OffsetAndTimestamp = tuple[int, int]


# --- ListOffsets ---


def answer_list_offsets(
    state: ReplicationState, request: list_offsets.ListOffsetsRequest
) -> list_offsets.ListOffsetsResponse:
    topics: dict[str, dict[int, list_offsets.ListOffsetsPartitionResponse]] = {}
    for topic in request.topics:
        results = topics.setdefault(topic.name, {})
        for query in topic.partitions:
            index = query.partition_index
            if index in results:
                # A partition that is named more than once is refused, as in Kafka.
                results[index] = without_offset(index, ErrorCode.invalid_request)
            else:
                results[index] = _list_offset(state, topic.name, query, request.replica_id)
    return list_offsets.ListOffsetsResponse(
        throttle_time=NO_DURATION,
        topics=tuple(
            list_offsets.ListOffsetsTopicResponse(name=name, partitions=tuple(results.values()))
            for name, results in topics.items()
        ),
    )


def _list_offset(
    state: ReplicationState, topic: str, query: list_offsets.ListOffsetsPartition, replica_id: int
) -> list_offsets.ListOffsetsPartitionResponse:
    index, timestamp = query.partition_index, query.timestamp
    replica = state.by_name.get((topic, index)) if replica_id == DEBUG_CONSUMER else None
    result: OffsetAndTimestamp | ErrorCode | None
    if replica is not None:
        # A debugging consumer reads this replica's own log, up to its end, whether it leads or follows.
        log, latest_epoch = replica.log, replica.log.epochs.last_epoch
        result = (log.leo, -1) if timestamp == LATEST else _search(log, timestamp, log.leo)
    else:
        leader = leader_by_name(state, topic, index, query.current_leader_epoch)
        if isinstance(leader, ErrorCode):
            return without_offset(index, leader)
        log, latest_epoch = leader.replica.log, leader.epoch
        result = _find_offset(state, leader, timestamp, is_consumer=replica_id < 0)
    if result is None or isinstance(result, ErrorCode):
        return without_offset(index, _NONE if result is None else result)
    offset, found_timestamp = result
    return list_offsets.ListOffsetsPartitionResponse(
        partition_index=index,
        error_code=_NONE,
        timestamp=found_timestamp,
        offset=offset,
        leader_epoch=latest_epoch if timestamp == LATEST else log.epochs.epoch_at(offset),
    )


def without_offset(index: int, error: ErrorCode) -> list_offsets.ListOffsetsPartitionResponse:
    return list_offsets.ListOffsetsPartitionResponse(partition_index=index, error_code=error)


def _find_offset(
    state: ReplicationState, leader: Leader, timestamp: int, *, is_consumer: bool
) -> OffsetAndTimestamp | ErrorCode | None:
    log = leader.replica.log
    limit = log.hwm if is_consumer else log.leo
    result = (limit, -1) if timestamp == LATEST else _search(log, timestamp, limit)
    depends_on_hwm = timestamp == LATEST or (result is None and timestamp >= MAX_TIMESTAMP)
    if is_consumer and depends_on_hwm and not leader.knows_true_hwm():
        name = leader.replica.partition.name
        state.out.note("hwm_unknown", partition=name, hwm=log.hwm, leso=leader.leso)
        return ErrorCode.offset_not_available
    return result


def _search(log: Log, timestamp: int, limit: int) -> OffsetAndTimestamp | ErrorCode | None:
    """The offset below `limit` for a timestamp, or for a special value other than LATEST."""
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return (log.log_start, -1)
    if timestamp == MAX_TIMESTAMP:
        return log.offset_of_max_timestamp(limit)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return None
    return log.offset_for_timestamp(timestamp, limit) if timestamp >= 0 else ErrorCode.unsupported_version


# --- OffsetForLeaderEpoch ---


def answer_offset_for_leader_epoch(
    state: ReplicationState, request: offset_for_leader_epoch.OffsetForLeaderEpochRequest
) -> offset_for_leader_epoch.OffsetForLeaderEpochResponse:
    return offset_for_leader_epoch.OffsetForLeaderEpochResponse(
        throttle_time=NO_DURATION,
        topics=tuple(
            offset_for_leader_epoch.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(_find_epoch_end(state, topic.topic, query) for query in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def _find_epoch_end(
    state: ReplicationState, topic: str, query: offset_for_leader_epoch.OffsetForLeaderPartition
) -> offset_for_leader_epoch.EpochEndOffset:
    leader = leader_by_name(state, topic, query.partition, query.current_leader_epoch)
    if isinstance(leader, ErrorCode):
        return offset_for_leader_epoch.EpochEndOffset(error_code=leader, partition=query.partition)
    log = leader.replica.log
    if not 0 <= query.leader_epoch <= log.epochs.last_epoch:
        return offset_for_leader_epoch.EpochEndOffset(error_code=_NONE, partition=query.partition)
    end = divergence.end_of_epoch(log, query.leader_epoch)
    return offset_for_leader_epoch.EpochEndOffset(
        error_code=_NONE, partition=query.partition, leader_epoch=end.epoch, end_offset=end.end_offset
    )


# --- GetReplicaLogInfo ---


def answer_get_replica_log_info(
    state: ReplicationState, request: get_replica_log_info.GetReplicaLogInfoRequest
) -> get_replica_log_info.GetReplicaLogInfoResponse:
    """E6: the end of each log, by which the controller chooses a leader. A replica of any role answers."""
    room = MAX_PARTITIONS
    truncated = False
    topics = []
    for topic in request.topic_partitions or ():
        indexes = topic.partitions[:room]
        truncated = truncated or len(indexes) < len(topic.partitions)
        room -= len(indexes)
        infos = tuple(_log_info(state, topic, index) for index in indexes)
        topics.append(get_replica_log_info.TopicPartitionLogInfo(topic_id=topic.topic_id, partition_log_info=infos))
    return get_replica_log_info.GetReplicaLogInfoResponse(
        throttle_time=NO_DURATION,
        broker_epoch=state.cluster.broker_epoch,
        truncated=truncated,
        topic_partition_log_info_list=tuple(topics),
    )


def _log_info(
    state: ReplicationState, topic: get_replica_log_info.TopicPartitions, index: int
) -> get_replica_log_info.PartitionLogInfo:
    replica = None if topic.topic_id is None else state.replicas.get((topic.topic_id, index))
    if replica is None:
        return get_replica_log_info.PartitionLogInfo(
            partition=index,
            last_written_leader_epoch=-1,
            current_leader_epoch=-1,
            log_end_offset=-1,
            error_code=state.error_without_replica(topic.topic_id, index),
        )
    return get_replica_log_info.PartitionLogInfo(
        partition=index,
        last_written_leader_epoch=last_written_epoch(replica),
        current_leader_epoch=replica.partition.leader_epoch,
        log_end_offset=replica.log.leo,
        error_code=_NONE,
    )


def last_written_epoch(replica: Replica) -> int:
    """The epoch of the last record; an epoch in which this replica led without writing does not count."""
    log = replica.log
    return log.epochs.epoch_at(log.leo - 1) if log.leo > log.log_start else -1


# --- finding the leader ---


def leader_by_name(state: ReplicationState, topic: str, index: int, leader_epoch: int) -> Leader | ErrorCode:
    """F3: for requests with topic names instead of topic ids."""
    replica = state.by_name.get((topic, index))
    if replica is None:
        return state.error_without_replica_of(topic, index)
    error = leading.leader_epoch_error(leader_epoch, replica.partition.leader_epoch)
    if error is not None:
        return error
    return replica.role if isinstance(replica.role, Leader) else ErrorCode.not_leader_or_follower
