"""What the parts of one broker's replication share: the broker's identity, its replicas, and what a step has changed.

Parts call each other only downwards (manager > servers, fetchers > transitions > leader, follower > state). What would
need a call upwards is recorded here, and the manager completes it at the end of the step: sessions to answer, proposals
to send.
"""

from __future__ import annotations

from uuid import UUID

from insync.findings import Findings
from insync.metadata.partition import PartitionKey
from insync.replication.cluster import ClusterView
from insync.replication.config import ReplicationConfig
from insync.replication.fetch_session import Session
from insync.replication.isr import Proposal
from insync.replication.purgatory import Purgatory
from insync.replication.replica import Replica
from insync.replication.throttle import CopyThrottle
from insync.sansio import Outbox
from insync.storage.log_store import LogStore
from insync.wire.errors import ErrorCode


class ReplicationState:
    __slots__ = (
        "broker_id",
        "by_name",
        "changed",
        "cluster",
        "config",
        "counters",
        "findings",
        "follower_throttle",
        "leader_throttle",
        "logs",
        "out",
        "proposed",
        "purgatory",
        "replicas",
        "suspects",
        "under_replicated",
        "woken",
    )

    def __init__(
        self,
        *,
        broker_id: int,
        logs: LogStore,
        config: ReplicationConfig,
        out: Outbox,
        cluster: ClusterView,
        findings: Findings,
    ) -> None:
        self.broker_id = broker_id
        self.logs = logs
        self.config = config
        self.out = out
        self.cluster = cluster
        self.findings = findings
        self.purgatory = Purgatory(out)
        self.leader_throttle = CopyThrottle(cluster, out, as_leader=True)
        self.follower_throttle = CopyThrottle(cluster, out, as_leader=False)
        self.replicas: dict[PartitionKey, Replica] = {}
        self.by_name: dict[tuple[str, int], Replica] = {}
        self.changed: dict[Replica, None] = {}
        """Replicas whose LEO, HWM, ISR or role changed, until the node clears it."""
        self.woken: dict[Session, None] = {}
        """Sessions with a parked fetch that can perhaps be answered."""
        self.proposed: dict[Replica, Proposal] = {}
        """Proposals to send at the end of this step, all in one request."""
        self.under_replicated: dict[Replica, None] = {}
        """Partitions led here with a follower outside the ISR."""
        self.suspects: dict[Replica, tuple[int, str]] = {}
        """D6: replicas with a batch that may be damaged: its offset, and why it is suspected."""
        self.counters = {"isr_expands": 0, "isr_shrinks": 0, "failed_isr_updates": 0}

    def error_without_replica(self, topic_id: UUID | None, index: int) -> ErrorCode:
        """F3: the error for a partition that has no replica here. It says whether the client or this broker has the
        older metadata."""
        name = None if topic_id is None else self.cluster.topic_name(topic_id)
        if name is None:
            return ErrorCode.unknown_topic_id
        same_name = self.by_name.get((name, index))
        if same_name is not None and same_name.partition.topic_id != topic_id:
            return ErrorCode.inconsistent_topic_id
        return self.error_without_replica_of(name, index)

    def error_without_replica_of(self, topic: str, index: int) -> ErrorCode:
        """F3: as `error_without_replica`, by topic name. If other brokers have the partition, the client has to look up
        its leader again."""
        exists = self.cluster.has_partition(topic, index)
        return ErrorCode.not_leader_or_follower if exists else ErrorCode.unknown_topic_or_partition
