"""What all parts of one broker's replication share: who we are, where effects go, and what has changed.

Parts call each other only downwards (manager > handlers > transitions > leader, follower > core). Anything that would
call upwards is left here for the manager to finish at the end of a step: sessions to answer, proposals to send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.findings import Findings
from insync.metadata.partition import PartitionKey
from insync.replication.cluster import ClusterView
from insync.replication.config import ReplicationConfig
from insync.replication.throttle import CopyThrottle
from insync.sansio import Outbox
from insync.storage.log_store import LogStore

if TYPE_CHECKING:
    from insync.replication.fetch_session import Session
    from insync.replication.isr import Proposal
    from insync.replication.purgatory import Purgatory
    from insync.replication.replica import Replica


class Core:
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
        purgatory: Purgatory,
        findings: Findings,
    ) -> None:
        self.broker_id = broker_id
        self.logs = logs
        self.config = config
        self.out = out
        self.cluster = cluster
        self.purgatory = purgatory
        self.findings = findings
        self.leader_throttle = CopyThrottle(cluster, out, as_leader=True)
        self.follower_throttle = CopyThrottle(cluster, out, as_leader=False)
        self.replicas: dict[PartitionKey, Replica] = {}
        self.by_name: dict[tuple[str, int], Replica] = {}
        self.changed: dict[Replica, None] = {}
        self.woken: dict[Session, None] = {}
        """Parked fetches that may have something to say now."""
        self.proposed: dict[Replica, Proposal] = {}
        """Proposals to send at the end of this step, so that one request carries them all."""
        self.under_replicated: dict[Replica, None] = {}
        """Partitions led here with a follower outside the ISR."""
        self.suspects: dict[Replica, tuple[int, str]] = {}
        """D6: replicas with a batch that may be damaged: (its offset, who says so)."""
        self.counters = {"isr_expands": 0, "isr_shrinks": 0, "failed_isr_updates": 0}
