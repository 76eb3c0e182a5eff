"""What can be set for one log, under Kafka's topic settings and with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass

NEVER = 2**63 - 1
DELETE, COMPACT = "delete", "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 24 * 3600 * 1000
    """-1: kept for ever."""
    retention_bytes: int = -1
    """-1: without limit."""
    flush_messages: int = NEVER
    """The append that makes this many unflushed records waits for the disk. 1: every write is durable."""
    flush_ms: int = NEVER
    max_message_bytes: int = 1_048_588
    log_append_time: bool = False
    compression: int | None = None
    """The codec in which everything is stored; None: whatever the producer has chosen."""
    cleanup_policy: str = "delete"
    """delete, compact, both with a comma between, or empty: then only DeleteRecords removes anything (KIP-1161)."""
    delete_retention_ms: int = 24 * 3600 * 1000
    """How long a tombstone stays after the compaction that first saw it."""
    min_cleanable_ratio: float = 0.5
    """The part of a log, by bytes, that must be new before it is compacted again."""
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER
    timestamp_before_max_ms: int = NEVER
    timestamp_after_max_ms: int = NEVER
    """How far the timestamps of records may lie behind or ahead of the broker's clock."""
    producer_id_expiration_ms: int = 24 * 3600 * 1000

    @property
    def deletes(self) -> bool:
        """Do records go by age and by the size of the log?"""
        return DELETE in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        """Do records go when a later one has the same key?"""
        return COMPACT in self.cleanup_policy
