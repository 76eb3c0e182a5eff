"""The active controller: its term, its pending image, and what it decides by itself (Q2, Q3).

Requests are decided by functions of this package (`alter_partition`, `topics`, ...) on the controller's `state`. The
node calls one of them at a time, appends the decision's records as one batch, replays them here at once, and answers
when they are committed. A large change comes in slices, and the node takes one per step (`decision`). A controller that
lost its leadership is deactivated: it drops its pending image, and with it every decision that was not committed.
Changes without a request (fencing, recoveries, rebalancing) go through `submit`, which must append and replay the first
slice before it returns.

The node sets `state.next_offset`, the end of the metadata log, before each call; `replay` advances it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from insync.controller import broker_registry, elections, heartbeats, topics
from insync.controller.config import ControllerConfig
from insync.controller.decision import Decision, Slices
from insync.controller.recovery import Recoveries
from insync.controller.state import Contact, ControllerState
from insync.metadata.image import CLUSTER_DEFAULTS, Image
from insync.metadata.partition import PartitionKey
from insync.metadata.security_records import make_mock_record
from insync.sansio import Outbox
from insync.security.scram import MOCK
from insync.wire import metadata_records as records

_AFFECTS_ELECTIONS = (
    records.PartitionChangeRecord,
    records.BrokerRegistrationChangeRecord,
    records.RegisterBrokerRecord,
    records.ConfigRecord,
)


class Controller:
    __slots__ = (
        "_now",
        "_rebalance_at",
        "_recoveries",
        "_scan_leaderless",
        "_submit",
        "_unvisited",
        "active",
        "epoch",
        "state",
    )

    def __init__(
        self,
        config: ControllerConfig,
        rng: Random,
        out: Outbox,
        submit: Callable[[Decision | Slices, int], None],
        *,
        has_authorizer: bool = False,
    ) -> None:
        self.active = False
        self.epoch = -1
        self.state = ControllerState(config, rng, out, has_authorizer=has_authorizer)
        """What the handlers of requests decide on."""
        self._submit = submit
        self._recoveries = Recoveries(self.state, submit)
        self._now = 0
        self._rebalance_at = 0
        self._scan_leaderless = False
        """Something changed that may give a leaderless partition a candidate."""
        self._unvisited: deque[PartitionKey] = deque()
        """Leaderless partitions that have not been visited since then."""

    # --- leadership of the quorum --------------------------------------------------------------------------------

    def activate(self, image: Image, epoch: int, now: int) -> None:
        """Takes ownership of `image`. Soft state is new, as if every broker had just been heard from."""
        self.active = True
        self.epoch = epoch
        self._now = now
        self.state.image = image
        self.state.contacts = {broker: Contact(now) for broker in image.brokers}
        self._recoveries.reset()
        self._rebalance_at = now + self.state.config.rebalance_interval_ms
        self._scan_leaderless = True
        self._unvisited.clear()
        if image.is_empty:
            self._submit(Decision(records=tuple(_first_records(self.state.config))), now)
        if image.scram_credentials and MOCK not in image.scram_credentials:  # the first, or those of earlier releases
            self._submit(Decision(records=(make_mock_record(self.state.rng.randbytes),)), now)
        unfinished = topics.remove_incomplete(image)
        if unfinished is not None:
            self._submit(unfinished, now)

    def deactivate(self) -> None:
        self.active = False
        self.state.image = Image()
        self.state.contacts = {}
        self.state.leaving = {}
        self.state.draining = {}
        self._recoveries.reset()

    def replay(self, record: records.MetadataRecord, offset: int) -> None:
        """Q3: the next decision is made on the state that this one leaves."""
        self.state.image.apply(record, offset)
        self.state.next_offset = offset + 1
        if isinstance(record, _AFFECTS_ELECTIONS):
            self._scan_leaderless = True

    # --- time ----------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        if not self.active:
            return
        self._now = now
        expired = heartbeats.expired_brokers(self.state, now)
        if expired:  # the others, and the elections that follow, get steps of their own
            cause = heartbeats.explain_expiry(self.state, expired[0].id, now)
            self._submit(broker_registry.fence(self.state, expired[0], cause), now)
            return
        self._elect_leaderless(now)
        if self.active and self.state.config.rebalance_interval_ms > 0 and self._rebalance_at <= now:
            self._rebalance_at = now + self.state.config.rebalance_interval_ms
            self._submit(elections.rebalance(self.state), now)

    def _elect_leaderless(self, now: int) -> None:
        if self._scan_leaderless and not self._unvisited:
            self._scan_leaderless = False
            self._unvisited.extend(partition.key for partition in self.state.image.leaderless())
        if self._unvisited:
            decision = elections.elect_leaderless(self.state, self._unvisited)
            if decision is not None:
                self._submit(decision, now)
        if self.active:
            self._recoveries.tick(now)

    def next_deadline(self) -> int | None:
        if not self.active:
            return None
        times = [heartbeats.next_expiry(self.state), self._recoveries.next_deadline]
        if self.state.config.rebalance_interval_ms > 0:
            times.append(self._rebalance_at)
        if self._unvisited or (self._scan_leaderless and self.state.image.has_leaderless):
            times.append(self._now)
        return min((time for time in times if time is not None), default=None)

    def on_peer_lost(self, broker_id: int, now: int) -> None:
        if self.active:
            heartbeats.on_peer_lost(self.state, broker_id, now)

    def on_stall(self, stall_ms: int, now: int) -> None:
        """The controller itself did not run for so long."""
        heartbeats.on_stall(self.state, stall_ms, now)


def _first_records(config: ControllerConfig) -> list[records.MetadataRecord]:
    """The first records of a new cluster."""
    resource_type, resource_name = CLUSTER_DEFAULTS
    return [
        *(records.FeatureLevelRecord(name=name, feature_level=level) for name, level in config.features),
        *(
            records.ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
            for name, value in config.cluster_defaults
        ),
        *config.first_records,
    ]
