"""Faults for a cluster under load. Each injects a failure, waits until clients make progress, and undoes the failure.

A fault ends with an intact cluster: all replicas in sync. So each fault acts alone: one node is missing at a time, and
clients have to make progress without it. Only `storm` has faults that overlap.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from insync.chaos import damage as damages
from insync.chaos.overlapping_faults import OverlappingFaults
from insync.chaos.workload.workload import TIMEOUT_S, Workload
from insync.client import admin, topics, users
from insync.client.client import Client
from insync.client.settings import ClientSettings
from insync.cluster.cluster import Cluster
from insync.security.scram import MIN_ITERATIONS

T = TypeVar("T")

PROGRESS_RECORDS = 20
"""Acknowledged records on every partition that count as progress."""
STORM_S = 6.0
SLOW_FSYNC_MS = 50
MECHANISM = "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True)
class FaultContext:
    cluster: Cluster
    workload: Workload
    rng: random.Random
    bit_rot_nodes: dict[int, int] = field(default_factory=dict)
    """The node whose log has flipped bits, by partition."""

    def call(self, call: Callable[[Client], Awaitable[T]]) -> T:
        return call_cluster(self.cluster, call)

    @property
    def topic(self) -> str:
        return self.workload.load.topic

    def pick_partition(self) -> int:
        return self.rng.randrange(self.workload.load.partitions)

    def leader(self, partition: int) -> int:
        return self.cluster.wait_for_leader(self.topic, partition)

    def pick_follower(self, partition: int) -> int:
        leader = self.leader(partition)
        return self.rng.choice([node for node in self.cluster.isr_of(self.topic, partition) if node != leader])

    def active_controller(self) -> int:
        return self.call(admin.describe_quorum).leader

    def wait_for_voters(self) -> None:
        """Wait until every voter has all committed metadata."""

        async def wait(client: Client) -> None:
            async with asyncio.timeout(TIMEOUT_S):
                while True:
                    quorum = await admin.describe_quorum(client)
                    if all(voter.log_end_offset >= quorum.high_watermark for voter in quorum.voters):
                        return
                    await asyncio.sleep(0.05)

        self.call(wait)

    def wait_for_progress(self) -> None:
        self.workload.wait_for_acks(PROGRESS_RECORDS)

    def wait_for_recovery(self) -> None:
        """Wait until all replicas are in sync, writes succeed and consumers read on."""
        for partition in range(self.workload.load.partitions):
            self.cluster.wait_for_isr(self.topic, partition)
        self.wait_for_progress()
        if self.workload.load.consumers:
            self.workload.wait_for_reads(PROGRESS_RECORDS)


Fault = Callable[[FaultContext], str]
"""Returns a description of what it did."""


def call_cluster(cluster: Cluster, call: Callable[[Client], Awaitable[T]]) -> T:
    """As the admin, if the cluster is secured."""
    settings = ClientSettings.of(cluster.client_config(client="java") if cluster.is_secured else {})

    async def session() -> T:
        async with Client.connect(cluster.bootstrap, timeout_s=TIMEOUT_S, settings=settings) as client:
            return await call(client)

    return asyncio.run(session())


# --- processes -------------------------------------------------------------------------------------------------------


def kill_leader(context: FaultContext) -> str:
    partition = context.pick_partition()
    node = context.leader(partition)
    _kill(context, node)
    return f"kill -9 of node {node}, leader of partition {partition}"


def kill_follower(context: FaultContext) -> str:
    partition = context.pick_partition()
    node = context.pick_follower(partition)
    _kill(context, node)
    return f"kill -9 of node {node}, follower of partition {partition}"


def kill_controller(context: FaultContext) -> str:
    node = context.active_controller()
    _kill(context, node)
    return f"kill -9 of node {node}, the active controller"


def _kill(context: FaultContext, node: int) -> None:
    context.cluster.kill(node)
    context.wait_for_progress()
    context.cluster.start(node)


def kill_all(context: FaultContext) -> str:
    nodes = list(context.cluster.nodes)
    for node in nodes:
        context.cluster.kill(node)
    context.cluster.mend()
    return f"kill -9 of all nodes at once ({_join(nodes)})"


def pause(context: FaultContext) -> str:
    """SIGSTOP for longer than the session timeout, until another leader is elected."""
    partition = context.pick_partition()
    node = context.leader(partition)
    context.cluster.pause(node)
    context.cluster.wait_for_leader(context.topic, partition, other_than=node)
    context.wait_for_progress()
    context.cluster.resume(node)
    return f"node {node}, leader of partition {partition}, paused until it was replaced"


def rolling(context: FaultContext) -> str:
    """Controlled shutdowns, one after the other (B7)."""
    nodes = list(context.cluster.nodes)
    context.rng.shuffle(nodes)
    for node in nodes:
        context.cluster.restart(node)
        context.wait_for_recovery()
    return f"controlled restarts of nodes {_join(nodes)}"


# --- the network -----------------------------------------------------------------------------------------------------


def cut(context: FaultContext) -> str:
    """Cut a leader off from its peers in one or both directions; clients still reach it."""
    partition = context.pick_partition()
    node = context.leader(partition)
    others = [other for other in context.cluster.nodes if other != node]
    how, groups, one_way = context.rng.choice(
        [
            ("cut off", ([node], others), False),
            ("unheard", ([node], others), True),
            ("deaf", (others, [node]), True),
        ]
    )
    context.cluster.partition(*groups, one_way=one_way)
    context.cluster.wait_for_leader(context.topic, partition, other_than=node)
    context.wait_for_progress()
    context.cluster.heal()
    return f"node {node}, leader of partition {partition}, {how} until it was replaced"


# --- disks -----------------------------------------------------------------------------------------------------------


def lossy(context: FaultContext) -> str:
    """A power cut of one node: fewer than MinISR nodes lose data, so nothing acknowledged may be lost (S9)."""
    partition = context.pick_partition()
    node = context.leader(partition)
    lost = context.cluster.lose_unflushed(node)[node]
    context.wait_for_progress()
    context.cluster.start(node)
    return f"node {node}, leader of partition {partition}, lost {sum(lost.values()):,} unflushed bytes in a power cut"


def disk_full(context: FaultContext) -> str:
    """A node whose disk is full exits; it is started again once there is room."""
    partition = context.pick_partition()
    node = context.leader(partition)
    context.cluster.fill_disk(node)
    context.cluster.wait_until_ended(node)
    context.wait_for_progress()
    context.cluster.free_disk(node)
    context.cluster.start(node)
    return f"disk full on node {node}, leader of partition {partition}"


def slow_disk(context: FaultContext) -> str:
    """All disks are slow during a controller election, which must not time out before its votes are on disk (Q4)."""
    node = context.active_controller()
    for other in context.cluster.nodes:
        context.cluster.slow_disk(other, SLOW_FSYNC_MS)
    _kill(context, node)
    for other in context.cluster.nodes:
        context.cluster.slow_disk(other, 0)
    return f"every fsync took {SLOW_FSYNC_MS} ms longer while node {node}, the active controller, was replaced"


# --- damage at rest --------------------------------------------------------------------------------------------------


def damage(context: FaultContext) -> str:
    """A node that is down loses files, or parts of them, while the others continue."""
    partition = context.pick_partition()
    node = context.rng.choice(context.cluster.isr_of(context.topic, partition))
    return _damage_stopped_node(context, {**damages.DERIVED, **damages.LOGS}, partition, node)


def bit_rot(context: FaultContext) -> str:
    """Flip a bit in the log of a node that is down, which no file size shows (D6).

    It may stay undetected until it is read, so each partition is always damaged on the same node: the other copies
    stay intact.
    """
    partition = context.pick_partition()
    if context.bit_rot_nodes.get(partition) not in _replicas(context, partition):
        context.bit_rot_nodes[partition] = context.rng.choice(context.cluster.isr_of(context.topic, partition))
    return _damage_stopped_node(context, damages.BIT_ROT, partition, context.bit_rot_nodes[partition])


def damage_quorum(context: FaultContext) -> str:
    """A voter that is down loses its quorum state (Q8); it has restored it before the next fault."""
    voters = [node.id for node in context.cluster.nodes.values() if "controller" in node.roles]
    node = context.rng.choice(voters)
    how = _stop_or_kill(context, node)
    context.wait_for_progress()
    damaged = _damage_files(context, node, 0, damages.QUORUM)
    context.cluster.start(node)
    context.wait_for_voters()
    return f"node {node} {how}, then {damaged}"


def damage_stopped(context: FaultContext) -> str:
    """All nodes stop cleanly and one is damaged: its clean shutdown does not vouch for its data (B5, B6)."""
    partition = context.pick_partition()
    node = context.rng.choice((context.leader(partition), context.pick_follower(partition)))
    context.cluster.stop_all()
    damaged = _damage_files(context, node, partition, {**damages.DERIVED, **damages.LOGS})
    context.cluster.mend()
    return f"all nodes stopped, then {damaged} on node {node}"


def _damage_stopped_node(context: FaultContext, kinds: dict[str, damages.Damage], partition: int, node: int) -> str:
    how = _stop_or_kill(context, node)
    context.wait_for_progress()
    damaged = _damage_files(context, node, partition, kinds)
    context.cluster.start(node)
    return f"node {node} {how}, then {damaged}"


def _stop_or_kill(context: FaultContext, node: int) -> str:
    if context.rng.random() < 0.5:
        context.cluster.stop(node)
        return "stopped"
    context.cluster.kill(node)
    return "killed"


def _damage_files(context: FaultContext, node: int, partition: int, kinds: dict[str, damages.Damage]) -> str:
    """Apply the first kind of damage, in random order, for which the node has files."""
    names = list(kinds)
    context.rng.shuffle(names)
    directory = context.cluster.nodes[node].directory
    outcomes = (damages.damage(directory, name, f"{context.topic}-{partition}", context.rng) for name in names)
    return next((outcome for outcome in outcomes if outcome is not None), "nothing to damage")


# --- everything ------------------------------------------------------------------------------------------------------


def storm(context: FaultContext) -> str:
    return f"a storm of {OverlappingFaults(context.cluster, context.rng).run(STORM_S)}"


# --- moving ----------------------------------------------------------------------------------------------------------


def reassign(context: FaultContext) -> str:
    """Move the leader's replica to a broker without one; if there is none, remove the replica and add it back."""
    partition = context.pick_partition()
    leader = context.leader(partition)
    before = _replicas(context, partition)
    free = [id_ for id_, node in context.cluster.nodes.items() if node.is_broker and id_ not in before]
    rest = [node for node in before if node != leader]
    if free:
        target = [*rest, context.rng.choice(free)]
        _move(context, partition, target)
    else:
        target = [*rest, leader]
        _move(context, partition, rest)
        _move(context, partition, target)
    return f"partition {partition} moved from {_join(before)} to {_join(target)}"


