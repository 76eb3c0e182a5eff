"""The configuration of one node of a plan."""

from __future__ import annotations

from uuid import UUID

from insync.controller.config import ControllerConfig
from insync.groups.config import GroupConfig
from insync.metadata.broker import Endpoint
from insync.metadata.security_records import to_acl_record
from insync.node.config import AuthorizerConfig, NodeConfig
from insync.quorum.config import QuorumConfig
from insync.replication.config import ReplicationConfig
from insync.security.acl import WILDCARD, WILDCARD_PRINCIPAL, Acl, Operation, ResourceType
from insync.sim.engine.principals import SUPER_USERS
from insync.sim.plans.plan import NodePlan, Plan, Timing
from insync.wire.metadata_records import MetadataRecord

SCRUB_BYTES_PER_S = 1 << 20
CLUSTER_ID = "insync-simulated-cluster"
OPEN = Acl(
    resource_type=ResourceType.TOPIC,
    resource_name=WILDCARD,
    principal=WILDCARD_PRINCIPAL,
    operation=Operation.ALL,
)
"""All clients may use all topics, but for what the operator denies."""


def node_config(plan: Plan, node: NodePlan) -> NodeConfig:
    timing = plan.timing
    return NodeConfig(
        node_id=node.node_id,
        cluster_id=CLUSTER_ID,
        directory_id=UUID(int=node.node_id),
        voters=plan.voters,
        roles=node.roles,
        endpoints=(Endpoint(name="PLAINTEXT", host=f"node-{node.node_id}", port=9092),),
        heartbeat_interval_ms=timing.heartbeat_ms,
        registration_retry_ms=timing.heartbeat_ms,
        controlled_shutdown_timeout_ms=timing.shutdown_ms,
        forward_timeout_ms=timing.request_ms,
        forward_retry_ms=30,
        hwm_checkpoint_interval_ms=timing.checkpoint_ms,
        recovery_point_checkpoint_interval_ms=timing.checkpoint_ms * 2,
        retention_check_interval_ms=timing.retention_check_ms,
        flush_check_interval_ms=timing.flush_check_ms,
        # Only in plans with bit rot, so that the traces of all other plans stay as they are.
        scrub_bytes_per_second=SCRUB_BYTES_PER_S if any(action.kind == "rot" for action in plan.actions) else 0,
        scrub_interval_ms=timing.checkpoint_ms,
        metadata_snapshot_records=timing.snapshot_records,
        metadata_apply_records=timing.apply_records,
        wall_offset_ms=node.wall_offset_ms,
        authorizer=AuthorizerConfig(super_users=SUPER_USERS) if plan.has_authorizer else None,
        quorum=_quorum(timing),
        controller=_controller(timing, (to_acl_record(UUID(int=1), OPEN),) if plan.has_authorizer else ()),
        replication=_replication(timing, node.wall_offset_ms),
        groups=_groups(timing),
    )


def _quorum(timing: Timing) -> QuorumConfig:
    return QuorumConfig(
        election_timeout_ms=timing.election_ms,
        election_backoff_max_ms=timing.election_ms,
        fetch_timeout_ms=timing.quorum_fetch_ms,
        request_timeout_ms=timing.quorum_fetch_ms,
        retry_backoff_ms=20,
        fetch_max_wait_ms=timing.quorum_wait_ms,
        fetch_max_bytes=4_000,
        snapshot_chunk_bytes=1_500,
        observer_session_ms=timing.session_ms * 3,
    )


def _controller(timing: Timing, first_records: tuple[MetadataRecord, ...]) -> ControllerConfig:
    return ControllerConfig(
        first_records=first_records,
        cluster_id=CLUSTER_ID,
        session_timeout_ms=timing.session_ms,
        lost_peer_grace_ms=timing.session_ms // 3,
        rebalance_interval_ms=timing.rebalance_ms,
        recovery_retry_ms=timing.recovery_wait_ms,
        recovery_timeout_ms=timing.recovery_wait_ms * 3,
        proactive_window_ms=timing.recovery_wait_ms,
        producer_id_block=5,
        max_slice_records=timing.slice_records,
    )


def _groups(timing: Timing) -> GroupConfig:
    return GroupConfig(
        group_min_session_timeout_ms=100,
        group_initial_rebalance_delay_ms=timing.heartbeat_ms,
        new_member_join_timeout_ms=timing.session_ms * 3,
        offsets_commit_timeout_ms=timing.request_ms,
        offsets_topic_num_partitions=2,
        load_step_bytes=500,
        load_retry_ms=20,
    )


def _replication(timing: Timing, wall_offset_ms: int) -> ReplicationConfig:
    return ReplicationConfig(
        replica_lag_time_max_ms=timing.lag_ms,
        replica_fetch_wait_max_ms=timing.fetch_wait_ms,
        replica_fetch_max_bytes=timing.fetch_bytes,
        replica_fetch_response_max_bytes=timing.fetch_bytes * 4,
        replica_fetch_backoff_ms=timing.fetch_wait_ms // 2,
        replica_fetch_timeout_ms=timing.fetch_wait_ms + timing.request_ms,
        isr_expand_interval_ms=timing.lag_ms // 4,
        alter_partition_timeout_ms=timing.request_ms,
        alter_partition_backoff_ms=30,
        alter_partition_metadata_timeout_ms=timing.session_ms,
        max_incremental_fetch_sessions=timing.fetch_sessions,
        session_eviction_ms=timing.session_ms,
        wall_offset_ms=wall_offset_ms,
    )
