"""L8, L11 and the causes of elections (S17), measured while faults go on.

The whole cluster is inspected every few milliseconds of simulated time. Time counts only while one controller leads the
quorum, runs, and commits what it appends. So a bound here is what a healthy controller or leader needs, and not what
the faults of the plan may add to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from insync.metadata.partition import Partition, PartitionKey
from insync.properties import availability
from insync.replication.isr import Committed
from insync.replication.leader import FollowerProgress, Leader, leader_of
from insync.sim.checks.ghost_image import GhostImage

INTERVAL_MS = 40
ELECTION_BOUND_MS = 400
"""How long a controller may need for an election that it can decide at once, with changes in slices before it."""
DETECTION_SLACK_MS = 1_000
"""For heartbeats that were under way, and for clocks that drift."""
REJOIN_SLACK_MS = 300


class AvailabilityChecks:
    """`look` after every step; it does something once per interval."""

    def __init__(self, cluster: Any, truth: GhostImage, report_violation: Callable[[str, str, str], None]) -> None:
        self._cluster = cluster
        self._truth = truth
        self._report_violation = report_violation
        self._next_look_us = INTERVAL_MS * 1_000
        self._controller: tuple[int, int] | None = None
        """The node id and epoch of the controller at the last look."""
        self._committed = 0
        self._leaderless: dict[PartitionKey, int] = {}
        """Since when (ms) a partition has had a candidate but no leader."""
        self._dead: dict[int, tuple[int, int]] = {}
        """The epoch of a registered broker that does not run, and since when."""
        self._unexplained: dict[int, int] = {}
        """Since when a broker that lost a leadership has been active."""
        self._ready: dict[tuple[PartitionKey, int], tuple[int, int]] = {}
        """The leader epoch in which a follower outside the ISR may join, and since when."""

    def look(self, now_us: int) -> None:
        if now_us < self._next_look_us:
            return
        self._next_look_us = now_us + INTERVAL_MS * 1_000
        now_ms = now_us // 1_000
        controller = self._working_controller()
        if controller is None:
            self._leaderless.clear()
            self._dead.clear()
            self._ready.clear()
            self._unexplained.clear()
            self._truth.unexplained.clear()
            return
        self._check_explained(now_ms)
        self._check_leaderless(now_ms)
        self._check_detection(controller, now_ms)
        self._check_rejoined(now_ms)

    def _check_explained(self, now_ms: int) -> None:
        """S17: a broker that is being fenced, in slices, is fenced in the end; unless its controller is replaced."""
        unexplained = self._truth.unexplained
        self._unexplained = {broker: self._unexplained.get(broker, now_ms) for broker in unexplained}
        for broker, since in self._unexplained.items():
            if now_ms - since > ELECTION_BOUND_MS:
                partition, problem = unexplained[broker]
                self._report("S17", problem, partition)

    def _working_controller(self) -> Any:
        """The controller if it is the same as at the last look and has committed all that it had, or more than then."""
        best = None
        for host in self._cluster.hosts.values():
            node = host.node
            if node is not None and not host.paused and node.quorum.is_leader and node.controller_role.active:
                best = node if best is None or node.quorum.epoch > best.quorum.epoch else best
        if best is None:
            self._controller = None
            return None
        quorum = best.quorum
        before, committed = self._controller, self._committed
        self._controller, self._committed = (best.id, quorum.epoch), quorum.hwm
        works = quorum.hwm == quorum.leo or quorum.hwm > committed
        return best if works and before == self._controller else None

    def _check_leaderless(self, now_ms: int) -> None:
        since: dict[PartitionKey, int] = {}
        for partition in self._truth.image.leaderless():
            candidates = [replica for replica in partition.isr or partition.elr if self._is_active(replica)]
            if candidates:
                began = since[partition.key] = self._leaderless.get(partition.key, now_ms)
                wrong = availability.check_leaderless(partition.name, candidates, now_ms - began, ELECTION_BOUND_MS)
                self._report("L8", wrong, partition.name)
        self._leaderless = since

    def _is_active(self, broker_id: int) -> bool:
        broker = self._truth.image.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def _check_detection(self, controller: Any, now_ms: int) -> None:
        dead: dict[int, tuple[int, int]] = {}
        bound = controller.config.controller.session_timeout_ms * 2 + DETECTION_SLACK_MS
        for broker in self._truth.image.brokers.values():
            if broker.fenced or self._runs(broker.id, broker.epoch):
                continue
            epoch, since = self._dead.get(broker.id, (broker.epoch, now_ms))
            if epoch != broker.epoch:
                since = now_ms
            dead[broker.id] = (broker.epoch, since)
            self._report("L8", availability.check_detection(broker.id, now_ms - since, bound), "")
        self._dead = dead

    def _runs(self, broker_id: int, broker_epoch: int) -> bool:
        host = self._cluster.hosts[broker_id]
        return host.node is not None and not host.paused and host.node.broker_epoch in (broker_epoch, -1)

    def _check_rejoined(self, now_ms: int) -> None:
        ready: dict[tuple[PartitionKey, int], tuple[int, int]] = {}
        for partition in self._truth.image.all_partitions():
            if len(partition.isr) == len(partition.replicas) or partition.recovering or partition.leader < 0:
                continue
            node, leader = self._idle_leader(partition)
            if leader is None:
                continue
            bound = node.config.replication.replica_lag_time_max_ms + REJOIN_SLACK_MS
            for follower, progress in leader.followers.items():
                if follower not in partition.isr and self._may_join(node, leader, progress):
                    epoch, since = self._ready.get((partition.key, follower), (leader.epoch, now_ms))
                    if epoch != leader.epoch:
                        since = now_ms
                    ready[partition.key, follower] = (leader.epoch, since)
                    wrong = availability.check_rejoined(partition.name, follower, now_ms - since, bound)
                    self._report("L11", wrong, partition.name)
        self._ready = ready

    def _idle_leader(self, partition: Partition) -> tuple[Any, Leader | None]:
        """The leader if it runs, knows all committed metadata, and has proposed nothing."""
        host = self._cluster.hosts[partition.leader]
        node = host.node
        if node is None or host.paused or node.replicas is None:
            return None, None
        replica = node.replicas.replicas.get(partition.key)
        leader = None if replica is None or replica.partition != partition else leader_of(replica)
        if leader is None or node.metadata_loader.applied < self._truth.log.end:
            return None, None
        return node, leader if isinstance(leader.isr_state, Committed) else None

    def _may_join(self, node: Any, leader: Leader, progress: FollowerProgress) -> bool:
        """I2, in the words of the rule, with a fetch of the last moments."""
        broker = self._truth.image.brokers.get(progress.broker)
        log = leader.replica.log
        fetched_ms = progress.last_fetch_ms
        if progress.cached is not None and progress.cached.session is not None and progress.leo == log.leo:
            fetched_ms = max(fetched_ms, progress.cached.session.last_fetch_ms)
        local_now_ms = self._cluster.local_now_ms(self._cluster.hosts[node.id])
        return (
            progress.fetched_in_epoch
            and progress.leo >= max(log.hwm, leader.leso)
            and broker is not None
            and broker.is_active
            and progress.broker_epoch == broker.epoch
            and local_now_ms - fetched_ms < node.config.replication.replica_lag_time_max_ms // 2
        )

    def _report(self, property_id: str, wrong: str | None, partition: str) -> None:
        if wrong:
            self._report_violation(property_id, wrong, partition)
