"""DescribeQuorum: what the leader knows of its voters and observers. Only a leader can tell."""

from __future__ import annotations

from insync.quorum.config import PARTITION
from insync.quorum.core import Core
from insync.quorum.leader import Leader, Progress
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_quorum
from insync.wire.types import METADATA_TOPIC

LISTENER = "CONTROLLER"
"""Voters are named without one; this is what Kafka's examples call it."""


def describe(core: Core, now: int) -> Message:
    role = core.role
    leads = isinstance(role, Leader)
    partition = describe_quorum.ResponsePartition(
        partition_index=PARTITION,
        error_code=ErrorCode.none if leads else ErrorCode.not_leader_or_follower,
        error_message=None,
        leader_id=core.leader_id,
        leader_epoch=core.epoch,
        high_watermark=core.hwm if leads else -1,
        current_voters=_voters(core, role, now) if isinstance(role, Leader) else (),
        observers=_observers(core, role, now) if isinstance(role, Leader) else (),
    )
    topic = describe_quorum.ResponseTopic(topic_name=METADATA_TOPIC, partitions=(partition,))
    return describe_quorum.DescribeQuorumResponse(
        error_code=ErrorCode.none, error_message=None, topics=(topic,), nodes=_nodes(core)
    )


def _nodes(core: Core) -> tuple[Message, ...]:
    return tuple(
        describe_quorum.Node(node_id=voter, listeners=(describe_quorum.Listener(name=LISTENER, host=host, port=port),))
        for voter, (host, port) in sorted(core.config.addresses.items())
    )


def _voters(core: Core, leader: Leader, now: int) -> tuple[Message, ...]:
    own = Progress()
    own.leo, own.caught_up_ms = core.log.leo, now
    return tuple(_state(core, voter, leader.voters.get(voter, own)) for voter in core.voters)


def _observers(core: Core, leader: Leader, now: int) -> tuple[Message, ...]:
    """Those that fetched lately; the others are forgotten."""
    oldest = now - core.config.observer_session_ms
    for replica_id in [each for each, progress in leader.observers.items() if progress.fetch_ms < oldest]:
        del leader.observers[replica_id]
    return tuple(_state(core, each, leader.observers[each]) for each in sorted(leader.observers))


def _state(core: Core, replica_id: int, progress: Progress) -> Message:
    return describe_quorum.ReplicaState(
        replica_id=replica_id,
        replica_directory_id=None,
        log_end_offset=progress.leo,
        last_fetch_timestamp=_moment(core, progress.fetch_ms),
        last_caught_up_timestamp=_moment(core, progress.caught_up_ms),
    )


def _moment(core: Core, when: int) -> int:
    return core.wall(when) if when >= 0 else -1
