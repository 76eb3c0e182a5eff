"""The broker's part of a node: logs and replicas, its lifecycle in the cluster, groups, and background tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from random import Random

from insync.findings import INFO, Findings
from insync.metadata.changes import Changes
from insync.metadata.partition import Partition, PartitionKey
from insync.node.background_tasks import BackgroundTasks
from insync.node.cluster_view import NodeClusterView
from insync.node.config import NodeConfig
from insync.node.forwarding import Forwarding
from insync.node.group_role import GroupRole
from insync.node.lifecycle import Lifecycle
from insync.node.metadata_loader import MetadataLoader
from insync.node.producer_ids import ProducerIds
from insync.node.scrubber import Scrubber
from insync.node.topic_creation import TopicCreation
from insync.quorum.quorum import Quorum
from insync.replication.leader import leader_of
from insync.replication.manager import ReplicaManager
from insync.replication.replica import Replica
from insync.sansio import Outbox
from insync.storage.disk import Disk
from insync.storage.log_loader import LOG_DAMAGED, LOG_TRUNCATED
from insync.storage.log_store import LogStore

DIRECTORY = "data"
ASSIGNMENTS_PER_STEP = 16
"""Creating a log's directory and files takes longest: one or two ms on a busy disk."""
UNCLEAN_LEADER = "unclean_leader"
"""Finding: this broker leads with a log that may lack committed records (E6). It stays for this incarnation."""


class BrokerRole:
    def __init__(
        self,
        config: NodeConfig,
        disk: Disk,
        rng: Random,
        out: Outbox,
        quorum: Quorum,
        metadata_loader: MetadataLoader,
        findings: Findings,
        now: int,
    ) -> None:
        self.config = config
        self.findings = findings
        self.out = out
        self.metadata_loader = metadata_loader
        self.applies_assignments = False
        self._pending = PendingAssignments()
        self._removed: dict[PartitionKey, None] = {}
        """Logs that the metadata log deleted or moved away before assignments were applied."""
        self._apply_assignments_at: int | None = None

        def controller_id() -> int:
            return quorum.leader_id

        self.log_store = LogStore(disk, DIRECTORY, findings=findings)
        self._previous_epoch = self.log_store.start()  # B5: -1 if the last stop was not clean, or a log is damaged
        self.lifecycle = Lifecycle(config, rng, out, controller_id, self._previous_epoch)
        self.view = NodeClusterView(config.node_id, lambda: metadata_loader.image, self.lifecycle, controller_id)
        self.replicas = ReplicaManager(
            broker_id=config.node_id,
            log_store=self.log_store,
            config=config.replication,
            out=out,
            cluster=self.view,
            now=now,
            findings=findings,
        )
        self.forwarding = Forwarding(config, out, controller_id)
        self.topic_creation = TopicCreation(config.auto_create_topics, config.forward_timeout_ms, self.forwarding, out)
        self.producer_ids = ProducerIds(config, out, controller_id, lambda: self.lifecycle.broker_epoch)
        self.background_tasks = BackgroundTasks(config, self.log_store, self.replicas, out, now)
        self.scrubber = Scrubber(config, self.replicas, out, now)
        self.groups = GroupRole(config, lambda: metadata_loader.image, self.replicas, self.forwarding, out, rng, now)

    def metadata_changed(self, changes: Changes, now: int) -> None:
        """Q7: replicas act on merged results, once this incarnation has seen its registration (B3)."""
        if changes.configs or changes.deleted_topics:  # a deleted topic takes its configs with it
            self.view.configs_changed()
            self._reconfigure()
        mine, gone = self.metadata_loader.merge_changes(changes)
        forgotten = self.metadata_loader.take_forgotten()
        if self.applies_assignments:
            self._pending.add(mine, gone, forgotten)
            self._apply_assignments(now)
            self.groups.metadata_changed(changes, now)
        else:
            self._removed.update(dict.fromkeys(key for key in gone if self.log_store.get(*key) is not None))
            self.lifecycle.metadata_applied(self.metadata_loader.applied - 1, now)

    def apply_first_assignments(self, now: int) -> None:
        """B3, T7: apply every assignment, and delete the logs of replicas that the metadata log deleted or moved away
        meanwhile."""
        if not self.lifecycle.saw_registration:
            return
        self.applies_assignments = self.lifecycle.applying_assignments = True
        self._pending.add(self.metadata_loader.list_assigned(), self._removed)
        self._apply_assignments(now)
        self.groups.refresh(now)
        self._reconfigure()

    def _apply_assignments(self, now: int) -> None:
        """Some of what is pending. Metadata counts as applied (B3, B7) when all of its assignments are."""
        mine, gone, forgotten = self._pending.take()
        self.replicas.apply(mine, gone, now, forgotten=forgotten, more=bool(self._pending))
        self._apply_assignments_at = now if self._pending else None
        if not self._pending:
            self.lifecycle.metadata_applied(self.metadata_loader.applied - 1, now)

    def replicas_changed(self, replicas: Sequence[Replica]) -> None:
        """Update findings: a replica in the ISR has every committed record, unless it was elected without them (E7)."""
        if self.findings.is_empty and not any(replica.partition.recovering for replica in replicas):
            return
        for replica in replicas:
            partition = replica.partition
            leader = leader_of(replica)
            if partition.recovering and leader is not None:
                if len(partition.replicas) == 1 and not self._is_damaged(partition.name):
                    continue  # no other replica had more records
                text = f"this broker was elected in epoch {partition.leader_epoch} from outside ISR and ELR, with a log"
                lost = f"that ended at {leader.leso}: records that only other replicas had are lost."
                self.findings.report(UNCLEAN_LEADER, partition.name, f"{text} {lost}", INFO)
            elif self.config.node_id in partition.isr and not self.findings.has(UNCLEAN_LEADER, partition.name):
                self.findings.clear(LOG_DAMAGED, partition.name)
                self.findings.clear(LOG_TRUNCATED, partition.name)

    def _is_damaged(self, partition: str) -> bool:
        return self.findings.has(LOG_DAMAGED, partition) or self.findings.has(LOG_TRUNCATED, partition)

    def _reconfigure(self) -> None:
        for replica in self.replicas.replicas.values():
            replica.log.config = self.view.log_config(replica.partition.topic)

    def tick(self, now: int) -> None:
        if self._apply_assignments_at is not None:
            self._apply_assignments(now)
            self.groups.refresh(now)
        self.lifecycle.tick(now)
        self.replicas.tick(now)
        self.forwarding.tick(now)
        self.producer_ids.tick(now)
        self.background_tasks.tick(now)
        self.scrubber.tick(now)
        self.groups.tick(now)

    def deadlines(self) -> tuple[int | None, ...]:
        return (
            self._apply_assignments_at,
            self.lifecycle.next_deadline(),
            self.replicas.next_deadline(),
            self.forwarding.next_deadline(),
            self.producer_ids.next_deadline(),
            self.background_tasks.next_deadline(),
            self.scrubber.next_deadline(),
            self.groups.next_deadline(),
        )

    def close_cleanly(self, now: int) -> None:
        """B5: flush every log, then record it. An incarnation that never got an epoch has changed nothing."""
        self.replicas.stop_fetching()
        epoch = self.lifecycle.broker_epoch if self.lifecycle.registered else self._previous_epoch
        self.log_store.close_cleanly(epoch)


