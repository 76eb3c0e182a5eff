"""Replays the metadata log: what happened to every ISR, and how long each partition was in which state.

`HistoryBuilder` applies the decisions to an image and records, as plain tuples, *events* (something changed) and
*spans* (a state from one time to another). By Kafka's definitions a partition is under-replicated while its ISR is
smaller than its replica set without replicas being added, under MinISR while acks=all is refused, and offline while it
has no leader.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from insync.errors import InvariantError
from insync.metadata.image import Image
from insync.metadata.partition import NO_LEADER, Partition, PartitionKey
from insync.pipeline.health import causes
from insync.pipeline.health.causes import BrokerChanges
from insync.pipeline.health.metadata_log import Decision
from insync.wire import metadata_records as records

SHRINK, EXPAND, ELECTION, NO_LEADER_EVENT = "isr_shrink", "isr_expand", "election", "no_leader"
CREATED, REMOVED, MOVE, MOVED = "topic_created", "topic_removed", "reassignment_started", "reassignment_ended"
REGISTERED, UNREGISTERED = "broker_registered", "broker_unregistered"
FENCED, UNFENCED, STOPPING = "broker_fenced", "broker_unfenced", "broker_shutdown"
CONTROLLER, MIN_ISR = "controller_elected", "min_isr_changed"
UP, DOWN, LEAVING, ABSENT = "up", "fenced", "shutting down", "gone"


class Event(NamedTuple):
    offset: int
    time_ms: int
    epoch: int
    kind: str
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    """The new leader, the fenced broker, and so on."""
    members: tuple[int, ...] = ()
    """Replicas that left or joined."""
    isr: tuple[int, ...] = ()
    how: str | None = None
    cause: str | None = None
    by: str | None = None


class Span(NamedTuple):
    """A partition's state from one time to another."""

    topic: str
    partition: int
    from_ms: int
    to_ms: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    min_isr: int
    under_replicated: bool
    under_min_isr: bool
    offline: bool


class BrokerSpan(NamedTuple):
    broker: int
    from_ms: int
    to_ms: int
    state: str


