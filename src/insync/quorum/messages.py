"""The quorum's requests and answers carry one topic with one partition: this module wraps and unwraps them.

Every answer also names the sender's epoch and the leader it knows in it: `LeaderInfo`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from insync.quorum.config import PARTITION, QuorumConfig
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import begin_quorum_epoch, end_quorum_epoch, fetch, fetch_snapshot, vote
from insync.wire.types import METADATA_TOPIC, METADATA_TOPIC_ID, NO_DURATION, ms

T = TypeVar("T")

_INDEX_NAMES = ("partition_index", "partition", "index")


class OffsetAndEpoch(NamedTuple):
    """A position in the log: the offset, and the epoch of the entry before it. Also the id of a snapshot."""

    offset: int
    epoch: int


class LeaderInfo(NamedTuple):
    """What an answer says of its sender: its epoch, the leader it knows in it or -1, and the error."""

    epoch: int
    leader_id: int
    error: ErrorCode


def metadata_partition(topics: Sequence[Any]) -> Any | None:
    """The partition of __cluster_metadata in a request or answer; None if the message is about anything else."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    topic, partition = topics[0], topics[0].partitions[0]
    # The schemas call the same fields by different names.
    if hasattr(topic, "topic_id"):
        is_metadata = topic.topic_id == METADATA_TOPIC_ID
    else:
        is_metadata = (topic.topic_name if hasattr(topic, "topic_name") else topic.name) == METADATA_TOPIC
    index = next((getattr(partition, name) for name in _INDEX_NAMES if hasattr(partition, name)), None)
    return partition if is_metadata and index == PARTITION else None


# --- requests --------------------------------------------------------------------------------------------------------


def vote_request(
    cluster_id: str, voter: int, candidate: int, epoch: int, log_end: OffsetAndEpoch, *, pre_vote: bool
) -> vote.VoteRequest:
    partition = vote.RequestPartition(
        partition_index=PARTITION,
        replica_epoch=epoch,
        replica_id=candidate,
        replica_directory_id=None,
        voter_directory_id=None,
        last_offset_epoch=log_end.epoch,
        last_offset=log_end.offset,
        pre_vote=pre_vote,
    )
    topic = vote.RequestTopic(topic_name=METADATA_TOPIC, partitions=(partition,))
    return vote.VoteRequest(cluster_id=cluster_id, voter_id=voter, topics=(topic,))


def begin_request(cluster_id: str, voter: int, leader: int, epoch: int) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    partition = begin_quorum_epoch.RequestPartition(
        partition_index=PARTITION, voter_directory_id=None, leader_id=leader, leader_epoch=epoch
    )
    topic = begin_quorum_epoch.RequestTopic(topic_name=METADATA_TOPIC, partitions=(partition,))
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=cluster_id, voter_id=voter, topics=(topic,), leader_endpoints=()
    )


def end_request(
    cluster_id: str, leader: int, epoch: int, successors: Sequence[int]
) -> end_quorum_epoch.EndQuorumEpochRequest:
    partition = end_quorum_epoch.RequestPartition(
        partition_index=PARTITION,
        leader_id=leader,
        leader_epoch=epoch,
        preferred_candidates=tuple(
            end_quorum_epoch.ReplicaInfo(candidate_id=candidate, candidate_directory_id=None)
            for candidate in successors
        ),
    )
    topic = end_quorum_epoch.RequestTopic(topic_name=METADATA_TOPIC, partitions=(partition,))
    return end_quorum_epoch.EndQuorumEpochRequest(cluster_id=cluster_id, topics=(topic,), leader_endpoints=())


def fetch_request(
    cluster_id: str, replica: int, epoch: int, log_end: OffsetAndEpoch, log_start: int, config: QuorumConfig
) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=epoch,
        fetch_offset=log_end.offset,
        last_fetched_epoch=log_end.epoch,
        log_start_offset=log_start,
        partition_max_bytes=config.fetch_max_bytes,
    )
    return fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch.ReplicaState(replica_id=replica, replica_epoch=-1),
        max_wait=ms(config.fetch_max_wait_ms),
        min_bytes=1,
        max_bytes=config.fetch_max_bytes,
        topics=(fetch.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


def fetch_snapshot_request(
    cluster_id: str, replica: int, epoch: int, snapshot: OffsetAndEpoch, position: int, max_bytes: int
) -> fetch_snapshot.FetchSnapshotRequest:
    partition = fetch_snapshot.RequestPartition(
        partition=PARTITION,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.RequestSnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch),
        position=position,
    )
    topic = fetch_snapshot.RequestTopic(name=METADATA_TOPIC, partitions=(partition,))
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=cluster_id, replica_id=replica, max_bytes=max_bytes, topics=(topic,)
    )