def _move(context: FaultContext, partition: int, target: list[int]) -> None:
    key = (context.topic, partition)

    async def move(client: Client) -> None:
        await admin.reassign(client, {key: target})
        async with asyncio.timeout(TIMEOUT_S):
            while any((r.topic, r.partition) == key for r in await admin.list_reassignments(client)):
                await asyncio.sleep(0.05)

    context.call(move)
    context.wait_for_progress()


def _replicas(context: FaultContext, partition: int) -> list[int]:
    _, described = context.call(lambda client: topics.describe_partition(client, context.topic, partition))
    return list(described.replicas)


# --- credentials -----------------------------------------------------------------------------------------------------


def rotate_certificates(context: FaultContext) -> str:
    """All nodes get new keys and certificates; then one is killed, and all connect to it anew."""
    reloads = {node: _count_reloads(context, node) for node in context.cluster.nodes}
    for node in context.cluster.nodes:
        context.cluster.replace_certificate(node)
    deadline = time.monotonic() + TIMEOUT_S
    while any(_count_reloads(context, node) == count for node, count in reloads.items()):
        if time.monotonic() > deadline:
            raise TimeoutError("nodes did not load their new certificates")
        time.sleep(0.1)
    context.wait_for_progress()
    partition = context.pick_partition()
    node = context.leader(partition)
    _kill(context, node)
    return f"new certificates for all nodes, then kill -9 of node {node}, leader of partition {partition}"


