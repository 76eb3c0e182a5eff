"""What an operator may set of the controller. Times are milliseconds."""

from __future__ import annotations

from dataclasses import dataclass

FEATURES = (("metadata.version", 25), ("eligible.leader.replicas.version", 1))
"""The levels a new cluster starts with: Kafka 4.0's metadata, and the ELR on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    cluster_id: str
    session_timeout_ms: int = 9_000
    """B4: a broker not heard from for this long is fenced."""
    lost_peer_grace_ms: int = 2_500
    """A broker whose connections dropped is fenced after this long unless a heartbeat says otherwise."""
    default_partitions: int = 1
    default_replication_factor: int = 1
    rebalance_interval_ms: int = 300_000
    """How often leadership goes back to preferred replicas; 0 never."""
    recovery_retry_ms: int = 1_000
    """How long a replica that did not answer a recovery is left alone."""
    recovery_timeout_ms: int = 5_000
    proactive_window_ms: int = 2_000
    """How long a proactive recovery gathers answers."""
    producer_id_block: int = 1_000
    max_slice_records: int = 200
    """A change of more partitions is decided in slices of this size, one per step."""
    features: tuple[tuple[str, int], ...] = FEATURES
    cluster_defaults: tuple[tuple[str, str], ...] = ()
    """Topic configs, under the broker's names, that a new cluster starts with. Those on which controllers and brokers
    have to agree (min.insync.replicas) are set here and not in each node's own defaults."""
