"""What the handlers of one active controller share: the pending image, its soft state, and how to make a change.

Soft state (when each broker was last heard from, how far it has read) is not in the metadata log: a new controller
starts as if every broker had just been heard from (B4).

Notes: leader_elected(topic, partition, leader, leader_epoch, how: clean, elr, preferred or unclean; before, cause),
leader_lost(topic, partition, leader, leader_epoch, cause), elr_changed(topic, partition, elr, last_known_elr),
reassignment_completed(topic, partition, replicas).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from insync.controller.config import ControllerConfig
from insync.controller.partition_change import Election, PartitionChangeBuilder
from insync.metadata import configs
from insync.metadata.image import Image
from insync.metadata.partition import NO_LEADER, Partition
from insync.sansio import Outbox
from insync.wire import metadata_records as records


class Contact:
    """What is known of one broker from its heartbeats."""

    __slots__ = ("connection_lost", "last_heard_ms", "metadata_offset", "shutdown_offset")

    def __init__(self, last_heard_ms: int) -> None:
        self.last_heard_ms = last_heard_ms
        self.connection_lost = False
        """Its connections dropped since its last heartbeat."""
        self.metadata_offset = -1
        self.shutdown_offset: int | None = None
        """B7: the other brokers must have read this far before this one may stop."""


class ControllerState:
    __slots__ = ("config", "contacts", "draining", "has_authorizer", "image", "leaving", "next_offset", "out", "rng")

    def __init__(self, config: ControllerConfig, rng: Random, out: Outbox, *, has_authorizer: bool) -> None:
        self.config = config
        self.has_authorizer = has_authorizer
        """Without one, ACLs can be neither created nor deleted."""
        self.rng = rng
        self.out = out
        self.image = Image()
        self.next_offset = 0
        """The end of the metadata log."""
        self.contacts: dict[int, Contact] = {}
        self.leaving: dict[int, None] = {}
        """Brokers that are being fenced or unregistered, in slices: they may not lead or join an ISR any more."""
        self.draining: dict[int, None] = {}
        """B7: brokers in controlled shutdown whose leaderships are being moved, in slices."""

    def contact(self, broker_id: int, now: int) -> Contact:
        contact = self.contacts.get(broker_id)
        if contact is None:
            contact = self.contacts[broker_id] = Contact(now)
        return contact

    def is_current_epoch(self, broker_id: int, broker_epoch: int) -> bool:
        """B8: a request of an earlier incarnation of a broker is void."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.epoch == broker_epoch

    def can_lead(self, broker_id: int) -> bool:
        """E2, B4, B7: a broker that is fenced or shutting down is not elected."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.is_active and broker_id not in self.leaving

    def can_join_isr(self, broker_id: int) -> bool:
        """I4, B4, B7: a broker that is fenced or shutting down is not added to an ISR."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.is_active and broker_id not in self.leaving

    def allows_unclean_election(self, topic: str) -> bool:
        return bool(self.image.config(topic, configs.UNCLEAN_ELECTION))

    def change(
        self, partition: Partition, eligible: Callable[[int], bool] | None = None, election: Election | None = None
    ) -> PartitionChangeBuilder:
        """A change of `partition` under its topic's configs: elections are clean unless the topic allows others."""
        if election is None:
            election = Election.UNCLEAN if self.allows_unclean_election(partition.topic) else Election.CLEAN
        min_isr = self.image.min_isr(partition.topic)
        return PartitionChangeBuilder(partition, min_isr, eligible or self.can_lead, election)

    def build(self, builder: PartitionChangeBuilder, cause: str) -> records.PartitionChangeRecord | None:
        """The record of a change, or None if nothing changes. `cause` explains the change in the log."""
        record = builder.build()
        if record is None:
            return None
        before, note = builder.before, self.out.note
        after = builder.after = before.changed_by(record)
        where = {"topic": after.topic, "partition": after.index}
        if builder.kind:
            note(
                "leader_elected",
                **where,
                leader=after.leader,
                leader_epoch=after.leader_epoch,
                how=builder.kind,
                before=before.leader,
                cause=cause,
            )
        if after.leader == NO_LEADER != before.leader:
            note("leader_lost", **where, leader=before.leader, leader_epoch=after.leader_epoch, cause=cause)
        if (after.elr, after.last_known_elr) != (before.elr, before.last_known_elr):
            note("elr_changed", **where, elr=after.elr, last_known_elr=after.last_known_elr)
        if builder.completed:
            note("reassignment_completed", **where, replicas=after.replicas)
        return record
