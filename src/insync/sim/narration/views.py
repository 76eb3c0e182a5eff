"""Snapshots of a partition and its replicas, and their pictures for notebooks.

In a picture each replica has a lane with its records, coloured by leader epoch; a red line marks the high watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from insync.metadata.partition import NO_LEADER, Partition
from insync.replication.leader import leader_of
from insync.wire import batch

READ_BYTES = 1 << 20
EPOCH_COLOURS = ("#cfe2f3", "#d9ead3", "#fff2cc", "#f4cccc", "#d9d2e9", "#fce5cd", "#d0e0e3", "#ead1dc")
SHOWN_RECORDS = 40
"""Of a longer log only the last ones are drawn."""
TABLE = 'style="border-collapse:collapse;font-family:monospace;font-size:13px"'
CELL = "padding:2px 8px;text-align:left;border:none"


@dataclass(frozen=True, slots=True)
class RecordView:
    """One record of a replica's log."""

    offset: int
    value: bytes
    leader_epoch: int

    @property
    def text(self) -> str:
        return self.value.decode(errors="replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """One replica. While its broker is down, or has no log yet, `leo`, `hwm` and `leader_epoch` are None."""

    broker: int
    role: str
    """`leader`, `follower`, `offline`, `no log yet`, `down` or `no such broker`."""
    paused: bool = False
    leo: int | None = None
    hwm: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    """The ISR that a leader knows; None for other replicas."""
    maximal_isr: tuple[int, ...] | None = None
    """The replicas that a leader waits for: its ISR and any member of a proposal in flight."""
    records: tuple[RecordView, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """A partition at one moment: its newest metadata, and each replica as it is."""

    topic: str
    index: int
    time_ms: int
    leader: int | None
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    recovering: bool
    """True from an unclean election until the leader has recovered."""
    by_broker: Mapping[int, ReplicaView]

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def leo(self) -> int | None:
        """The log end offset of the leader; None if there is none, or it is down."""
        return None if self.leader is None else self.replica(self.leader).leo

    @property
    def hwm(self) -> int | None:
        """The high watermark of the leader; None if there is none, or it is down."""
        return None if self.leader is None else self.replica(self.leader).hwm

    def replica(self, broker: int) -> ReplicaView:
        if broker not in self.by_broker:
            known = ", ".join(map(str, self.by_broker))
            raise ValueError(f"{self.name} has no replica on broker {broker!r}: its replicas are on {known}")
        return self.by_broker[broker]

    def __repr__(self) -> str:
        leader = "none" if self.leader is None else self.leader
        elr = f" elr={list(self.elr)}" if self.elr else ""
        return (
            f"<partition {self.name} at {self.time_ms} ms: leader={leader} leader_epoch={self.leader_epoch} "
            f"isr={list(self.isr)}{elr} hwm={self.hwm} leo={self.leo}>"
        )

    def _repr_html_(self) -> str:
        return partition_html(self)


def snapshot_partition(cluster: Any, partition: Partition, time_ms: int) -> PartitionView:
    return PartitionView(
        topic=partition.topic,
        index=partition.index,
        time_ms=time_ms,
        leader=None if partition.leader == NO_LEADER else partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        replicas=partition.replicas,
        isr=tuple(sorted(partition.isr)),
        elr=tuple(sorted(partition.elr)),
        last_known_elr=tuple(sorted(partition.last_known_elr)),
        adding=partition.adding,
        removing=partition.removing,
        recovering=partition.recovering,
        by_broker={broker: snapshot_replica(cluster, partition, broker) for broker in partition.replicas},
    )


def snapshot_replica(cluster: Any, partition: Partition, broker: int, *, with_records: bool = True) -> ReplicaView:
    host = cluster.hosts.get(broker)
    if host is None or host.node is None:
        return ReplicaView(broker=broker, role="no such broker" if host is None else "down")
    replica = replica_of(cluster, partition, broker)
    if replica is None:
        return ReplicaView(broker=broker, role="no log yet", paused=host.paused)
    leader = leader_of(replica)
    state = None if leader is None else leader.isr_state
    return ReplicaView(
        broker=broker,
        role=type(replica.role).__name__.lower(),
        paused=host.paused,
        leo=replica.log.leo,
        hwm=replica.log.hwm,
        leader_epoch=replica.partition.leader_epoch,
        isr=None if state is None else tuple(sorted(state.isr)),
        maximal_isr=None if state is None else tuple(sorted(state.maximal_isr)),
        records=_read_records(replica.log) if with_records else (),
    )


def replica_of(cluster: Any, partition: Partition, broker: int) -> Any:
    """The replica on that broker, or None if the broker is down or has none."""
    host = cluster.hosts.get(broker)
    if host is None or host.node is None or not host.node.replicas:
        return None
    return host.node.replicas.replicas.get(partition.key)


def _read_records(log: Any) -> tuple[RecordView, ...]:
    data = log.read(log.log_start, READ_BYTES, limit_offset=log.leo)
    return tuple(
        RecordView(record.offset, record.value or b"", header.leader_epoch)
        for at, header in batch.iter_headers(data)
        for record in batch.records(data, at)
    )


# --- pictures --------------------------------------------------------------------------------------------------------


def partition_html(view: PartitionView) -> str:
    committed = _records_by_offset(view)
    rows = "".join(_replica_row(view, replica, committed) for replica in view.by_broker.values())
    headings = "".join(
        f'<th style="{CELL}">{name}</th>' for name in ("broker", "role", "in", "epoch", "HWM", "LEO", "log")
    )
    return f"<div><p>{_title(view)}</p><table {TABLE}><tr>{headings}</tr>{rows}</table></div>"


def simulation_html(title: str, nodes: Iterable[tuple[str, ...]], partitions: Sequence[PartitionView]) -> str:
    """`nodes` are rows of (id, roles, state)."""
    rows = "".join(_row(row) for row in nodes)
    headings = "".join(f'<th style="{CELL}">{name}</th>' for name in ("node", "roles", "state"))
    pictures = "".join(partition_html(view) for view in partitions)
    return f"<div><p>{escape(title)}</p><table {TABLE}><tr>{headings}</tr>{rows}</table>{pictures}</div>"


def _title(view: PartitionView) -> str:
    parts = [
        f"leader {'none' if view.leader is None else view.leader}",
        f"leader epoch {view.leader_epoch}",
        f"ISR {list(view.isr)}",
    ]
    for name, brokers in (("ELR", view.elr), ("adding", view.adding), ("removing", view.removing)):
        if brokers:
            parts.append(f"{name} {list(brokers)}")
    return f"<b>{escape(view.name)}</b> at {view.time_ms} ms: {', '.join(parts)}"


def _replica_row(view: PartitionView, replica: ReplicaView, leader_log: dict[int, RecordView]) -> str:
    membership = "ISR" if replica.broker in view.isr else "ELR" if replica.broker in view.elr else "-"
    cells = (
        str(replica.broker),
        replica.role + (" (paused)" if replica.paused else ""),
        membership,
        _number(replica.leader_epoch),
        _number(replica.hwm),
        _number(replica.leo),
    )
    return f'<tr>{_cells(cells)}<td style="{CELL}">{_lane(replica, leader_log)}</td></tr>'


def _lane(replica: ReplicaView, leader_log: dict[int, RecordView]) -> str:
    """Records that differ from the leader's log are struck through, uncommitted ones are pale."""
    skipped = max(0, len(replica.records) - SHOWN_RECORDS)
    spans = [f"<span>… {skipped} more</span>"] if skipped else []
    for record in replica.records[skipped:]:
        same = leader_log.get(record.offset, record)
        differs = (same.leader_epoch, same.value) != (record.leader_epoch, record.value)
        committed = replica.hwm is not None and record.offset < replica.hwm
        last_committed = replica.hwm is not None and record.offset == replica.hwm - 1
        style = (
            f"display:inline-block;padding:1px 5px;margin-right:1px;border:1px solid #888;"
            f"background:{EPOCH_COLOURS[record.leader_epoch % len(EPOCH_COLOURS)]};"
            f"opacity:{'1' if committed else '0.6'};"
            f"{'text-decoration:line-through;' if differs else ''}"
            f"{'border-right:3px solid #c00;' if last_committed else ''}"
        )
        title = f"offset {record.offset}, leader epoch {record.leader_epoch}"
        spans.append(f'<span style="{style}" title="{title}">{escape(record.text)}</span>')
    return "".join(spans)


def _records_by_offset(view: PartitionView) -> dict[int, RecordView]:
    """The leader's log; empty if there is no leader, or it is down."""
    leader = None if view.leader is None else view.by_broker.get(view.leader)
    return {} if leader is None else {record.offset: record for record in leader.records}


def _row(cells: Iterable[str]) -> str:
    return f"<tr>{_cells(cells)}</tr>"


def _cells(texts: Iterable[str]) -> str:
    return "".join(f'<td style="{CELL}">{escape(text)}</td>' for text in texts)


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
