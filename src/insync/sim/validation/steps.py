"""One partition's trace: the steps of the specification that a run took, and the messages between them.

A step names an action of the specification, its broker, and what was observed after it. A message is in flight from the
step that sends it to the last step that receives it; one that no step receives was lost. Steps that turn out to have
had no effect are not kept.

The specification counts offsets and epochs from 1, so everything here is one more than in the nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from insync.metadata.partition import NO_LEADER, Partition, PartitionKey
from insync.replication.follower import Follower
from insync.replication.isr import Committed
from insync.replication.leader import Leader
from insync.replication.replica import Replica
from insync.storage.log import Log

TAIL_RECORDS = 3
"""So many records at the end of a log are compared after each step; whole logs at the end of a trace."""
NONE = 0
"""Stands for no leader, no message, an unknown LEO."""


class Message:
    """A request or response; identical retransmissions of it are one message."""

    __slots__ = ("last_receiver", "number", "sender")

    def __init__(self, sender: Step | None = None) -> None:
        self.sender = sender
        self.number = NONE
        self.last_receiver: Step | None = None


class Step:
    """`fields` are those of the action; `after` is the observed state of its broker, None if it was not observed."""

    __slots__ = ("action", "after", "broker", "fields", "is_kept", "receives", "sends", "time_us")

    def __init__(self, action: str, broker: int, time_us: int, **fields: Any) -> None:
        self.action = action
        self.broker = broker
        self.time_us = time_us
        self.fields = fields
        self.after: dict[str, Any] | None = None
        self.is_kept = True
        self.receives: Message | None = None
        self.sends: Message | None = None

    def receive(self, message: Message) -> None:
        self.receives = message

    def send(self) -> Message:
        self.sends = Message(self)
        return self.sends


@dataclass(slots=True)
class PartitionTrace:
    """The trace of one partition, from its creation to the end of the run."""

    name: str
    key: PartitionKey
    min_isr: int
    seed: int
    brokers: tuple[int, ...]
    init: dict[str, Any]
    steps: list[Step] = field(default_factory=list)
    values: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """A number for each record, by offset, leader epoch and CRC of its batch."""
    ended: str = ""
    """Why the rest of the run is not part of the trace."""

    def value_of(self, offset: int, epoch: int, crc: int) -> int:
        return self.values.setdefault((offset, epoch, crc), len(self.values) + 1)

    def records(self, log: Log, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """(leader epoch, value) of each record."""
        return tuple(
            (header.leader_epoch + 1, self.value_of(offset, header.leader_epoch, header.crc))
            for header in log.iter_headers(start, end)
            for offset in range(max(start, header.base_offset), min(end, header.last_offset + 1))
        )

    def tail(self, log: Log) -> tuple[tuple[int, int], ...]:
        return self.records(log, max(log.log_start, log.leo - TAIL_RECORDS), log.leo)

    def kept_steps(self) -> list[Step]:
        """With messages numbered: those that no kept step receives are lost, and have no number."""
        kept = _merge_fetches([step for step in self.steps if step.is_kept])
        number = len(self.brokers)
        for step in kept:
            message = step.receives
            if message is None:
                continue
            message.last_receiver = step
            if message.number == NONE:
                number += 1
                message.number = number
        return kept


def _merge_fetches(steps: list[Step]) -> list[Step]:
    """A fetch that is recorded and answered at once is one step."""
    merged: list[Step] = []
    for step in steps:
        last = merged[-1] if merged else None
        if (
            last is not None
            and last.action == step.action == "FetchRequest"
            and last.receives is step.receives
            and last.sends is None
        ):
            step.after = step.after or last.after
            merged.pop()
        merged.append(step)
    return merged


def observe_replica(trace: PartitionTrace, node: Any) -> dict[str, Any]:
    """The specification's variables of one broker, once it applies its assignments."""
    log = node.broker_role.log_store.get(*trace.key)
    replica = node.replicas.replicas.get(trace.key)
    if replica is None:
        return {"role": "none", "leo": 1 if log is None else log.leo + 1}
    partition, log = replica.partition, replica.log
    role = replica.role
    isr = role.isr_state.isr if isinstance(role, Leader) else partition.isr
    return {
        "role": "leader" if isinstance(role, Leader) else "follower" if isinstance(role, Follower) else "idle",
        "leader": to_leader(partition.leader),
        "leader_epoch": partition.leader_epoch + 1,
        "partition_epoch": partition.partition_epoch + 1,
        "replicas": frozenset(partition.replicas),
        "isr": frozenset(isr),
        "maximal_isr": frozenset(role.isr_state.maximal_isr if isinstance(role, Leader) else isr),
        "leo": log.leo + 1,
        "hwm": log.hwm + 1,
        "tail": trace.tail(log),
        "leso": role.leso + 1 if isinstance(role, Leader) else NONE,
        "followers": _followers(role, partition) if isinstance(role, Leader) else frozenset(),
        "is_pending": isinstance(role, Leader) and not isinstance(role.isr_state, Committed),
        "fetches_from": _fetched_leader(node, replica),
    }


def _followers(leader: Leader, partition: Partition) -> frozenset[tuple[int, int, int]]:
    """(broker, LEO, broker epoch) of each follower, as far as it has fetched in this leader epoch."""
    return frozenset(
        (broker, progress.leo + 1, max(progress.broker_epoch, 0)) if progress.fetched_in_epoch else (broker, NONE, 0)
        for broker, progress in leader.followers.items()
        if broker in partition.replicas
    )


def _fetched_leader(node: Any, replica: Replica) -> int:
    fetcher = node.replicas._fetchers._by_partition.get(replica.key)
    return NONE if fetcher is None else int(fetcher._leader)


def to_leader(leader: int) -> int:
    return NONE if leader == NO_LEADER else leader


def observe_controller(partition: Partition) -> dict[str, Any]:
    """The specification's `con_partition_metadata`."""
    return {
        "replicas": frozenset(partition.replicas),
        "isr": frozenset(partition.isr),
        "elr": frozenset(partition.elr),
        "last_known_elr": frozenset(partition.last_known_elr),
        "leader": to_leader(partition.leader),
        "leader_epoch": partition.leader_epoch + 1,
        "partition_epoch": partition.partition_epoch + 1,
        "adding": frozenset(partition.adding),
        "removing": frozenset(partition.removing),
    }
