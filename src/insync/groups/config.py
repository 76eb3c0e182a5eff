"""The settings of groups, with Kafka's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass

OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    """How long the first rebalance of a group waits for more members."""
    group_max_size: int = 2**31 - 1
    new_member_join_timeout_ms: int = 300_000
    """How long a new member may wait for its first generation. It cannot heartbeat meanwhile."""

    groups_max_bytes: int = 256 << 20
    """For all groups of one broker; see `memory_budget`."""

    offset_metadata_max_bytes: int = 4_096
    offsets_commit_timeout_ms: int = 5_000
    offsets_retention_minutes: int = 7 * 24 * 60
    offsets_retention_check_interval_ms: int = 600_000

    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    """Fewer if the cluster has fewer brokers when the topic is created."""
    offsets_topic_segment_bytes: int = 100 << 20

    load_step_bytes: int = 1 << 20
    """How much of a partition is loaded before other work gets its turn."""
    load_retry_ms: int = 20
    """How often a new coordinator checks whether the records that it has to load are committed."""

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000
