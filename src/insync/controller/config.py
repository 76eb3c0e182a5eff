"""Settings of the controller."""

from __future__ import annotations

from dataclasses import dataclass

from insync.wire.metadata_records import MetadataRecord

FEATURES = (("metadata.version", 25), ("eligible.leader.replicas.version", 1))
"""The feature levels of a new cluster: Kafka 4.0's metadata, and the ELR on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    cluster_id: str
    session_timeout_ms: int = 9_000
    """B4: a broker is fenced after this time without a heartbeat."""
    lost_peer_grace_ms: int = 2_500
    """A broker whose connections dropped is fenced after this time, unless it sends a heartbeat."""
    default_partitions: int = 1
    default_replication_factor: int = 1
    rebalance_interval_ms: int = 300_000
    """How often leadership goes back to preferred replicas; 0: never."""
    recovery_retry_ms: int = 1_000
    """How long a recovery waits before it asks a replica again that did not answer."""
    recovery_timeout_ms: int = 5_000
    proactive_window_ms: int = 2_000
    """How long a proactive recovery gathers responses."""
    producer_id_block: int = 1_000
    max_slice_records: int = 200
    """A change of more partitions is decided in slices of this size, one per step."""
    features: tuple[tuple[str, int], ...] = FEATURES
    cluster_defaults: tuple[tuple[str, str], ...] = ()
    """Topic configs of a new cluster, under the broker's names. Those on which controllers and brokers have to agree
    (min.insync.replicas) are set here and not in the defaults of each node."""
    first_records: tuple[MetadataRecord, ...] = ()
    """Of a new cluster: credentials by which its nodes can authenticate to each other, and ACLs."""
