"""The active controller's brain: requests in, decisions out, on the pending image (Q2, Q3).

The node asks one handler at a time, appends the decision's records as one batch, replays them here at once, and answers
when they are committed. A handler of a large change returns slices, and the node takes one per step (`decision`). A
controller that lost its leadership is deactivated: its pending image goes, and with it every decision that was not
committed. What no request asked for (fencing, recoveries, rebalancing) goes through `submit`, which must append and
replay the first slice before it returns.

`next_offset` is the end of the metadata log; the node keeps it right before each call, and `replay` moves it along.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from insync.controller import (
    alter_partition,
    broker_registry,
    configs,
    directories,
    elections,
    heartbeats,
    producer_ids,
    reassignment,
    topics,
)
from insync.controller.config import ControllerConfig
from insync.controller.context import Contact, Context
from insync.controller.decision import Decision, Slices
from insync.controller.recovery import Recoveries
from insync.metadata.image import CLUSTER_DEFAULTS, Image
from insync.metadata.partition import PartitionKey
from insync.sansio import Outbox
from insync.wire import metadata_records as records

if TYPE_CHECKING:
    from random import Random

_WAKES_RECOVERY = (
    records.PartitionChangeRecord,
    records.BrokerRegistrationChangeRecord,
    records.RegisterBrokerRecord,
    records.ConfigRecord,
)


class Controller:
    __slots__ = (
        "_ctx",
        "_leaderless",
        "_now",
        "_rebalance_at",
        "_recoveries",
        "_stirred",
        "_submit",
        "active",
        "epoch",
    )

    def __init__(
        self, config: ControllerConfig, rng: Random, out: Outbox, submit: Callable[[Decision | Slices, int], None]
    ) -> None:
        self.active = False
        self.epoch = -1
        self._ctx = Context(config, rng, out)
        self._submit = submit
        self._recoveries = Recoveries(self._ctx, submit)
        self._now = 0
        self._rebalance_at = 0
        self._stirred = False
        """Something changed that may let a leaderless partition have a leader."""
        self._leaderless: deque[PartitionKey] = deque()
        """Partitions without a leader that are still to be looked at since then."""

    @property
    def image(self) -> Image:
        """The pending image: all decisions, committed or not."""
        return self._ctx.image

    @property
    def next_offset(self) -> int:
        return self._ctx.next_offset

    @next_offset.setter
    def next_offset(self, offset: int) -> None:
        self._ctx.next_offset = offset

    # --- leadership of the quorum --------------------------------------------------------------------------------

    def activate(self, image: Image, epoch: int, now: int) -> None:
        """`image` is this controller's to keep. Soft state starts afresh: every broker was heard from just now."""
        self.active = True
        self.epoch = epoch
        self._now = now
        self._ctx.image = image
        self._ctx.contacts = {broker: Contact(now) for broker in image.brokers}
        self._recoveries.reset()
        self._rebalance_at = now + self._ctx.config.rebalance_interval_ms
        self._stirred = True
        self._leaderless.clear()
        if image.empty:
            self._submit(Decision(records=tuple(_first_records(self._ctx.config))), now)
        unfinished = topics.incomplete(image)
        if unfinished is not None:
            self._submit(unfinished, now)

    def deactivate(self) -> None:
        self.active = False
        self._ctx.image = Image()
        self._ctx.contacts = {}
        self._ctx.leaving = {}
        self._ctx.draining = {}
        self._recoveries.reset()

    def replay(self, record: records.MetadataRecord, offset: int) -> None:
        """Q3: the next decision is made on the state that this one leaves."""
        self._ctx.image.apply(record, offset)
        self._ctx.next_offset = offset + 1
        if isinstance(record, _WAKES_RECOVERY):
            self._stirred = True

    # --- time ----------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        if not self.active:
            return
        self._now = now
        expired = heartbeats.expired(self._ctx, now)
        if expired:  # the others, and the elections that follow, have steps of their own
            cause = heartbeats.silence_of(self._ctx, expired[0].id, now)
            self._submit(broker_registry.fence(self._ctx, expired[0], cause), now)
            return
        self._find_leaders(now)
        if self.active and self._ctx.config.rebalance_interval_ms > 0 and self._rebalance_at <= now:
            self._rebalance_at = now + self._ctx.config.rebalance_interval_ms
            self._submit(elections.rebalance(self._ctx), now)

    def _find_leaders(self, now: int) -> None:
        if self._stirred and not self._leaderless:
            self._stirred = False
            self._leaderless.extend(partition.key for partition in self._ctx.image.leaderless())
        if self._leaderless:
            self._ctx.cause = "there is no other leader"
            decision = elections.elect_leaderless(self._ctx, self._leaderless)
            if decision is not None:
                self._submit(decision, now)
        if self.active:
            self._ctx.cause = "recovery"
            self._recoveries.tick(now)

    def next_deadline(self) -> int | None:
        if not self.active:
            return None
        times = [heartbeats.next_expiry(self._ctx), self._recoveries.next_deadline]
        if self._ctx.config.rebalance_interval_ms > 0:
            times.append(self._rebalance_at)
        if self._leaderless or (self._stirred and self._ctx.image.has_leaderless):
            times.append(self._now)
        return min((time for time in times if time is not None), default=None)

    def peer_lost(self, broker_id: int, now: int) -> None:
        if self.active:
            heartbeats.peer_lost(self._ctx, broker_id, now)

    def on_stall(self, late_ms: int, now: int) -> None:
        """The controller itself did not run for so long."""
        heartbeats.on_stall(self._ctx, late_ms, now)

    # --- requests ------------------------------------------------------------------------------------------------

    def register_broker(self, request: Any, now: int) -> Decision | Slices:
        self._ctx.cause = "a broker registers"
        return broker_registry.register(self._ctx, request, now)

    def unregister_broker(self, request: Any, now: int) -> Slices:
        self._ctx.cause = "a broker is unregistered"
        return broker_registry.unregister(self._ctx, request, now)

    def broker_heartbeat(self, request: Any, now: int) -> Decision:
        self._ctx.cause = "heartbeat"
        return heartbeats.heartbeat(self._ctx, request, now)

    def alter_partition(self, request: Any, now: int) -> Decision:
        self._ctx.cause = "its leader changes the ISR"
        return alter_partition.alter(self._ctx, request, now)

    def assign_replicas_to_dirs(self, request: Any, now: int) -> Decision:
        self._ctx.cause = "its replica is damaged"
        return directories.assign(self._ctx, request, now)

    def create_topics(self, request: Any, now: int) -> Slices:
        return topics.create(self._ctx, request, now)

    def delete_topics(self, request: Any, now: int) -> Decision:
        return topics.delete(self._ctx, request, now)

    def create_partitions(self, request: Any, now: int) -> Slices:
        self._ctx.cause = "partitions are added"
        return topics.add_partitions(self._ctx, request, now)

    def alter_partition_reassignments(self, request: Any, now: int) -> Decision:
        self._ctx.cause = "reassignment"
        return reassignment.alter(self._ctx, request, now)

    def list_partition_reassignments(self, request: Any, now: int) -> Decision:
        return reassignment.listing(self._ctx, request, now)

    def elect_leaders(self, request: Any, now: int) -> Slices:
        self._ctx.cause = "an election is asked for"
        return elections.elect(self._ctx, request, now)

    def incremental_alter_configs(self, request: Any, now: int) -> Slices:
        self._ctx.cause = "configs change"
        return configs.alter(self._ctx, request, now)

    def alter_configs(self, request: Any, now: int) -> Slices:
        self._ctx.cause = "configs change"
        return configs.replace_all(self._ctx, request, now)

    def allocate_producer_ids(self, request: Any, now: int) -> Decision:
        return producer_ids.allocate(self._ctx, request, now)


def _first_records(config: ControllerConfig) -> list[records.MetadataRecord]:
    """What a new cluster starts with."""
    kind, everyone = CLUSTER_DEFAULTS
    return [
        *(records.FeatureLevelRecord(name=name, feature_level=level) for name, level in config.features),
        *(
            records.ConfigRecord(resource_type=kind, resource_name=everyone, name=name, value=value)
            for name, value in config.cluster_defaults
        ),
    ]
