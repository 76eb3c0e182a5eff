"""Checks the protocol's safety properties (S1-S19) after every step of a simulated cluster, and what has to stay
available meanwhile (L8-L11).

It looks only at what the step changed. From the nodes it builds two things that no node has: the metadata log as
committed by any node (`ghost_image`), and for every partition what is committed and which replicas hold it
(`properties.ghost`). Nodes (`partition_checks`) and clients (`properties.clients`) are checked against these.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from insync.errors import InvariantError
from insync.metadata.broker import Broker
from insync.metadata.changes import Changes
from insync.properties import availability, metadata_matching
from insync.properties.clients import ClientChecks
from insync.properties.history import History
from insync.properties.single_leader import check_followed
from insync.properties.violation import Violation
from insync.quorum.config import FETCH_CHANNEL, QUORUM_CHANNEL
from insync.sansio import Effect, Event, Message, PeerLost, Reply, Request, Response, Stop, Timer
from insync.sim.checks.availability_checks import AvailabilityChecks
from insync.sim.checks.convergence import why_not_converged
from insync.sim.checks.denial_checks import DenialChecks
from insync.sim.checks.ghost_image import GhostImage
from insync.sim.checks.group_checks import GroupChecks
from insync.sim.checks.partition_checks import PartitionChecks
from insync.sim.checks.probes import Probes
from insync.sim.checks.query_checks import QueryChecks
from insync.sim.checks.quorum_checks import PreVoteChecks
from insync.wire import codec
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    broker_heartbeat,
    elect_leaders,
    envelope,
    fetch,
    fetch_snapshot,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from insync.wire.types import METADATA_TOPIC_ID

ACKS_ALL = -1
LATEST = -1
"""The timestamp that asks for the end of the log."""


class NodeSnapshot:
    """The state of one process after its last step."""

    __slots__ = ("applied", "clean", "denials", "heard", "hwm", "is_announced", "leader", "leo", "node", "pre_votes")

    def __init__(self, node: Any) -> None:
        self.node = node
        self.clean = False
        self.denials = DenialChecks(node)
        self.pre_votes = PreVoteChecks(node)
        self.applied = 0
        self.hwm = 0
        self.leo = node.quorum.leo
        self.leader = (-1, -1)
        self.heard: dict[int, int] = {}
        """While it leads the quorum: when each other voter last fetched, by the leader's own clock."""
        self.is_announced = False
        """Its election is on disk, so other voters may have heard of it."""


