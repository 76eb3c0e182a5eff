"""Who caused what: a change record says what became of a partition, and not why. The why is read off what is around it.

The controller takes a replica out of an ISR when its broker is fenced, shuts down, comes back unclean or is
unregistered, and says so in records of the same batch (before or after, both occur). A leader takes one out that fell
behind, and takes one in that caught up: then nothing is known of the broker. An election is told by where the new
leader was before: in the ISR, in the ELR, or outside of both.
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
class Around:
    """What one batch says of brokers."""

    fenced: dict[int, None] = field(default_factory=dict)
    stopping: dict[int, None] = field(default_factory=dict)
    registered: dict[int, None] = field(default_factory=dict)
    gone: dict[int, None] = field(default_factory=dict)


def around(batch: Iterable[records.MetadataRecord]) -> Around:
    found = Around()
    for record in batch:
        if isinstance(record, records.FenceBrokerRecord):
            found.fenced[record.id] = None
        elif isinstance(record, records.BrokerRegistrationChangeRecord):
            if record.fenced == records.FENCED:
                found.fenced[record.broker_id] = None
            if record.in_controlled_shutdown == 1:
                found.stopping[record.broker_id] = None
        elif isinstance(record, records.RegisterBrokerRecord):
            found.registered[record.broker_id] = None
        elif isinstance(record, records.UnregisterBrokerRecord):
            found.gone[record.broker_id] = None
    return found


def of_broker(broker: int, batch: Around, image: Image) -> str | None:
    """Why the controller takes a broker out of ISRs; None if it has no reason to."""
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


def of_shrink(before: Partition, after: Partition, batch: Around, image: Image) -> tuple[str, str]:
    """(cause, by whom) of replicas that left the ISR."""
    left = [broker for broker in before.isr if broker not in after.isr]
    if after.leader not in (NO_LEADER, before.leader, *before.isr):
        return UNCLEAN, CONTROLLER
    if any(broker not in after.replicas for broker in left):
        return REASSIGNED, CONTROLLER
    for broker in left:
        reason = of_broker(broker, batch, image)
        if reason is not None:
            return f"broker {broker} {reason}", CONTROLLER
    return f"broker {left[0]} {LAGGED}", f"leader {before.leader}"


def of_expand(before: Partition, after: Partition) -> tuple[str, str]:
    joined = [broker for broker in after.isr if broker not in before.isr]
    if before.leader not in (NO_LEADER, after.leader) or before.leader == NO_LEADER:
        return f"broker {joined[0]} elected", CONTROLLER
    return f"broker {joined[0]} {CAUGHT_UP}", f"leader {before.leader}"


def of_election(before: Partition, after: Partition, batch: Around, image: Image) -> tuple[str, str]:
    """(how, cause) of a new leader, or of none."""
    old = before.leader
    reason = of_broker(old, batch, image) if old != NO_LEADER else None
    cause = "was without a leader" if old == NO_LEADER else f"broker {old} {reason}" if reason else ""
    if after.leader == NO_LEADER:
        return "none", cause or f"broker {old} left the ISR"
    if after.leader in before.isr:
        if old in after.isr and after.leader == after.replicas[0] and not reason:
            return PREFERRED, "leadership went back to the first replica"
        return CLEAN, cause or (REASSIGNED if old not in after.replicas else f"broker {old} gave up leadership")
    return FROM_ELR if after.leader in before.elr else UNCLEAN_ELECTION, cause
