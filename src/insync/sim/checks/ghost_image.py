"""The metadata log as committed by any node, applied to an image of its own.

A batch is committed as soon as one node's quorum considers it committed. The ghosts of the partitions follow the image.
Elections from outside ISR and ELR are recognised here, and whether the topic's configs or an operator permitted them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from insync.metadata import configs
from insync.metadata.changes import Changes
from insync.metadata.image import Image
from insync.metadata.partition import NO_LEADER, Partition, PartitionKey
from insync.properties import explained_changes, metadata_matching, no_loss, safe_reassignment
from insync.properties.committed_log import CommittedLog, fingerprints
from insync.properties.ghost import PartitionGhost
from insync.wire import metadata_records
from insync.wire.metadata_records import BrokerRegistrationChangeRecord, PartitionChangeRecord

UNCLEAN_ELECTION_TYPE = 1


class GhostImage:
    def __init__(self, report_violation: Callable[[str, str, str], None], hit: Callable[[str], None]) -> None:
        self.image = Image()
        self.log = CommittedLog()
        self.ghosts: dict[PartitionKey, PartitionGhost] = {}
        self.readded: list[tuple[int, int]] = []
        """(offset of a replica's removal, offset of its return), the last few."""
        self.departing: dict[int, dict[PartitionKey, None]] = {}
        """Removed replicas by broker; the broker deletes their logs when it applies the change."""
        self.handed_over: dict[int, int] = {}
        """By broker: the offset of the last change that gave one of its leaderships away."""
        self.shutdowns: dict[int, int] = {}
        """By broker: the offset at which its last controlled shutdown began."""
        self.unfenced: dict[int, int] = {}
        """By broker: the offset at which it was last unfenced."""
        self.unexplained: dict[int, tuple[str, str]] = {}
        """S17: brokers that lost a leadership and are still active: partition, and what is wrong unless they leave."""
        self._report_violation = report_violation
        self._hit = hit
        self._by_operator: list[tuple[int, int]] = []
        self._removed: dict[tuple[PartitionKey, int], int] = {}

    # --- following the log ---------------------------------------------------------------------------------------

    def compare(self, node: Any, start: int, end: int) -> Changes | None:
        """S7: `node` considers [start, end) committed. Returns the changes by batches that are new here."""
        news = max(start, self.log.end)
        for batch in fingerprints(node.quorum.log.iter_headers(start, end)):
            if batch.base_offset >= self.log.end:
                self.log.extend(batch, node.quorum.epoch)
                continue
            wrong = metadata_matching.check(node.id, batch, self.log)
            if wrong:
                self._report_violation("S7", wrong, "")
        return self._apply(node, news, end) if end > news else None

    def _apply(self, node: Any, start: int, end: int) -> Changes:
        image = self.image
        for offset, _, payload in node.quorum.read_committed(start, end):
            record = metadata_records.decode(payload)
            if isinstance(record, PartitionChangeRecord):
                before = image.partition((record.topic_id, record.partition_id))
                image.apply(record, offset)
                if before is not None:
                    self._partition_changed(before, offset)
            else:
                image.apply(record, offset)
                if isinstance(record, BrokerRegistrationChangeRecord):
                    self._broker_changed(record, offset)
        changes = image.take_changes()
        self._merge(changes)
        return changes

    def _broker_changed(self, record: BrokerRegistrationChangeRecord, offset: int) -> None:
        self.unexplained.pop(record.broker_id, None)
        if record.in_controlled_shutdown:
            self.shutdowns[record.broker_id] = offset
        if record.fenced == metadata_records.UNFENCED:
            self.unfenced[record.broker_id] = offset

    def _merge(self, changes: Changes) -> None:
        for key in changes.deleted:
            self.ghosts.pop(key, None)
        for key in changes.partitions:
            partition = self.image.partition(key)
            if partition is not None:
                self._ghost(partition).changed(partition, self._min_isr(partition))
        if changes.configs:
            for ghost in self.ghosts.values():
                min_isr = self._min_isr(ghost.partition)
                if min_isr > ghost.min_isr and ghost.partition.elr:
                    self._hit("min_isr_raised_with_elr")
                ghost.changed(ghost.partition, min_isr)

    def _ghost(self, partition: Partition) -> PartitionGhost:
        ghost = self.ghosts.get(partition.key)
        if ghost is None:
            ghost = self.ghosts[partition.key] = PartitionGhost(partition, self._min_isr(partition))
        return ghost

    def _min_isr(self, partition: Partition) -> int:
        return partition.effective_min_isr(self.image.min_isr(partition.topic))

    # --- one change of one partition -----------------------------------------------------------------------------

    def _partition_changed(self, before: Partition, offset: int) -> None:
        after = self.image.partition(before.key)
        if after is None:
            return
        self._report("S17", explained_changes.check(before, after), after)
        if (before.adding, before.removing) != (after.adding, after.removing) or before.replicas != after.replicas:
            self._check_reassignment(before, after)
        if before.replicas != after.replicas:
            # A state that the same changes replace again still held for what was committed under it.
            self._ghost(before).weaken(self._min_isr(after))
            self._replicas_changed(before, after, offset)
        if explained_changes.was_leader_replaced(before, after):
            broker = self.image.brokers.get(before.leader)
            if broker is not None and broker.is_active:
                self.unexplained[before.leader] = (after.name, explained_changes.describe_replaced(before, after))
        if before.leader not in (NO_LEADER, after.leader):
            self.handed_over[before.leader] = offset
        if before.recovering and not after.recovering:
            self._hit("recovery_cleared")
        if after.leader not in (NO_LEADER, before.leader, *before.isr, *before.elr):
            self._elected_uncleanly(before, after, offset)

    def _check_reassignment(self, before: Partition, after: Partition) -> None:
        """S14, R2, R4, R5"""
        if after.reassigning:
            wrong = safe_reassignment.check_under_way(
                replicas_before=before.replicas,
                isr_before=before.isr,
                replicas=after.replicas,
                isr=after.isr,
                has_elected=before.leader == NO_LEADER != after.leader,
            )
        else:
            wrong = safe_reassignment.check(
                replicas_before=before.replicas,
                adding=before.adding,
                replicas=after.replicas,
                isr=after.isr,
                min_isr=self.image.min_isr(after.topic),
                may_lose=self.unclean_enabled(after.topic),
            )
        self._report("S14", wrong, after)

    def _report(self, property_id: str, wrong: str | None, partition: Partition) -> None:
        if wrong:
            self._report_violation(property_id, wrong, partition.name)

    def _replicas_changed(self, before: Partition, after: Partition, offset: int) -> None:
        for broker in before.replicas:
            if broker not in after.replicas:
                self._removed[before.key, broker] = offset
                self.departing.setdefault(broker, {})[before.key] = None
        for broker in after.replicas:
            if broker not in before.replicas and (before.key, broker) in self._removed:
                self.readded = [*self.readded[-15:], (self._removed.pop((before.key, broker)), offset)]

    def operator_asked(self, request: Any, start: int, end: int) -> None:
        """An operator asked for elections: those that the controller appended in that step were permitted."""
        if request.election_type == UNCLEAN_ELECTION_TYPE and end > start:
            self._by_operator.append((start, end))

    def _elected_uncleanly(self, before: Partition, after: Partition, offset: int) -> None:
        """E6, E7: a leader from outside ISR and ELR. Whether it may lose records depends on what permitted it."""
        ghost = self._ghost(before)
        by_operator = any(start <= offset < end for start, end in self._by_operator)
        strategy, enabled = self.strategy(before.topic), self.unclean_enabled(before.topic)
        permitted = no_loss.may_lose(
            unclean_enabled=enabled,
            strategy=strategy,
            by_operator=by_operator,
            lost=ghost.lost_count(),
            min_isr=ghost.weakest,
        )
        best = 0
        if by_operator:
            self._hit("unclean_election_by_operator")
        elif strategy == "balanced" and not enabled:
            asked = [ghost.tracked[broker] for broker in before.last_known_elr if broker in ghost.tracked]
            best = max((ghost.verify(tracked) for tracked in asked), default=0)
            if any(tracked.leo != asked[0].leo for tracked in asked):
                self._hit("balanced_recovery_chose")
        ghost.elected_uncleanly(after.leader_epoch, permitted=permitted, best=best)

    def strategy(self, topic: str) -> str:
        return str(self.image.config(topic, configs.RECOVERY_STRATEGY))

    def unclean_enabled(self, topic: str) -> bool:
        return bool(self.image.config(topic, configs.UNCLEAN_ELECTION))
