"""How patiently a broker replicates, under Kafka's setting names and with Kafka's defaults where it has one."""

from __future__ import annotations

from dataclasses import dataclass

VERIFY_FIRST = "first"
"""The first read of each batch since the start, or since its segment was closed."""
VERIFY_ALWAYS, VERIFY_NEVER = "always", "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationConfig:
    replica_lag_time_max_ms: int = 30_000
    """I1: how long a follower may be behind before it leaves the ISR. ISRs are looked at twice in this time."""
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1 << 20
    """Per partition; the first batch always comes whole."""
    replica_fetch_response_max_bytes: int = 10 << 20
    replica_fetch_backoff_ms: int = 1_000
    replica_fetch_timeout_ms: int = 30_000
    """After this a fetch counts as lost. It has to be longer than the leader may park one."""

    isr_expand_interval_ms: int = 500
    """How often a leader looks again at caught-up followers that are still outside its ISR."""
    alter_partition_timeout_ms: int = 5_000
    alter_partition_backoff_ms: int = 50
    """I3: after an answer that decides nothing."""
    alter_partition_patience_ms: int = 2_000
    """I3: how long to wait for metadata that an answer has announced before asking the controller once more."""

    fetch_verify_checksums: str = VERIFY_FIRST
    """D6: which reads of consumers are verified. Followers verify what they are sent."""
    fetch_max_bytes: int = 57_671_680
    """fetch.max.bytes: in one answer to a consumer, whatever it asks for."""
    max_incremental_fetch_sessions: int = 1_000
    max_fetch_session_partitions: int = 200_000
    """In all sessions together; a few hundred bytes each."""
    session_eviction_ms: int = 120_000
    """A session unused for this long makes room for a new one."""

    wall_offset_ms: int = 0
    """Wall-clock milliseconds = monotonic `now` + this, for LogAppendTime."""
