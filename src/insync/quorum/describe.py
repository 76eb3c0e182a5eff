"""DescribeQuorum: what the leader knows of its voters and observers. Other replicas name the leader only."""

from __future__ import annotations

from insync.quorum.config import PARTITION
from insync.quorum.leader import Leader, Progress
from insync.quorum.state import RaftState
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_quorum
from insync.wire.types import METADATA_TOPIC


def describe(state: RaftState, now: int) -> describe_quorum.DescribeQuorumResponse:
    leader = state.role if isinstance(state.role, Leader) else None
    partition = describe_quorum.ResponsePartition(
        partition_index=PARTITION,
        error_code=ErrorCode.not_leader_or_follower if leader is None else ErrorCode.none,
        error_message=None,
        leader_id=state.leader_id,
        leader_epoch=state.epoch,
        high_watermark=-1 if leader is None else state.hwm,
        current_voters=() if leader is None else _voters(state, leader, now),
        observers=() if leader is None else _observers(state, leader, now),
    )
    topic = describe_quorum.ResponseTopic(topic_name=METADATA_TOPIC, partitions=(partition,))
    return describe_quorum.DescribeQuorumResponse(
        error_code=ErrorCode.none, error_message=None, topics=(topic,), nodes=_nodes(state)
    )


def _nodes(state: RaftState) -> tuple[describe_quorum.Node, ...]:
    name = state.config.listener
    return tuple(
        describe_quorum.Node(node_id=voter, listeners=(describe_quorum.Listener(name=name, host=host, port=port),))
        for voter, (host, port) in sorted(state.config.addresses.items())
    )


def _voters(state: RaftState, leader: Leader, now: int) -> tuple[describe_quorum.ReplicaState, ...]:
    own = Progress()
    own.leo, own.caught_up_ms = state.log.leo, now
    return tuple(_replica_state(state, voter, leader.voters.get(voter, own)) for voter in state.voters)


def _observers(state: RaftState, leader: Leader, now: int) -> tuple[describe_quorum.ReplicaState, ...]:
    """Those that fetched lately; the others are forgotten."""
    oldest = now - state.config.observer_session_ms
    for replica_id in [observer for observer, progress in leader.observers.items() if progress.fetch_ms < oldest]:
        del leader.observers[replica_id]
    return tuple(_replica_state(state, observer, leader.observers[observer]) for observer in sorted(leader.observers))


def _replica_state(state: RaftState, replica_id: int, progress: Progress) -> describe_quorum.ReplicaState:
    return describe_quorum.ReplicaState(
        replica_id=replica_id,
        replica_directory_id=None,
        log_end_offset=progress.leo,
        last_fetch_timestamp=_timestamp(state, progress.fetch_ms),
        last_caught_up_timestamp=_timestamp(state, progress.caught_up_ms),
    )


def _timestamp(state: RaftState, when: int) -> int:
    return when + state.config.wall_offset_ms if when >= 0 else -1
