"""What the handlers of one active controller share: the pending image, its soft state, and how a change is made.

Soft state (who was heard from when, how far each broker has read) is not in the metadata log: a new controller starts
with everybody heard from just now (B4).

Notes: leader_elected(topic, partition, leader, leader_epoch, how: clean, elr, preferred or unclean; before, cause),
leader_lost(topic, partition, leader, leader_epoch, cause), isr_shrunk_by_controller(topic, partition, isr, before,
leader_epoch, partition_epoch, cause), elr_changed(topic, partition, elr, last_known_elr),
reassignment_completed(topic, partition, replicas).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from insync.controller import eligibility
from insync.controller.config import ControllerConfig
from insync.controller.partition_change import Election, PartitionChangeBuilder
from insync.metadata import configs
from insync.metadata.image import Image
from insync.metadata.partition import NO_LEADER, Partition
from insync.sansio import Outbox
from insync.wire import metadata_records as records

if TYPE_CHECKING:
    from random import Random


class Contact:
    """What heartbeats told of one broker."""

    __slots__ = ("heard_at", "lost", "metadata_offset", "shutdown_offset")

    def __init__(self, heard_at: int, metadata_offset: int = -1) -> None:
        self.heard_at = heard_at
        self.lost = False
        """Its connections dropped since it was last heard from."""
        self.metadata_offset = metadata_offset
        self.shutdown_offset: int | None = None
        """B7: the others must have read this far before the broker may stop."""


class Context:
    __slots__ = ("cause", "config", "contacts", "draining", "image", "leaving", "next_offset", "out", "rng")

    def __init__(self, config: ControllerConfig, rng: Random, out: Outbox) -> None:
        self.config = config
        self.rng = rng
        self.out = out
        self.image = Image()
        self.next_offset = 0
        self.cause = ""
        """Of the change that is being worked out, for whoever reads the log."""
        self.contacts: dict[int, Contact] = {}
        self.leaving: dict[int, None] = {}
        """Brokers that are being fenced or unregistered, in slices: they may not lead or join an ISR any more."""
        self.draining: dict[int, None] = {}
        """B7: brokers in controlled shutdown whose leaderships are being moved, in slices."""

    @property
    def slice_records(self) -> int:
        return self.config.max_slice_records

    def contact(self, broker_id: int, now: int) -> Contact:
        contact = self.contacts.get(broker_id)
        if contact is None:
            contact = self.contacts[broker_id] = Contact(now)
        return contact

    def may_lead(self, broker_id: int) -> bool:
        return broker_id not in self.leaving and eligibility.may_lead(self.image, broker_id)

    def may_join_isr(self, broker_id: int) -> bool:
        return broker_id not in self.leaving and eligibility.may_join_isr(self.image, broker_id)

    def unclean_election(self, topic: str) -> bool:
        return bool(self.image.config(topic, configs.UNCLEAN_ELECTION))

    def builder(
        self, partition: Partition, eligible: Callable[[int], bool] | None = None, election: Election | None = None
    ) -> PartitionChangeBuilder:
        """A change of `partition` under its topic's configs: elections are clean unless the topic allows others."""
        if election is None:
            election = Election.UNCLEAN if self.unclean_election(partition.topic) else Election.CLEAN
        min_isr = self.image.min_isr(partition.topic)
        return PartitionChangeBuilder(partition, min_isr, eligible or self.may_lead, election)

    def build(self, builder: PartitionChangeBuilder) -> records.PartitionChangeRecord | None:
        """Work the change out, and note what is worth knowing of it."""
        record = builder.build()
        if record is not None:
            builder.after = builder.before.changed_by(record)
            self._note(builder, builder.after)
        return record

    def _note(self, builder: PartitionChangeBuilder, after: Partition) -> None:
        before, note = builder.before, self.out.note
        where = {"topic": after.topic, "partition": after.index}
        if builder.kind:
            note(
                "leader_elected",
                **where,
                leader=after.leader,
                leader_epoch=after.leader_epoch,
                how=builder.kind,
                before=before.leader,
                cause=self.cause,
            )
        if after.leader == NO_LEADER != before.leader:
            note("leader_lost", **where, leader=before.leader, leader_epoch=after.leader_epoch, cause=self.cause)
        if (after.elr, after.last_known_elr) != (before.elr, before.last_known_elr):
            note("elr_changed", **where, elr=after.elr, last_known_elr=after.last_known_elr)
        if builder.completed:
            note("reassignment_completed", **where, replicas=after.replicas)
