"""The configuration of one log: Kafka's topic settings with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass

NEVER = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 24 * 3600 * 1000
    """-1: no limit."""
    retention_bytes: int = -1
    """-1: no limit."""
    flush_messages: int = NEVER
    """An append that brings the log to this many unflushed records flushes it. 1: every write is durable."""
    flush_ms: int = NEVER
    max_message_bytes: int = 1_048_588
    log_append_time: bool = False
    compression: int | None = None
    """The codec in which all batches are stored; None: the producer's choice."""
    deletes: bool = True
    """Whether records are deleted by age and by the size of the log."""
    compacts: bool = False
    """Whether a record is deleted when a later one has the same key. Without either, only DeleteRecords removes records
    (KIP-1161)."""
    delete_retention_ms: int = 24 * 3600 * 1000
    """How long a tombstone stays after the compaction that first saw it."""
    min_cleanable_ratio: float = 0.5
    """The share of a log, in bytes, that must be new before it is compacted again."""
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER
    timestamp_before_max_ms: int = NEVER
    timestamp_after_max_ms: int = NEVER
    """How far the timestamps of records may be behind or ahead of the broker's clock."""
    producer_id_expiration_ms: int = 24 * 3600 * 1000
