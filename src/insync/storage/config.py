"""What can be set for one log, under Kafka's topic settings and with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass

NEVER = 2**63 - 1


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
    cleanup_policy: str = "delete"
    producer_id_expiration_ms: int = 24 * 3600 * 1000
