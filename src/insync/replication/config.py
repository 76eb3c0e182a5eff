"""Replication settings of a broker, with Kafka's names and defaults where Kafka has them."""

from __future__ import annotations

from dataclasses import dataclass

VERIFY_FIRST = "first"
"""Verify the first read of each batch since the broker started, or since its segment was closed."""
VERIFY_ALWAYS, VERIFY_NEVER = "always", "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationConfig:
    replica_lag_time_max_ms: int = 30_000
    """I1: how long a follower may be behind before it leaves the ISR. ISRs are checked twice in this time."""
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1 << 20
    """Per partition; the first batch is always sent whole."""
    replica_fetch_response_max_bytes: int = 10 << 20
    replica_fetch_backoff_ms: int = 1_000
    replica_fetch_timeout_ms: int = 30_000
    """After this time a fetch counts as lost. It must be longer than a leader may park one."""

    isr_expand_interval_ms: int = 500
    """How often a leader checks caught-up followers that are still outside its ISR."""
    alter_partition_timeout_ms: int = 5_000
    alter_partition_backoff_ms: int = 50
    """I3: the wait after a response that decides nothing."""
    alter_partition_metadata_timeout_ms: int = 2_000
    """I3: how long to wait for metadata that a response announced before asking the controller again."""

    fetch_verify_checksums: str = VERIFY_FIRST
    """D6: which reads of consumers are verified. Followers verify the records that they receive."""
    fetch_max_bytes: int = 57_671_680
    """The limit for one response to a consumer, whatever it asks for (Kafka's fetch.max.bytes)."""
    max_incremental_fetch_sessions: int = 1_000
    max_fetch_session_partitions: int = 200_000
    """In all sessions together; each takes a few hundred bytes."""
    session_eviction_ms: int = 120_000
    """A session that was unused for this long may be evicted."""

    wall_offset_ms: int = 0
    """Wall-clock milliseconds = monotonic `now` + this, for LogAppendTime."""
