"""The quorum, forwarding and recovery: what only nodes send (A4)."""

from __future__ import annotations

from typing import Any

from insync.node.authorization.checks import of_nodes
from insync.node.authorization.errors import CLUSTER_REFUSED
from insync.wire.messages import (
    begin_quorum_epoch,
    end_quorum_epoch,
    envelope,
    fetch_snapshot,
    get_replica_log_info,
    vote,
)
from insync.wire.types import NO_DURATION


def _refuse_vote(_: Any) -> vote.VoteResponse:
    return vote.VoteResponse(error_code=CLUSTER_REFUSED, topics=())


def _refuse_begin_quorum_epoch(_: Any) -> begin_quorum_epoch.BeginQuorumEpochResponse:
    return begin_quorum_epoch.BeginQuorumEpochResponse(error_code=CLUSTER_REFUSED, topics=())


def _refuse_end_quorum_epoch(_: Any) -> end_quorum_epoch.EndQuorumEpochResponse:
    return end_quorum_epoch.EndQuorumEpochResponse(error_code=CLUSTER_REFUSED, topics=())


def _refuse_fetch_snapshot(_: Any) -> fetch_snapshot.FetchSnapshotResponse:
    return fetch_snapshot.FetchSnapshotResponse(throttle_time=NO_DURATION, error_code=CLUSTER_REFUSED, topics=())


def _refuse_envelope(_: Any) -> envelope.EnvelopeResponse:
    return envelope.EnvelopeResponse(response_data=None, error_code=CLUSTER_REFUSED)


def _refuse_get_replica_log_info(
    request: get_replica_log_info.GetReplicaLogInfoRequest,
) -> get_replica_log_info.GetReplicaLogInfoResponse:
    return get_replica_log_info.GetReplicaLogInfoResponse(
        throttle_time=NO_DURATION,
        broker_epoch=-1,
        truncated=False,
        topic_partition_log_info_list=tuple(
            get_replica_log_info.TopicPartitionLogInfo(
                topic_id=topic.topic_id,
                partition_log_info=tuple(
                    get_replica_log_info.PartitionLogInfo(
                        partition=index,
                        last_written_leader_epoch=-1,
                        current_leader_epoch=-1,
                        log_end_offset=-1,
                        error_code=CLUSTER_REFUSED,
                    )
                    for index in topic.partitions
                ),
            )
            for topic in request.topic_partitions or ()
        ),
    )


VOTE = of_nodes(_refuse_vote)
BEGIN_QUORUM_EPOCH = of_nodes(_refuse_begin_quorum_epoch)
END_QUORUM_EPOCH = of_nodes(_refuse_end_quorum_epoch)
FETCH_SNAPSHOT = of_nodes(_refuse_fetch_snapshot)
ENVELOPE = of_nodes(_refuse_envelope)
GET_REPLICA_LOG_INFO = of_nodes(_refuse_get_replica_log_info)