# --- answers ---------------------------------------------------------------------------------------------------------


def vote_response(info: LeaderInfo, *, granted: bool) -> vote.VoteResponse:
    return _with_leader(vote, vote.VoteResponse, info, vote_granted=granted)


def begin_response(info: LeaderInfo) -> begin_quorum_epoch.BeginQuorumEpochResponse:
    return _with_leader(begin_quorum_epoch, begin_quorum_epoch.BeginQuorumEpochResponse, info)


def end_response(info: LeaderInfo) -> end_quorum_epoch.EndQuorumEpochResponse:
    return _with_leader(end_quorum_epoch, end_quorum_epoch.EndQuorumEpochResponse, info)


def _with_leader(api: Any, response_type: Callable[..., T], info: LeaderInfo, **fields: bool) -> T:
    """The leader and the epoch that the node knows; Vote has one field more."""
    partition = api.ResponsePartition(
        partition_index=PARTITION, error_code=info.error, leader_id=info.leader_id, leader_epoch=info.epoch, **fields
    )
    topic = api.ResponseTopic(topic_name=METADATA_TOPIC, partitions=(partition,))
    return response_type(error_code=ErrorCode.none, topics=(topic,))


NO_POSITION = OffsetAndEpoch(-1, -1)


def fetch_response(
    info: LeaderInfo,
    *,
    hwm: int = -1,
    log_start: int = -1,
    diverging: OffsetAndEpoch = NO_POSITION,
    snapshot: OffsetAndEpoch = NO_POSITION,
    records: bytes = b"",
) -> fetch.FetchResponse:
    partition = fetch.PartitionData(
        partition_index=PARTITION,
        error_code=info.error,
        high_watermark=hwm,
        log_start_offset=log_start,
        diverging_epoch=fetch.EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.offset),
        current_leader=fetch.LeaderIdAndEpoch(leader_id=info.leader_id, leader_epoch=info.epoch),
        snapshot_id=fetch.SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch),
        aborted_transactions=None,
        records=records,
    )
    topic = fetch.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
    return fetch.FetchResponse(throttle_time=NO_DURATION, error_code=ErrorCode.none, responses=(topic,))


def fetch_snapshot_response(
    info: LeaderInfo, snapshot: OffsetAndEpoch = NO_POSITION, *, size: int = -1, position: int = -1, chunk: bytes = b""
) -> fetch_snapshot.FetchSnapshotResponse:
    partition = fetch_snapshot.ResponsePartition(
        index=PARTITION,
        error_code=info.error,
        snapshot_id=fetch_snapshot.ResponseSnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=info.leader_id, leader_epoch=info.epoch),
        size=size,
        position=position,
        unaligned_records=chunk,
    )
    topic = fetch_snapshot.ResponseTopic(name=METADATA_TOPIC, partitions=(partition,))
    return fetch_snapshot.FetchSnapshotResponse(throttle_time=NO_DURATION, error_code=ErrorCode.none, topics=(topic,))


def error_response(request: Message, error: ErrorCode) -> Message:
    """An answer with a top-level error only, to a request for another cluster or another log."""
    if isinstance(request, vote.VoteRequest):
        return vote.VoteResponse(error_code=error, topics=())
    if isinstance(request, begin_quorum_epoch.BeginQuorumEpochRequest):
        return begin_quorum_epoch.BeginQuorumEpochResponse(error_code=error, topics=())
    if isinstance(request, end_quorum_epoch.EndQuorumEpochRequest):
        return end_quorum_epoch.EndQuorumEpochResponse(error_code=error, topics=())
    if isinstance(request, fetch.FetchRequest):
        return fetch.FetchResponse(throttle_time=NO_DURATION, error_code=error, responses=())
    return fetch_snapshot.FetchSnapshotResponse(throttle_time=NO_DURATION, error_code=error, topics=())


def read_leader_info(partition: Any) -> LeaderInfo:
    """The `LeaderInfo` in the partition of an answer."""
    leader = getattr(partition, "current_leader", partition)
    return LeaderInfo(leader.leader_epoch, leader.leader_id, partition.error_code)