class HistoryBuilder:
    def __init__(self, defaults: dict[str, str] | None = None) -> None:
        self.image = Image(defaults)
        self.events: list[Event] = []
        self.spans: list[Span] = []
        self.broker_spans: list[BrokerSpan] = []
        self.start_ms = -1
        self.end_ms = -1
        self.applied = 0
        self.skipped = 0
        """Records that say nothing about replication, or contradict earlier ones."""
        self.open_spans = 0
        """How many of the last spans had no end."""
        self._open: dict[PartitionKey, Span] = {}
        self._brokers: dict[int, tuple[int, str]] = {}
        self._now = Decision(-1, -1, -1)
        self._broker_changes = BrokerChanges()
        self._controller = -1

    def begin(self, base: Decision) -> None:
        """Start from the state before the first decision, without events."""
        self._step(base)
        self.events.clear()

    def apply(self, decision: Decision) -> None:
        if decision.leader >= 0 and decision.leader != self._controller:
            self._controller = decision.leader
            self._advance_clock(decision)
            self._add_event(CONTROLLER, broker=decision.leader)
        if decision.records or decision.unknown:
            self._step(decision)

    def finish(self, until_ms: int | None = None) -> None:
        """Open spans end with the last record, or at `until_ms`."""
        self.end_ms = max(self.end_ms, until_ms or 0)
        self.open_spans = len(self._open)
        for span in self._open.values():
            self.spans.append(span._replace(to_ms=self.end_ms))
        for broker, (since, state) in self._brokers.items():
            self.broker_spans.append(BrokerSpan(broker, since, self.end_ms, state))
        self._open.clear()
        self._brokers.clear()

    # --- one decision ------------------------------------------------------------------------------------------------

    def _step(self, decision: Decision) -> None:
        self._advance_clock(decision)
        self._broker_changes = causes.collect_broker_changes(decision.records)
        self.skipped += decision.unknown
        for record in decision.records:
            try:
                self._apply_record(record)
                self.applied += 1
            except InvariantError:
                self.skipped += 1

    def _advance_clock(self, decision: Decision) -> None:
        """Controllers' clocks differ: time never goes back, so that no span has a negative length."""
        self._now = replace(decision, time_ms=max(decision.time_ms, self.end_ms))
        self.end_ms = self._now.time_ms
        if self.start_ms < 0:
            self.start_ms = self.end_ms

    def _apply_record(self, record: records.MetadataRecord) -> None:
        image, offset = self.image, self._now.offset
        if isinstance(record, records.PartitionChangeRecord):
            before = image.partition((record.topic_id, record.partition_id))
            image.apply(record, offset)
            after = image.partition((record.topic_id, record.partition_id))
            if before is not None and after is not None:
                self._on_partition_change(before, after)
        elif isinstance(record, records.PartitionRecord):
            image.apply(record, offset)
            made = image.partition((record.topic_id, record.partition_id))
            if made is not None:
                self._update_span(made)
        elif isinstance(record, records.RemoveTopicRecord):
            self._on_topic_removed(record)
        elif isinstance(record, records.TopicRecord):
            image.apply(record, offset)
            self._add_event(CREATED, topic=record.name)
        elif isinstance(record, records.ConfigRecord):
            image.apply(record, offset)
            self._on_config(record)
        else:
            image.apply(record, offset)
            self._on_broker_record(record)

    # --- partitions --------------------------------------------------------------------------------------------------

    def _on_partition_change(self, before: Partition, after: Partition) -> None:
        batch, image = self._broker_changes, self.image
        left = tuple(broker for broker in before.isr if broker not in after.isr)
        joined = tuple(broker for broker in after.isr if broker not in before.isr)
        where = {"topic": after.topic, "partition": after.index, "isr": after.isr}
        if left:
            cause, by = causes.explain_shrink(before, after, batch, image)
            self._add_event(SHRINK, members=left, cause=cause, by=by, **where)
        if joined:
            cause, by = causes.explain_expand(before, after)
            self._add_event(EXPAND, members=joined, cause=cause, by=by, **where)
        if after.leader != before.leader:
            how, cause = causes.explain_election(before, after, batch, image)
            kind = NO_LEADER_EVENT if after.leader == NO_LEADER else ELECTION
            self._add_event(kind, broker=after.leader, how=how, cause=cause, by=causes.CONTROLLER, **where)
        if after.reassigning != before.reassigning:
            members = after.adding if after.reassigning else after.replicas
            self._add_event(MOVE if after.reassigning else MOVED, members=members, **where)
        self._update_span(after)

    def _update_span(self, partition: Partition) -> None:
        """Close the partition's span and open another, if its state has changed."""
        old = self._open.get(partition.key)
        new = self._make_span(partition)
        if old is not None:
            if old[4:] == new[4:]:
                return
            if new.from_ms > old.from_ms:
                self.spans.append(old._replace(to_ms=new.from_ms))
        self._open[partition.key] = new

    def _make_span(self, partition: Partition) -> Span:
        needed = partition.effective_min_isr(self.image.min_isr(partition.topic))
        wanted = len(partition.replicas) - len(partition.adding)
        return Span(
            partition.topic,
            partition.index,
            self._now.time_ms,
            -1,
            partition.leader,
            partition.leader_epoch,
            partition.replicas,
            partition.isr,
            partition.elr,
            needed,
            len(partition.isr) < wanted,
            len(partition.isr) < needed,
            partition.leader == NO_LEADER,
        )

    def _on_topic_removed(self, record: records.RemoveTopicRecord) -> None:
        name = self.image.topics.get(record.topic_id)
        for index in list(self.image.partitions.get(record.topic_id, ())):
            span = self._open.pop((record.topic_id, index), None)
            if span is not None:
                self.spans.append(span._replace(to_ms=self._now.time_ms))
        self.image.apply(record, self._now.offset)
        self._add_event(REMOVED, topic=name)

    def _on_config(self, record: records.ConfigRecord) -> None:
        if record.name != "min.insync.replicas":
            return
        topic = record.resource_name if record.resource_type == 2 else None
        self._add_event(MIN_ISR, topic=topic, cause=f"now {record.value}")
        partitions: Iterable[Partition] = self.image.all_partitions()
        for partition in partitions:
            if topic is None or partition.topic == topic:
                self._update_span(partition)

    # --- brokers -----------------------------------------------------------------------------------------------------

    def _on_broker_record(self, record: records.MetadataRecord) -> None:
        if isinstance(record, records.RegisterBrokerRecord):
            self._add_event(REGISTERED, broker=record.broker_id)
            self._update_broker_span(record.broker_id)
        elif isinstance(record, records.UnregisterBrokerRecord):
            self._add_event(UNREGISTERED, broker=record.broker_id)
            self._update_broker_span(record.broker_id)
        elif isinstance(record, records.FenceBrokerRecord | records.UnfenceBrokerRecord):
            self._update_broker_span(record.id)
        elif isinstance(record, records.BrokerRegistrationChangeRecord):
            self._update_broker_span(record.broker_id)
        elif isinstance(record, records.ClearElrRecord):
            for partition in self.image.all_partitions():
                self._update_span(partition)

    def _update_broker_span(self, broker: int) -> None:
        known = self.image.brokers.get(broker)
        state = ABSENT if known is None else DOWN if known.fenced else LEAVING if known.in_controlled_shutdown else UP
        since, old = self._brokers.get(broker, (self._now.time_ms, ABSENT))
        if state == old:
            return
        if self._now.time_ms > since:
            self.broker_spans.append(BrokerSpan(broker, since, self._now.time_ms, old))
        self._brokers[broker] = (self._now.time_ms, state)
        kind = {UP: UNFENCED, DOWN: FENCED, LEAVING: STOPPING}.get(state)
        if kind is not None and not (kind == FENCED and old == ABSENT):
            self._add_event(kind, broker=broker)

    def _add_event(self, kind: str, **fields: object) -> None:
        now = self._now
        self.events.append(Event(now.offset, now.time_ms, now.epoch, kind, **fields))  # type: ignore[arg-type]
