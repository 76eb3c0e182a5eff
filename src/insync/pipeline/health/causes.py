"""Causes of changes: a change record says what became of a partition, but not why. The cause follows from its context.

The controller removes a replica from an ISR when its broker is fenced, shuts down, restarts unclean or is unregistered;
records in the same batch say so (before or after the change). A leader removes a replica that fell behind, and adds one
that caught up: then no record is about the broker. The kind of an election follows from where the new leader was
before: in the ISR, in the ELR, or in neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from insync.metadata.image import Image
from insync.metadata.partition import NO_LEADER, Partition
from insync.wire import metadata_records as records

FENCED, STOPPING, RESTARTED, GONE = "fenced", "controlled shutdown", "restarted unclean", "unregistered"
REASSIGNED, LAGGED, CAUGHT_UP, UNCLEAN = "reassigned", "fell behind", "caught up", "unclean election"

CLEAN, FROM_ELR, PREFERRED, UNCLEAN_ELECTION = "clean", "elr", "preferred", "unclean"
CONTROLLER = "controller"


@dataclass(slots=True)
class BrokerChanges:
    """What a batch says about brokers."""

    fenced: dict[int, None] = field(default_factory=dict)
    stopping: dict[int, None] = field(default_factory=dict)
    registered: dict[int, None] = field(default_factory=dict)
    gone: dict[int, None] = field(default_factory=dict)


def collect_broker_changes(batch: Iterable[records.MetadataRecord]) -> BrokerChanges:
    changes = BrokerChanges()
    for record in batch:
        if isinstance(record, records.FenceBrokerRecord):
            changes.fenced[record.id] = None
        elif isinstance(record, records.BrokerRegistrationChangeRecord):
            if record.fenced == records.FENCED:
                changes.fenced[record.broker_id] = None
            if record.in_controlled_shutdown == 1:
                changes.stopping[record.broker_id] = None
        elif isinstance(record, records.RegisterBrokerRecord):
            changes.registered[record.broker_id] = None
        elif isinstance(record, records.UnregisterBrokerRecord):
            changes.gone[record.broker_id] = None
    return changes


def explain_removal(broker: int, batch: BrokerChanges, image: Image) -> str | None:
    """Why the controller would remove a broker from ISRs; None if it has no reason."""
    for reason, brokers in (
        (FENCED, batch.fenced),
        (STOPPING, batch.stopping),
        (RESTARTED, batch.registered),
        (GONE, batch.gone),
    ):
        if broker in brokers:
            return reason
    known = image.brokers.get(broker)
    if known is None:
        return GONE
    return FENCED if known.fenced else STOPPING if known.in_controlled_shutdown else None


def explain_shrink(before: Partition, after: Partition, batch: BrokerChanges, image: Image) -> tuple[str, str]:
    """(cause, decided by) for replicas that left the ISR."""
    left = [broker for broker in before.isr if broker not in after.isr]
    if after.leader not in (NO_LEADER, before.leader, *before.isr):
        return UNCLEAN, CONTROLLER
    if any(broker not in after.replicas for broker in left):
        return REASSIGNED, CONTROLLER
    for broker in left:
        reason = explain_removal(broker, batch, image)
        if reason is not None:
            return f"broker {broker} {reason}", CONTROLLER
    return f"broker {left[0]} {LAGGED}", f"leader {before.leader}"


def explain_expand(before: Partition, after: Partition) -> tuple[str, str]:
    """(cause, decided by) for replicas that joined the ISR."""
    joined = [broker for broker in after.isr if broker not in before.isr]
    if before.leader not in (NO_LEADER, after.leader) or before.leader == NO_LEADER:
        return f"broker {joined[0]} elected", CONTROLLER
    return f"broker {joined[0]} {CAUGHT_UP}", f"leader {before.leader}"


def explain_election(before: Partition, after: Partition, batch: BrokerChanges, image: Image) -> tuple[str, str]:
    """(how, cause) for a new leader, or for none."""
    old = before.leader
    reason = explain_removal(old, batch, image) if old != NO_LEADER else None
    cause = "had no leader" if old == NO_LEADER else f"broker {old} {reason}" if reason else ""
    if after.leader == NO_LEADER:
        return "none", cause or f"broker {old} left the ISR"
    if after.leader in before.isr:
        if old in after.isr and after.leader == after.replicas[0] and not reason:
            return PREFERRED, "leadership returned to the preferred replica"
        return CLEAN, cause or (REASSIGNED if old not in after.replicas else f"broker {old} gave up leadership")
    return FROM_ELR if after.leader in before.elr else UNCLEAN_ELECTION, cause
