"""The active controller: requests in, decisions out, on the pending image (Q2, Q3).

The node calls one handler at a time, appends the decision's records as one batch, replays them here at once, and
answers when they are committed. The handler of a large change returns slices, and the node takes one per step
(`decision`). A controller that lost its leadership is deactivated: it drops its pending image, and with it every
decision that was not committed. Changes without a request (fencing, recoveries, rebalancing) go through `submit`, which
must append and replay the first slice before it returns.

The node sets `next_offset`, the end of the metadata log, before each call; `replay` advances it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from insync.controller import (
    acls,
    alter_partition,
    broker_registry,
    client_quotas,
    configs,
    directories,
    elections,
    heartbeats,
    producer_ids,
    reassignment,
    scram_credentials,
    topics,
)
from insync.controller.config import ControllerConfig
from insync.controller.decision import Decision, Slices
from insync.controller.recovery import Recoveries
from insync.controller.state import Contact, ControllerState
from insync.metadata.image import CLUSTER_DEFAULTS, Image
from insync.metadata.partition import PartitionKey
from insync.sansio import Outbox
from insync.wire import messages
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
        "_state",
        "_submit",
        "_unvisited",
        "active",
        "epoch",
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
        self._state = ControllerState(config, rng, out, has_authorizer=has_authorizer)
        self._submit = submit
        self._recoveries = Recoveries(self._state, submit)
        self._now = 0
        self._rebalance_at = 0
        self._scan_leaderless = False
        """Something changed that may give a leaderless partition a candidate."""
        self._unvisited: deque[PartitionKey] = deque()
        """Leaderless partitions that have not been visited since then."""

    @property
    def image(self) -> Image:
        """The pending image: all decisions, committed or not."""
        return self._state.image

    @property
    def next_offset(self) -> int:
        return self._state.next_offset

    @next_offset.setter
    def next_offset(self, offset: int) -> None:
        self._state.next_offset = offset

    # --- leadership of the quorum --------------------------------------------------------------------------------

    def activate(self, image: Image, epoch: int, now: int) -> None:
        """Takes ownership of `image`. Soft state is new, as if every broker had just been heard from."""
        self.active = True
        self.epoch = epoch
        self._now = now
        self._state.image = image
        self._state.contacts = {broker: Contact(now) for broker in image.brokers}
        self._recoveries.reset()
        self._rebalance_at = now + self._state.config.rebalance_interval_ms
        self._scan_leaderless = True
        self._unvisited.clear()
        if image.is_empty:
            self._submit(Decision(records=tuple(_first_records(self._state.config))), now)
        unfinished = topics.remove_incomplete(image)
        if unfinished is not None:
            self._submit(unfinished, now)

    def deactivate(self) -> None:
        self.active = False
        self._state.image = Image()
        self._state.contacts = {}
        self._state.leaving = {}
        self._state.draining = {}
        self._recoveries.reset()

    def replay(self, record: records.MetadataRecord, offset: int) -> None:
        """Q3: the next decision is made on the state that this one leaves."""
        self._state.image.apply(record, offset)
        self._state.next_offset = offset + 1
        if isinstance(record, _AFFECTS_ELECTIONS):
            self._scan_leaderless = True

    # --- time ----------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        if not self.active:
            return
        self._now = now
        expired = heartbeats.expired_brokers(self._state, now)
        if expired:  # the others, and the elections that follow, get steps of their own
            cause = heartbeats.explain_expiry(self._state, expired[0].id, now)
            self._submit(broker_registry.fence(self._state, expired[0], cause), now)
            return
        self._elect_leaderless(now)
        if self.active and self._state.config.rebalance_interval_ms > 0 and self._rebalance_at <= now:
            self._rebalance_at = now + self._state.config.rebalance_interval_ms
            self._submit(elections.rebalance(self._state), now)

    def _elect_leaderless(self, now: int) -> None:
        if self._scan_leaderless and not self._unvisited:
            self._scan_leaderless = False
            self._unvisited.extend(partition.key for partition in self._state.image.leaderless())
        if self._unvisited:
            decision = elections.elect_leaderless(self._state, self._unvisited)
            if decision is not None:
                self._submit(decision, now)
        if self.active:
            self._recoveries.tick(now)

    def next_deadline(self) -> int | None:
        if not self.active:
            return None
        times = [heartbeats.next_expiry(self._state), self._recoveries.next_deadline]
        if self._state.config.rebalance_interval_ms > 0:
            times.append(self._rebalance_at)
        if self._unvisited or (self._scan_leaderless and self._state.image.has_leaderless):
            times.append(self._now)
        return min((time for time in times if time is not None), default=None)

    def on_peer_lost(self, broker_id: int, now: int) -> None:
        if self.active:
            heartbeats.on_peer_lost(self._state, broker_id, now)

    def on_stall(self, stall_ms: int, now: int) -> None:
        """The controller itself did not run for so long."""
        heartbeats.on_stall(self._state, stall_ms, now)

    # --- requests ------------------------------------------------------------------------------------------------

    def register_broker(
        self, request: messages.broker_registration.BrokerRegistrationRequest, now: int
    ) -> Decision | Slices:
        return broker_registry.register(self._state, request, now)

    def unregister_broker(self, request: messages.unregister_broker.UnregisterBrokerRequest, now: int) -> Slices:
        return broker_registry.unregister(self._state, request, now)

    def broker_heartbeat(self, request: messages.broker_heartbeat.BrokerHeartbeatRequest, now: int) -> Decision:
        return heartbeats.handle_heartbeat(self._state, request, now)

    def alter_partition(self, request: messages.alter_partition.AlterPartitionRequest, now: int) -> Decision:
        return alter_partition.alter_partitions(self._state, request, now)

    def assign_replicas_to_dirs(
        self, request: messages.assign_replicas_to_dirs.AssignReplicasToDirsRequest, now: int
    ) -> Decision:
        return directories.assign_replicas(self._state, request, now)

    def create_topics(self, request: messages.create_topics.CreateTopicsRequest, now: int) -> Slices:
        return topics.create(self._state, request, now)

    def delete_topics(self, request: messages.delete_topics.DeleteTopicsRequest, now: int) -> Decision:
        return topics.delete(self._state, request, now)

    def create_partitions(self, request: messages.create_partitions.CreatePartitionsRequest, now: int) -> Slices:
        return topics.add_partitions(self._state, request, now)

    def alter_partition_reassignments(
        self, request: messages.alter_partition_reassignments.AlterPartitionReassignmentsRequest, now: int
    ) -> Decision:
        return reassignment.alter_reassignments(self._state, request, now)

    def list_partition_reassignments(
        self, request: messages.list_partition_reassignments.ListPartitionReassignmentsRequest, now: int
    ) -> Decision:
        return reassignment.list_reassignments(self._state, request, now)

    def elect_leaders(self, request: messages.elect_leaders.ElectLeadersRequest, now: int) -> Slices:
        return elections.elect(self._state, request, now)

    def incremental_alter_configs(
        self, request: messages.incremental_alter_configs.IncrementalAlterConfigsRequest, now: int
    ) -> Slices:
        return configs.alter(self._state, request, now)

    def alter_configs(self, request: messages.alter_configs.AlterConfigsRequest, now: int) -> Slices:
        return configs.replace_all(self._state, request, now)

    def allocate_producer_ids(
        self, request: messages.allocate_producer_ids.AllocateProducerIdsRequest, now: int
    ) -> Decision:
        return producer_ids.allocate(self._state, request, now)

    def create_acls(self, request: messages.create_acls.CreateAclsRequest, now: int) -> Decision:
        return acls.create(self._state, request, now)

    def delete_acls(self, request: messages.delete_acls.DeleteAclsRequest, now: int) -> Slices:
        return acls.delete(self._state, request, now)

    def alter_user_scram_credentials(
        self, request: messages.alter_user_scram_credentials.AlterUserScramCredentialsRequest, now: int
    ) -> Slices:
        return scram_credentials.alter(self._state, request, now)

    def alter_client_quotas(self, request: messages.alter_client_quotas.AlterClientQuotasRequest, now: int) -> Decision:
        return client_quotas.alter(self._state, request, now)


def _first_records(config: ControllerConfig) -> list[records.MetadataRecord]:
    """The first records of a new cluster."""
    resource_type, resource_name = CLUSTER_DEFAULTS
    return [
        *(records.FeatureLevelRecord(name=name, feature_level=level) for name, level in config.features),
        *(
            records.ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
            for name, value in config.cluster_defaults
        ),
        *config.first_users,
    ]