def _count_reloads(context: FaultContext, node: int) -> int:
    return context.cluster.log_of(node).read_text().count("event=tls_reloaded")


def change_password(context: FaultContext) -> str:
    """Clients that reconnect before they know the new password are refused, and try again."""
    login = context.workload.load.login
    password = f"{context.rng.getrandbits(64):x}"
    context.call(lambda client: users.set_password(client, login.user, password, MECHANISM, MIN_ITERATIONS))
    partition = context.pick_partition()
    node = context.leader(partition)
    context.cluster.kill(node)
    login.change_password(password)
    context.wait_for_progress()
    context.cluster.start(node)
    return f"new password for {login.user}, and kill -9 of node {node}, leader of partition {partition}"


def _join(nodes: Iterable[int]) -> str:
    return ",".join(str(node) for node in nodes)


FAULTS: dict[str, Fault] = {
    "kill-leader": kill_leader,
    "kill-follower": kill_follower,
    "kill-controller": kill_controller,
    "kill-all": kill_all,
    "pause": pause,
    "cut": cut,
    "lossy": lossy,
    "disk-full": disk_full,
    "slow-disk": slow_disk,
    "rolling": rolling,
    "reassign": reassign,
    "storm": storm,
    "damage": damage,
    "damage-stopped": damage_stopped,
    "damage-quorum": damage_quorum,
    "bit-rot": bit_rot,
}

TLS_FAULTS: dict[str, Fault] = {"rotate-certificates": rotate_certificates}
SASL_FAULTS: dict[str, Fault] = {"change-password": change_password}


def list_faults(security: str | None) -> dict[str, Fault]:
    """Those that a cluster with this security can have."""
    with_tls = {} if security is None else TLS_FAULTS
    with_sasl = SASL_FAULTS if security is not None and security.startswith("sasl") else {}
    return FAULTS | with_tls | with_sasl


def inject(name: str, context: FaultContext) -> str:
    """Run one fault on an intact cluster and wait until it is intact again; returns what the fault did."""
    description = (FAULTS | TLS_FAULTS | SASL_FAULTS)[name](context)
    context.wait_for_recovery()
    return description