class Checker:
    """An observer of the cluster. With `stop` the first violation ends the run."""

    def __init__(self, cluster: Any, history: History, *, stop: bool = True) -> None:
        self.cluster = cluster
        self.violations: list[Violation] = []
        self.probes = Probes(cluster)
        self.truth = GhostImage(self._violated, self.probes.hit)
        self.partitions = PartitionChecks(cluster, self.truth, self._violated, self.probes.hit)
        self.availability = AvailabilityChecks(cluster, self.truth, self._violated)
        self.queries = QueryChecks(self.truth, self._violated)
        self.groups = GroupChecks(self.truth, self._violated)
        self.clients = ClientChecks(history, self.truth.ghosts, self._violated)
        self._stop = stop
        self._seen: dict[int, NodeSnapshot] = {}
        self._unclean: dict[int, bool] = {}
        self._incarnations: dict[UUID, bool] = {}
        self._brokers: dict[int, Broker] = {}
        self._unfenced: dict[int, int] = {}

    # --- observer ----------------------------------------------------------------------------------------------------

    def node_started(self, node_id: int) -> None:
        node = self.cluster.node(node_id)
        self._seen[node_id] = NodeSnapshot(node)
        if self.cluster.principals is not None:
            self._expect_loaded_acls(node)
        if node.lifecycle is not None:
            self._incarnations[node.lifecycle.incarnation_id] = self._unclean.get(node_id, False)

    def node_ends(self, node_id: int) -> None:
        """Look at what its replicas hold once more, before its files may change."""
        replicas = self.cluster.node(node_id).replicas
        for key, replica in replicas.replicas.items() if replicas is not None else ():
            if key in self.truth.ghosts:
                self.truth.ghosts[key].process_ends(node_id, replica.log)

    def node_crashed(self, node_id: int, lost: dict[str, tuple[int, int]] | None) -> None:
        """The process ended, cleanly (after a Stop) or not; `lost` are the files that lost bytes, None if none could.

        An incarnation that never got a broker epoch has changed nothing since the one before.
        """
        seen = self._seen.pop(node_id, None)
        if seen is not None and seen.node.broker_epoch >= 0:
            self._unclean[node_id] = not seen.clean
        if seen is None and lost and any(path.endswith(".log") and path.startswith("data/") for path in lost):
            self._unclean[node_id] = True  # B5: its logs are not as its last stop left them
        for ghost in self.truth.ghosts.values():
            ghost.process_ended(node_id, lossy=lost is not None)
        if lost and any(path.endswith(".log") and "metadata" not in path for path in lost):
            self.probes.hit("crash_lost_bytes")

    def after_step(self, node_id: int, event: Event, effects: list[Effect]) -> None:
        node = self.cluster.node(node_id)
        seen = self._seen[node_id]
        quorum = node.quorum
        request = _request_of(event)
        if type(request) is elect_leaders.ElectLeadersRequest:
            self.truth.operator_asked(request, seen.leo, quorum.leo)
        if type(event) is Response:
            self._on_response(node, seen, event)
        elif type(event) is PeerLost and event.peer == seen.leader[1]:
            seen.pre_votes.on_leader_lost()
        if quorum.hwm != seen.hwm or quorum.leo < seen.leo or (quorum.epoch, quorum.leader_id) != seen.leader:
            self._metadata_moved(node, seen)
        seen.leo = quorum.leo
        if self.cluster.principals is not None:
            self._check_denials(seen, event, effects)
        if seen.heard and quorum.is_leader:
            self._check_followed(node, seen, event, request)
        if node.metadata_loader.applied != seen.applied:
            self._metadata_applied(node, seen)
        if type(request) is produce.ProduceRequest and request.acks == ACKS_ALL:
            for replica in node.changed:
                self.partitions.check_min_isr_gate(node, replica)
        for replica in node.changed:
            self.partitions.replica_changed(node, replica)
        if request is not None and node.config.is_controller:
            self._report("L10", seen.pre_votes.on_request(request, effects, self._local_now_ms(node)))
        if type(request) is list_offsets.ListOffsetsRequest:
            self._offsets_listed(node, request, effects)
            self.queries.after_query(node, request, effects)
        elif type(request) is offset_for_leader_epoch.OffsetForLeaderEpochRequest:
            self.queries.after_query(node, request, effects)
        if self.clients.history.pending:
            self.clients.check()
        if self.clients.history.groups.problems:
            self.groups.report(self.clients.history.groups)
        if node.stopped:
            seen.clean = seen.clean or any(isinstance(effect, Stop) and effect.clean for effect in effects)
        self.probes.after_step(node, event, request, effects)
        self.availability.look(self.cluster.engine.now)

    def _on_response(self, node: Any, seen: NodeSnapshot, event: Response) -> None:
        """L9, L10"""
        response = event.response
        if event.send.channel in (FETCH_CHANNEL, QUORUM_CHANNEL):
            if node.config.is_controller:
                seen.pre_votes.on_response(event, self._local_now_ms(node))
        elif type(response) is broker_heartbeat.BrokerHeartbeatResponse and response.should_shut_down:
            self._check_shutdown(node.id)

    def _check_shutdown(self, broker_id: int) -> None:
        """L9, B7: brokers that were unfenced after the change read it on their own way, before they serve."""
        truth = self.truth
        moved_at = truth.handed_over.get(broker_id, -1)
        if moved_at < truth.shutdowns.get(broker_id, moved_at + 1):
            return
        unaware = [
            other.id
            for other in truth.image.brokers.values()
            if other.id != broker_id and other.is_active and truth.unfenced.get(other.id, -1) < moved_at
            if (node := self.cluster.node(other.id)) is not None and node.broker_epoch == other.epoch
            if node.metadata_loader.applied <= moved_at
        ]
        leads = [partition.name for partition in truth.image.partitions_of(broker_id) if partition.leader == broker_id]
        self._report("L9", availability.check_shutdown(broker_id, leads, moved_at, unaware))

    def _check_denials(self, seen: NodeSnapshot, event: Event, effects: list[Effect]) -> None:
        problems, was_refused = seen.denials.after_step(event, effects)
        for problem in (*problems, *seen.denials.follow_acls()):
            self._report("S15", problem)
        if was_refused:
            self.probes.hit("denied_by_acl")
        if seen.denials.was_impostor_refused:
            seen.denials.was_impostor_refused = False
            self.probes.hit("impostor_refused")

    def _expect_loaded_acls(self, started: Any) -> None:
        """A5: the least of the high watermarks that the running controllers know. A node that has applied what any of
        them says is committed has applied this much. A controller that starts later may know less."""
        controllers = [node for node in self.cluster.nodes() if node.config.is_controller and node is not started]
        committed = min((node.quorum.hwm for node in controllers), default=0)
        self._seen[started.id].denials.committed_at_start = committed
        if started.config.is_controller:
            for seen in self._seen.values():
                seen.denials.committed_at_start = 0

    def _offsets_listed(self, node: Any, request: list_offsets.ListOffsetsRequest, effects: list[Effect]) -> None:
        latest = [(t.name, p.partition_index) for t in request.topics for p in t.partitions if p.timestamp == LATEST]
        for response in [
            e.response
            for e in effects
            if isinstance(e, Reply) and isinstance(e.response, list_offsets.ListOffsetsResponse)
        ]:
            for topic in response.topics:
                for listed in topic.partitions:
                    partition = self.truth.image.find(topic.name, listed.partition_index)
                    if partition is None or listed.error_code is not ErrorCode.none:
                        continue
                    if (topic.name, listed.partition_index) in latest:
                        self.partitions.check_listed_offset(node.id, self.truth.ghosts[partition.key], listed.offset)

    def finish(self) -> list[Violation]:
        """The final checks: the rest of the clients' history, and every live log from its start."""
        self.clients.check()
        self.groups.report(self.clients.history.groups)
        for node in self.cluster.nodes():
            self.groups.check_memory(node)
            for key, replica in node.replicas.replicas.items() if node.replicas is not None else ():
                self.partitions.check_whole(node.id, key, replica)
        return self.violations

    def why_not_converged(self) -> str | None:
        """L1-L7: the first unmet liveness property; None if all hold."""
        try:
            self.clients.check()
        except InvariantError as violation:
            self.cluster.engine.stop()
            return str(violation)
        return why_not_converged(self.cluster, self.truth, self.clients.waiting())

    def _violated(self, property_id: str, detail: str, partition: str) -> None:
        self.violations.append(Violation(property_id, detail, partition, int(self.cluster.engine.now) // 1_000))
        if self._stop:
            raise InvariantError(property_id, f"{partition}: {detail}" if partition else detail)

    # --- metadata ------------------------------------------------------------------------------------------------

    def _metadata_moved(self, node: Any, seen: NodeSnapshot) -> None:
        """S7, S12: the LEO, HWM or leader of a node's metadata log has changed."""
        quorum = node.quorum
        self._report("S7", metadata_matching.check_truncation(node.id, quorum.leo, min(seen.hwm, seen.leo)))
        if quorum.is_leader and (quorum.epoch, quorum.leader_id) != seen.leader:
            self._report("S12", self.partitions.leaders.claim("quorum", quorum.epoch, node.id))
            self._report("S7", metadata_matching.check_leader(node.id, quorum.epoch, quorum.leo, self.truth.log))
            others = [voter for voter in node.config.voters if voter != node.id]
            seen.heard = dict.fromkeys(others, self._local_now_ms(node))
            seen.is_announced = False
        if (quorum.epoch, quorum.leader_id) != seen.leader:
            self._report("L10", seen.pre_votes.on_leader_changed(seen.leader))
        seen.leader = (quorum.epoch, quorum.leader_id)
        start, seen.hwm = max(seen.hwm, quorum.log.log_start), quorum.hwm
        if quorum.hwm > start:
            changes = self.truth.compare(node, start, quorum.hwm)
            if changes is not None:
                self._truth_changed(changes)

    def _check_followed(self, node: Any, seen: NodeSnapshot, event: Event, request: Message | None) -> None:
        """S12: checked at every timer of a quorum leader; a voter that fetches in its epoch follows it. The time starts
        when its election is on disk: before that no voter has heard of it."""
        quorum = node.quorum
        if not seen.is_announced:
            seen.is_announced = not quorum.is_waiting_for_disk
            seen.heard = dict.fromkeys(seen.heard, self._local_now_ms(node))
        if type(event) is Timer:
            heard, majority = list(seen.heard.values()), len(node.config.voters) // 2 + 1
            now, timeout = self._local_now_ms(node), node.config.quorum.check_quorum_ms
            self._report("S12", check_followed(node.id, quorum.epoch, heard, majority, now, timeout))
        follower = _metadata_follower(request, quorum.epoch)
        if follower in seen.heard:
            seen.heard[follower] = self._local_now_ms(node)

    def _local_now_ms(self, node: Any) -> int:
        return int(self.cluster.local_now_ms(self.cluster.hosts[node.id]))

    def _report(self, property_id: str, wrong: str | None) -> None:
        if wrong:
            self._violated(property_id, wrong, "")

    def _truth_changed(self, changes: Changes) -> None:
        for broker_id in changes.brokers:
            self._broker_changed(broker_id)
        for key in changes.partitions:
            self.partitions.metadata_changed(self.truth.ghosts[key])

    def _broker_changed(self, broker_id: int) -> None:
        broker, before = self.truth.image.brokers.get(broker_id), self._brokers.pop(broker_id, None)
        if broker is None or broker.fenced:
            self.partitions.fenced(broker_id)
        if broker is None:
            return
        self._brokers[broker_id] = broker
        if before is None or broker.epoch != before.epoch:
            self._registered(broker)
        elif before.fenced and not broker.fenced and self._unfenced.get(broker_id) == broker.epoch:
            self.probes.hit("back_in_the_same_incarnation")
        if not broker.fenced:
            self._unfenced[broker_id] = broker.epoch
            if before is None or before.fenced:
                self.partitions.unfenced(broker_id)

    def _registered(self, broker: Broker) -> None:
        if self._incarnations.get(broker.incarnation_id, False):
            self.partitions.unclean_registration(broker.id, broker.epoch)
        elif any(broker.id in partition.elr for partition in self.truth.image.partitions_of(broker.id)):
            self.probes.hit("clean_registration_kept_elr")

    def _metadata_applied(self, node: Any, seen: NodeSnapshot) -> None:
        before, seen.applied = seen.applied, node.metadata_loader.applied
        if any(before <= removed and added < seen.applied for removed, added in self.truth.readded if before):
            self.probes.hit("merged_remove_and_add")
        if self.truth.departing.get(node.id):
            self.partitions.forget_departed(node)


def _metadata_follower(request: Any, epoch: int) -> int | None:
    """The replica that fetches metadata in that quorum epoch, records or a snapshot."""
    kind = type(request)
    if kind is fetch.FetchRequest and [topic.topic_id for topic in request.topics] == [METADATA_TOPIC_ID]:
        replica = int(request.replica_state.replica_id)
    elif kind is fetch_snapshot.FetchSnapshotRequest:
        replica = int(request.replica_id)
    else:
        return None
    return replica if request.topics[0].partitions[0].current_leader_epoch == epoch else None


def _request_of(event: Event) -> Message | None:
    """The request of a step; brokers forward those for the controller in an envelope."""
    if type(event) is not Request:
        return None
    request = event.request
    return codec.decode_request(request.request_data)[1] if type(request) is envelope.EnvelopeRequest else request
