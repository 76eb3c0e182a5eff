"""The settings of one node: its identity, its voters, and the settings of its components.

The components' own dataclasses have Kafka's defaults; this one composes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from insync.controller.config import ControllerConfig
from insync.groups.config import GroupConfig
from insync.metadata.broker import Endpoint
from insync.quorum.config import QuorumConfig
from insync.replication.config import ReplicationConfig

BROKER = "broker"
CONTROLLER = "controller"

UNKNOWN, BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(10)
"""Kafka's numbers for the types of configs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticConfig:
    """A config that cannot change while the node runs, as DescribeConfigs lists it. A PASSWORD has no value here."""

    name: str
    kind: int
    value: str | None
    default: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizerConfig:
    """Kafka's StandardAuthorizer, which decides by the ACLs of the metadata log."""

    super_users: tuple[str, ...] = ()
    """Principals that may do everything, such as User:admin."""
    allow_if_no_acl: bool = False
    """`allow.everyone.if.no.acl.found`: a resource that no ACL names is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    node_id: int
    cluster_id: str
    directory_id: UUID
    """Of the log directory, from its meta.properties; registrations carry it (B9)."""
    voters: tuple[int, ...]
    roles: tuple[str, ...] = (BROKER, CONTROLLER)
    rack: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    incarnation_id: UUID | None = None
    """None: a random one."""

    heartbeat_interval_ms: int = 2_000
    registration_retry_ms: int = 500
    controlled_shutdown_timeout_ms: int = 300_000
    forward_timeout_ms: int = 30_000
    forward_retry_ms: int = 100

    hwm_checkpoint_interval_ms: int = 5_000
    recovery_point_checkpoint_interval_ms: int = 60_000
    retention_check_interval_ms: int = 300_000
    flush_check_interval_ms: int = 1_000
    cleaner_interval_ms: int = 15_000
    """How often a broker checks for a log that is worth compacting."""
    cleaner_step_ms: int = 10
    cleaner_step_bytes: int = 1 << 16
    """A running compaction processes this many bytes per step: it shares the thread with everything else."""
    cleaner_max_keys: int = 250_000
    scrub_bytes_per_second: int = 8 << 20
    """D6: the rate at which logs are read to find damaged batches; 0: never."""
    scrub_interval_ms: int = 3_600_000
    """The minimum time from the start of one pass over all logs to the start of the next."""
    metadata_snapshot_records: int = 20_000
    metadata_apply_records: int = 500
    """Committed metadata records that one step applies, or encodes for a snapshot."""

    auto_create_topics: bool = True
    """Create missing topics that clients ask for, unless the request forbids it."""
    log_dir: str = "data"
    """The log directory as DescribeLogDirs and DescribeConfigs report it."""

    static_configs: tuple[StaticConfig, ...] = ()
    """What DescribeConfigs lists of the properties file and the defaults, besides the configs of topics."""

    quota_windows: int = 11
    quota_window_ms: int = 1_000
    """What the rates of clients are averaged over: the newest window and all whole ones before it."""
    mutation_quota_windows: int = 11
    mutation_quota_window_ms: int = 1_000

    authorizer: AuthorizerConfig | None = None
    """None: everything is allowed, and ACLs can be neither created nor listed."""

    wall_offset_ms: int = 0
    """Wall-clock milliseconds = monotonic `now` + this; record timestamps and retention use it."""

    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    """Defaults of topic configs, under the broker's names."""

    quorum: QuorumConfig = field(default_factory=QuorumConfig)
    controller: ControllerConfig
    replication: ReplicationConfig = field(default_factory=ReplicationConfig)
    groups: GroupConfig = field(default_factory=GroupConfig)

    @property
    def is_broker(self) -> bool:
        return BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        return CONTROLLER in self.roles
