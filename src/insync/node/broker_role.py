"""The broker's part of a node: its logs and replicas, its life in the cluster, and its chores."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from insync.findings import INFO, Findings
from insync.metadata.changes import Changes
from insync.metadata.partition import PartitionKey
from insync.node.background_tasks import BackgroundTasks
from insync.node.cluster_view import NodeClusterView
from insync.node.config import NodeConfig
from insync.node.forwarding import Forwarding
from insync.node.group_role import GroupRole
from insync.node.lifecycle import STOPPED, Lifecycle
from insync.node.metadata_loader import MetadataLoader
from insync.node.pending_assignments import PendingAssignments
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
UNCLEAN_LEADER = "unclean_leader"
"""Finding: this broker leads with a log that may lack committed records (E6). It stays for this uptime."""


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
        self._published = False
        self._backlog = PendingAssignments()
        self._removed: dict[PartitionKey, None] = {}
        """Logs whose deletion or move was seen in the metadata log before the roles were taken up."""
        self._take_up_at: int | None = None

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
        """Q7: replicas act on merged results, from the moment this uptime's registration has been seen (B3)."""
        if changes.configs or changes.deleted_topics:  # a topic takes its configs with it
            self.view.configs_changed()
            self._reconfigure()
        mine, gone = self.metadata_loader.merged(changes)
        forgotten = self.metadata_loader.take_forgotten()
        if self._published:
            self._backlog.add(mine, gone, forgotten)
            self._take_up(now)
            self.groups.metadata_changed(changes, now)
        else:
            self._removed.update(dict.fromkeys(key for key in gone if self.log_store.get(*key) is not None))
            self.lifecycle.metadata_applied(self.metadata_loader.applied - 1, now)

    def publish_first(self, now: int) -> None:
        """B3, T7: take up every assigned role, and delete the logs of replicas of which the metadata log says that they
        were moved away or deleted meanwhile."""
        if self._published or not self.lifecycle.saw_registration:
            return
        self._published = self.lifecycle.taking_up = True
        self._backlog.add(self.metadata_loader.assigned(), self._removed)
        self._take_up(now)
        self.groups.refresh(now)
        self._reconfigure()

    def _take_up(self, now: int) -> None:
        """Metadata counts as applied (B3, B7) when every role that it assigns is taken up."""
        mine, gone, forgotten = self._backlog.take()
        self.replicas.apply(mine, gone, now, forgotten=forgotten, more=bool(self._backlog))
        self._take_up_at = now if self._backlog else None
        if not self._backlog:
            self.lifecycle.metadata_applied(self.metadata_loader.applied - 1, now)

    def replicas_changed(self, replicas: Sequence[Replica]) -> None:
        """A replica that is in the ISR has every committed record again, unless it was elected without them (E7)."""
        if self.findings.is_empty and not any(replica.partition.recovering for replica in replicas):
            return
        for replica in replicas:
            partition = replica.partition
            leader = leader_of(replica)
            if partition.recovering and leader is not None:
                if len(partition.replicas) == 1 and not self._is_damaged(partition.name):
                    continue  # no other replica has had anything that this one has not
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
        if self._take_up_at is not None:
            self._take_up(now)
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
            self._take_up_at,
            self.lifecycle.next_deadline(),
            self.replicas.next_deadline(),
            self.forwarding.next_deadline(),
            self.producer_ids.next_deadline(),
            self.background_tasks.next_deadline(),
            self.scrubber.next_deadline(),
            self.groups.next_deadline(),
        )

    @property
    def finished(self) -> bool:
        return self.lifecycle.state == STOPPED

    def close_cleanly(self, now: int) -> None:
        """B5: flush every log, then say so. An uptime that never got an epoch has changed nothing."""
        self.replicas.stop_fetching()
        epoch = self.lifecycle.broker_epoch if self.lifecycle.registered else self._previous_epoch
        self.log_store.close_cleanly(epoch)
