"""Carries out the actions of a plan, and undoes each when its time is over.

A target is resolved when the action happens: "the leader of t0-0" is the leader by the newest metadata at that time. An
action whose target does not exist, or is down already, does nothing, so that a plan stays valid when shrinking leaves
out other actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from insync.quorum.config import METADATA_DIRECTORY
from insync.sim.engine.cluster import Cluster
from insync.sim.engine.disk import SimDisk
from insync.sim.engine.network import Link
from insync.sim.plans.plan import Action
from insync.sim.workload.operator import Operator
from insync.wire import batch

DATA_CHANNELS = ("fetch", "client")
CONTROL_CHANNELS = ("heartbeat", "controller", "recovery", "forward", "metadata", "quorum")
"""The channels between nodes and controllers."""


class Faults:
    """`schedule` the actions of a plan, `heal` everything at the end."""

    def __init__(self, cluster: Cluster, operator: Operator, voters: tuple[int, ...]) -> None:
        self._cluster = cluster
        self._network = cluster.network
        self._engine = cluster.engine
        self._operator = operator
        self._voters = voters
        self._next_rule = 0
        self._healed = False
        self._names: dict[str, int] = {}

    def schedule(self, actions: Iterable[Action], from_ms: int) -> None:
        for action in actions:
            self._engine.call_at((from_ms + action.at_ms) * 1_000, self.carry_out, action)

    def carry_out(self, action: Action) -> None:
        if self._healed:
            return
        self._cluster.trace.mark(self._engine.now, f"action {action}")
        method: Callable[[Action], None] | None = getattr(self, f"_do_{action.kind}", None)
        if method is not None:
            method(action)
        else:
            self._operator.carry_out(action)

    def heal(self) -> None:
        """End all faults: links open, disks have room, clocks run true, every node runs."""
        self._healed = True
        self._network.lift_all()
        if self._cluster.principals is not None:
            self._cluster.principals.strangers.clear()
        for host in self._cluster.hosts.values():
            host.disk.full = host.disk.failing = False
            host.disk_delay_us = host.flush_delay_us = 0
            host.clock.set_drift(self._engine.now, 0)
            self._cluster.resume(host.id)
            self._cluster.start(host.id)

    # --- processes ---------------------------------------------------------------------------------------------------

    def _do_crash(self, action: Action) -> None:
        self._take_down(action, lossy=False, corrupt=False)

    def _do_lossy_crash(self, action: Action) -> None:
        self._take_down(action, lossy=True, corrupt=False)

    def _do_corrupt_crash(self, action: Action) -> None:
        self._take_down(action, lossy=True, corrupt=True)

    def _take_down(self, action: Action, *, lossy: bool, corrupt: bool) -> None:
        node = self.resolve(action.target)
        if node is not None and self._cluster.hosts[node].alive:
            self._cluster.crash(node, lossy=lossy, corrupt=corrupt)
            self._start_later(node, action.duration_ms)

    def _do_damage_metadata(self, action: Action) -> None:
        """The process dies, and synced bytes of its metadata are gone when it comes back (Q8)."""
        node = self.resolve(action.target)
        if node is not None and self._cluster.hosts[node].alive:
            self._cluster.crash(node)
            damage_metadata(self._cluster.hosts[node].disk, str(action.value[0]))
            self._start_later(node, action.duration_ms)

    def _do_power_off(self, action: Action) -> None:
        """The machine loses power, whether or not its process still runs."""
        node = self.resolve(action.target)
        if node is not None:
            self._cluster.crash(node, lossy=True)
            self._start_later(node, action.duration_ms)

    def _do_damage(self, action: Action) -> None:
        """The node comes back with damaged files; `value` is (partition, kind)."""
        node = self.resolve(action.target)
        if node is not None:
            self._cluster.crash(node)
            self._cluster.damage_files(node, *map(str, action.value))
            self._start_later(node, action.duration_ms)

    def _do_power_loss(self, action: Action) -> None:
        """All machines lose power at once; they come back one after another, `value[0]` ms apart."""
        apart = int(action.value[0]) if action.value else 0
        for i, node in enumerate(self._cluster.hosts):
            self._cluster.crash(node, lossy=True)
            self._start_later(node, action.duration_ms + i * apart)

    def _start_later(self, node: int, delay_ms: int) -> None:
        outage = self._cluster.hosts[node].outage
        self._engine.call_later(delay_ms * 1_000, self._start, node, outage)

    def _start(self, node: int, outage: int) -> None:
        if self._cluster.hosts[node].outage == outage:
            self._cluster.start(node)

    def _do_restart(self, action: Action) -> None:
        """A controlled shutdown (B7), and a start once it is down."""
        node = self.resolve(action.target)
        if node is not None and self._cluster.hosts[node].alive:
            self._cluster.shut_down(node)
            self._await_down(node, self._cluster.hosts[node].generation, action.duration_ms)

    def _await_down(self, node: int, generation: int, downtime_ms: int) -> None:
        host = self._cluster.hosts[node]
        if host.generation != generation:
            return
        if host.alive:
            self._engine.call_later(20_000, self._await_down, node, generation, downtime_ms)
        else:
            self._start_later(node, downtime_ms)

    def _do_pause(self, action: Action) -> None:
        node = self.resolve(action.target)
        if node is not None:
            self._cluster.pause(node)
            generation = self._cluster.hosts[node].generation
            self._engine.call_later(action.duration_ms * 1_000, self._resume, node, generation)

    def _resume(self, node: int, generation: int) -> None:
        if self._cluster.hosts[node].generation == generation:
            self._cluster.resume(node)

    # --- rights ------------------------------------------------------------------------------------------------------

    def _do_deny(self, action: Action) -> None:
        """The operator denies an operation on a topic to a client; `value` is (client id, operation)."""
        self._operator.carry_out(action)
        self._engine.call_later(action.duration_ms * 1_000, self._operator.allow_again, action)

    def _do_guard(self, action: Action) -> None:
        self._operator.guard(action)

    def _do_wrong_credentials(self, action: Action) -> None:
        """Other nodes take the node for a stranger, which may do nothing."""
        node, principals = self.resolve(action.target), self._cluster.principals
        if node is not None and principals is not None:
            principals.strangers[node] = None
            self._engine.call_later(action.duration_ms * 1_000, principals.strangers.pop, node, None)

    # --- links -------------------------------------------------------------------------------------------------------

    def _do_isolate(self, action: Action) -> None:
        node = self.resolve(action.target)
        if node is not None:
            others = [other for other in self._network.endpoints if other != node and other >= 0]
            self._block(_links([node], others, str(action.value[0])), action.duration_ms)

    def _do_isolate_from_controllers(self, action: Action) -> None:
        """Peers and clients still reach it, no controller does: it may be replaced as a leader without knowing."""
        node = self.resolve(action.target)
        if node is None:
            return
        pairs = _links([node], [voter for voter in self._voters if voter != node], str(action.value[0]))
        links: list[Link] = [(src, dst, channel) for src, dst in pairs for channel in CONTROL_CHANNELS]
        self._block(links, action.duration_ms)

    def _do_cut(self, action: Action) -> None:
        node, other = self.resolve(action.target), self.resolve(str(action.value[0]))
        if node is not None and other is not None and node != other:
            direction = str(action.value[1]) if len(action.value) > 1 else "both"
            self._block(_links([node], [other], direction), action.duration_ms)

    def _do_hold(self, action: Action) -> None:
        """Hold back one channel between two nodes, or between a node and all controllers."""
        node, (other, channel, direction) = self.resolve(action.target), map(str, action.value)
        others = self._voters if other == "controllers" else (self.resolve(other),)
        if node is not None:
            pairs = _links([node], [peer for peer in others if peer is not None and peer != node], direction)
            self._block([(src, dst, channel) for src, dst in pairs], action.duration_ms)

    def _do_split(self, action: Action) -> None:
        side = [int(node) for node in action.value]
        rest = [node for node in self._cluster.hosts if node not in side]
        self._block(_links(side, rest, "both"), action.duration_ms)

    def _do_no_fetching(self, action: Action) -> None:
        """No replica can fetch; everything else works."""
        nodes = list(self._cluster.hosts)
        links: list[Link] = [(a, b, "fetch") for a in nodes for b in nodes if a != b]
        self._block(links, action.duration_ms)

    def _do_stale_metadata(self, action: Action) -> None:
        """It gets no new metadata; its own requests to the controller pass."""
        node = self.resolve(action.target)
        if node is not None:
            pairs = _links([node], [voter for voter in self._voters if voter != node], "both")
            self._block([(src, dst, "metadata") for src, dst in pairs], action.duration_ms)

    def _do_slow_links(self, action: Action) -> None:
        node = self.resolve(action.target)
        if node is not None:
            others = [other for other in self._network.endpoints if other != node]
            rule = self._new_rule()
            self._network.slow(rule, _links([node], others, "both"), int(action.value[0]) * 1_000)
            self._engine.call_later(action.duration_ms * 1_000, self._network.lift, rule)

    def _do_reset(self, action: Action) -> None:
        node = self.resolve(action.target)
        if node is not None:
            self._network.reset_all_of(node)

    def _block(self, links: Iterable[Link], duration_ms: int) -> None:
        rule = self._new_rule()
        self._network.block(rule, links)
        self._engine.call_later(duration_ms * 1_000, self._network.lift, rule)

    def _new_rule(self) -> int:
        self._next_rule += 1
        return self._next_rule

    # --- disks and clocks --------------------------------------------------------------------------------------------

    def _do_slow_disk(self, action: Action) -> None:
        node = self.resolve(action.target)
        if node is not None:
            self._cluster.hosts[node].disk_delay_us += int(action.value[0]) * 1_000
            self._engine.call_later(action.duration_ms * 1_000, self._end_slow_disk, node, int(action.value[0]) * 1_000)

    def _end_slow_disk(self, node: int, extra_us: int) -> None:
        host = self._cluster.hosts[node]
        host.disk_delay_us = max(0, host.disk_delay_us - extra_us)

    def _do_slow_flush(self, action: Action) -> None:
        """As `slow_disk`, but small files, such as that of a vote, are written as fast as ever."""
        node = self.resolve(action.target)
        if node is not None:
            self._cluster.hosts[node].flush_delay_us = int(action.value[0]) * 1_000
            self._engine.call_later(action.duration_ms * 1_000, self._end_slow_flush, node)

    def _end_slow_flush(self, node: int) -> None:
        self._cluster.hosts[node].flush_delay_us = 0

    def _do_full_disk(self, action: Action) -> None:
        node = self.resolve(action.target)
        if node is not None:
            self._cluster.hosts[node].disk.full = True
            self._engine.call_later(action.duration_ms * 1_000, self._end_full_disk, node)

    def _end_full_disk(self, node: int) -> None:
        self._cluster.hosts[node].disk.full = False

    def _do_failing_disk(self, action: Action) -> None:
        """Syncs fail: the node halts at the first one, and again whenever it is started."""
        node = self.resolve(action.target)
        if node is not None:
            self._cluster.hosts[node].disk.failing = True
            self._engine.call_later(action.duration_ms * 1_000, self._end_failing_disk, node)

    def _end_failing_disk(self, node: int) -> None:
        self._cluster.hosts[node].disk.failing = False

    def _do_rot(self, action: Action) -> None:
        """D6: change a byte of a committed batch on disk, at one replica only. `value` is (partition, which batch in
        percent of those committed, which byte in percent of the batch)."""
        node, partition = self.resolve(action.target), self._operator.partition(str(action.value[0]))
        if node is None or partition is None or not self._cluster.hosts[node].alive:
            return
        replica = self._cluster.node(node).replicas.replicas.get(partition.key)
        if replica is None:
            return
        log = replica.log
        headers = list(log.iter_headers(log.log_start, log.hwm))
        headers = [
            header
            for header in headers
            if header.next_offset <= min(log.hwm, self._committed_elsewhere(partition, node))
        ]
        if not headers:
            return
        header = headers[int(action.value[1]) * len(headers) // 100]
        if self._cluster.corrupted_batches.setdefault((partition.key, header.base_offset), node) != node:
            return  # every batch needs an intact copy
        segment = log.find_segment(header.base_offset)
        first = batch.HEADER_SIZE - 34  # behind the offsets, by which the checker identifies a batch
        at = first + int(action.value[2]) * (header.length - first) // 100
        self._cluster.hosts[node].disk.rot(segment.paths()[0], segment.locate(header.base_offset) + at)
        self._cluster.stats["rot"] += 1

    def _committed_elsewhere(self, partition: Any, node: int) -> int:
        """The highest HWM of the other live replicas."""
        others = [self._cluster.node(other) for other in partition.replicas if other != node]
        logs = [other.replicas.replicas.get(partition.key) for other in others if other is not None]
        return max((replica.log.hwm for replica in logs if replica is not None), default=0)

    def _do_clock_jump(self, action: Action) -> None:
        node = self.resolve(action.target)
        if node is not None:
            self._cluster.jump_clock(node, int(action.value[0]))

    def _do_clock_drift(self, action: Action) -> None:
        node = self.resolve(action.target)
        if node is not None:
            self._cluster.hosts[node].clock.set_drift(self._engine.now, int(action.value[0]))
            self._engine.call_later(action.duration_ms * 1_000, self._end_clock_drift, node)

    def _end_clock_drift(self, node: int) -> None:
        self._cluster.hosts[node].clock.set_drift(self._engine.now, 0)

    # --- targets -----------------------------------------------------------------------------------------------------

    def _do_name(self, action: Action) -> None:
        """Bind the name `value[0]` to the node that `target` denotes now."""
        node = self.resolve(action.target)
        if node is not None:
            self._names[str(action.value[0])] = node

    def resolve(self, target: str) -> int | None:
        """The node that `target` denotes now, or None."""
        if target == "active-controller":
            return self.active_controller()
        role, _, rest = target.partition(":")
        if not rest:
            node = int(target) if target.isdigit() else self._names.get(target)
            return node if node in self._cluster.hosts else None
        if role == "other-voter":
            known = [self.resolve(name) for name in rest.split(":")]
            return next((voter for voter in self._voters if voter not in known), None)
        name, _, index = rest.partition(":")
        partition = self._operator.partition(name)
        if partition is None:
            return None
        if role == "leader":
            return partition.leader if partition.leader in self._cluster.hosts else None
        followers = [b for b in partition.replicas if b != partition.leader and b in self._cluster.hosts]
        return followers[int(index or 0) % len(followers)] if followers else None

    def active_controller(self) -> int | None:
        leaders = [node for node in self._cluster.nodes() if _leads_quorum(node)]
        return max(leaders, key=lambda node: int(node.quorum.epoch)).id if leaders else None


def damage_metadata(disk: SimDisk, what: str) -> None:
    """`what` is `log-tail`, `log`, `snapshots`, `quorum-state` or `directory`."""
    if what == "directory":
        disk.rmtree(METADATA_DIRECTORY)
        return
    suffix = ".checkpoint" if what == "snapshots" else ".log"
    for name in disk.listdir(METADATA_DIRECTORY):
        path = f"{METADATA_DIRECTORY}/{name}"
        if what == name:
            disk.remove(path)
        elif what != "quorum-state" and name.endswith(suffix):
            file = disk.open(path)
            file.truncate(max(0, file.size - 1) if what == "log-tail" else file.size // 2)
            file.sync()


def _leads_quorum(node: Any) -> bool:
    quorum = getattr(node, "quorum", None)
    return quorum is not None and bool(quorum.is_leader)


def _links(side: list[int], others: list[int], direction: str) -> list[tuple[int, int]]:
    """The links between two sides; "out" is what `side` sends, "in" what it receives."""
    links: list[tuple[int, int]] = []
    if direction in ("both", "out"):
        links += [(a, b) for a in side for b in others]
    if direction in ("both", "in"):
        links += [(b, a) for a in side for b in others]
    return links