class PendingAssignments:
    """Assignments in the metadata that the replicas have not applied yet (Q7).

    A topic with thousands of partitions, or the failure of a broker that led thousands, is one change of the metadata.
    Applying all of it in one step would hold up heartbeats and the quorum beyond their timeouts. So a few assignments
    are applied per step, and of a partition that changes again meanwhile only the latest state counts.
    """

    __slots__ = ("_forgotten", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[PartitionKey, Partition | None] = {}
        self._forgotten: dict[PartitionKey, None] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(
        self, partitions: Iterable[Partition], gone: Iterable[PartitionKey], forgotten: Iterable[PartitionKey] = ()
    ) -> None:
        """What is gone is handled first: a new topic may have its name. `forgotten`: the metadata does not have it, and
        does not record its deletion either (B9)."""
        for key in gone:
            self._waiting[key] = None
            self._forgotten.pop(key, None)
        for key in forgotten:
            self._waiting[key] = None
            self._forgotten[key] = None
        for partition in partitions:
            self._waiting[partition.key] = partition
            self._forgotten.pop(partition.key, None)

    def take(self) -> tuple[list[Partition], list[PartitionKey], list[PartitionKey]]:
        """The oldest: assignments to apply, replicas to delete, and replicas to set aside."""
        partitions: list[Partition] = []
        gone: list[PartitionKey] = []
        forgotten: list[PartitionKey] = []
        for key in list(islice(self._waiting, ASSIGNMENTS_PER_STEP)):
            partition = self._waiting.pop(key)
            if partition is not None:
                partitions.append(partition)
            elif key in self._forgotten:
                del self._forgotten[key]
                forgotten.append(key)
            else:
                gone.append(key)
        return partitions, gone, forgotten
