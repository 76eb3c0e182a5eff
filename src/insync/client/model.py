"""What a cluster reports about itself, independent of API versions."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from insync.wire.errors import ErrorCode
from insync.wire.types import ZERO_UUID

NO_NODE = -1
"""The node id that means "no leader" or "no controller"."""

TopicPartition = tuple[str, int]
"""Topic name and partition index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = False

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()
    elr: tuple[int, ...] | None = None
    """None if the cluster does not serve DescribeTopicPartitions."""
    last_known_elr: tuple[int, ...] | None = None

    @property
    def preferred(self) -> int:
        return self.replicas[0] if self.replicas else NO_NODE


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    name: str
    id: UUID = ZERO_UUID
    internal: bool = False
    partitions: tuple[Partition, ...] = ()

    def partition(self, index: int) -> Partition | None:
        """In a description of the whole topic, a partition is where its index says."""
        if 0 <= index < len(self.partitions) and self.partitions[index].index == index:
            return self.partitions[index]
        return next((partition for partition in self.partitions if partition.index == index), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo:
    cluster_id: str
    controller: int
    brokers: tuple[Broker, ...]
    includes_fenced: bool
    """Whether `brokers` contains fenced brokers: if so, a missing broker is not registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    name: str
    value: str | None
    source: int
    read_only: bool = False
    sensitive: bool = False


@dataclass(frozen=True, slots=True)
class Offset:
    offset: int
    timestamp: int = -1
    leader_epoch: int = -1
    error: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """One replica in a log directory of its broker."""

    size: int
    lag: int
    directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    path: str
    error: ErrorCode
    total_bytes: int
    usable_bytes: int
    replicas: dict[TopicPartition, ReplicaLog] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.replicas if broker not in self.removing)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    id: int
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    leader: int
    epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    id: str
    client_id: str
    host: str
    instance: str | None
    assigned: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    id: str
    state: str
    protocol_type: str
    coordinator: int
    protocol: str = ""
    kind: str = "classic"
    members: tuple[Member, ...] = ()
