"""A partition as text: its leader, its ISR, and how far each replica's log reaches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from insync.metadata.partition import NO_LEADER, Partition
from insync.sim.narration.views import snapshot_replica

HEADINGS = ("replica", "role", "LEO", "HWM", "epoch", "ISR", "maximal ISR")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPicture:
    """One replica; if it is down or has no log yet, `role` says so and the numbers are empty."""

    broker: int
    role: str
    leo: str = ""
    hwm: str = ""
    epoch: str = ""
    isr: str = ""
    maximal_isr: str = ""
    """Only leaders have these two; the maximal ISR is shown only if it differs from the ISR."""

    @property
    def cells(self) -> tuple[str, ...]:
        return (str(self.broker), self.role, self.leo, self.hwm, self.epoch, self.isr, self.maximal_isr)


def partition_lines(cluster: Any, partition: Partition) -> list[str]:
    """A line of metadata, then a table with a line per replica."""
    rows = [HEADINGS, *(picture.cells for picture in replica_pictures(cluster, partition))]
    used = [column for column in range(len(HEADINGS)) if any(row[column] for row in rows[1:])]
    widths = {column: max(len(row[column]) for row in rows) for column in used}
    table = ["  ".join(row[column].ljust(widths[column]) for column in used).rstrip() for row in rows]
    return [metadata_line(partition), *(f"  {line}" for line in table)]


def metadata_line(partition: Partition) -> str:
    parts = [
        f"{partition.name}: leader {leader_name(partition)}",
        f"leader epoch {partition.leader_epoch}",
        f"partition epoch {partition.partition_epoch}",
        f"ISR {members(partition.isr)}",
    ]
    for name, brokers in (
        ("ELR", partition.elr),
        ("last-known ELR", partition.last_known_elr),
        ("adding", partition.adding),
        ("removing", partition.removing),
    ):
        if brokers:
            parts.append(f"{name} {members(brokers)}")
    if partition.recovering:
        parts.append("recovering")
    return ", ".join(parts)


def leader_name(partition: Partition) -> str:
    return "none" if partition.leader == NO_LEADER else str(partition.leader)


def replica_pictures(cluster: Any, partition: Partition) -> list[ReplicaPicture]:
    return [_replica_picture(cluster, partition, broker) for broker in partition.replicas]


def _replica_picture(cluster: Any, partition: Partition, broker: int) -> ReplicaPicture:
    view = snapshot_replica(cluster, partition, broker, with_records=False)
    return ReplicaPicture(
        broker=broker,
        role=view.role + (" (paused)" if view.paused and view.leo is not None else ""),
        leo="" if view.leo is None else str(view.leo),
        hwm="" if view.hwm is None else str(view.hwm),
        epoch="" if view.leader_epoch is None else str(view.leader_epoch),
        isr="" if view.isr is None else members(view.isr),
        maximal_isr="" if view.maximal_isr in (None, view.isr) else members(view.maximal_isr or ()),
    )


def log_line(cluster: Any, partition: Partition, broker: int) -> str:
    """The records of a replica, each with its leader epoch."""
    records = log_records(cluster, partition, broker)
    if records is None:
        return f"log of {broker}: not available"
    return f"log of {broker}: " + (" ".join(f"{offset}:{value}@{epoch}" for offset, value, epoch in records) or "empty")


def log_records(cluster: Any, partition: Partition, broker: int) -> list[tuple[int, str, int]] | None:
    """(offset, value, leader epoch) of every record of the replica; None if its broker is down."""
    view = snapshot_replica(cluster, partition, broker)
    return None if view.leo is None else [(record.offset, record.text, record.leader_epoch) for record in view.records]


def members(brokers: tuple[int, ...]) -> str:
    """Sorted, because their order does not matter."""
    return "[" + ", ".join(map(str, sorted(brokers))) + "]"
