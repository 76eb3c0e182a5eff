"""Faults for a cluster under load: each breaks something, waits until clients get on, mends it, and waits for the rest.

A fault leaves the cluster whole: every replica back in sync. So one fault follows another, and each is on its own: one
node is missing at a time, and clients have to get on while it is. Only `storm` has faults that overlap.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from insync.chaos import damage as damages
from insync.chaos.overlapping_faults import Storm
from insync.chaos.workload.workload import PATIENCE_S, Workload
from insync.client import admin, topics
from insync.client.client import Client
from insync.cluster.cluster import Cluster

T = TypeVar("T")

PROGRESS = 20
"""Acknowledged records on every partition that show that clients get on."""
STORM_S = 6.0
SLOW_FSYNC_MS = 50


@dataclass(frozen=True, slots=True)
class Scene:
    cluster: Cluster
    workload: Workload
    rng: random.Random
    rotten: dict[int, int] = field(default_factory=dict)
    """By partition, the node whose log has flipped bits."""

    @property
    def topic(self) -> str:
        return self.workload.load.topic

    def some_partition(self) -> int:
        return self.rng.randrange(self.workload.load.partitions)

    def leader(self, partition: int) -> int:
        return self.cluster.wait_for_leader(self.topic, partition)

    def follower(self, partition: int) -> int:
        leader = self.leader(partition)
        return self.rng.choice([each for each in self.cluster.isr_of(self.topic, partition) if each != leader])

    def controller(self) -> int:
        """The active one."""
        return ask(self.cluster.bootstrap, admin.describe_quorum).leader

    def wait_for_voters(self) -> None:
        """Every voter has what is committed."""

        async def caught_up(client: Client) -> None:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    quorum = await admin.describe_quorum(client)
                    if all(voter.log_end_offset >= quorum.high_watermark for voter in quorum.voters):
                        return
                    await asyncio.sleep(0.05)

        ask(self.cluster.bootstrap, caught_up)

    def gets_on(self) -> None:
        self.workload.wait_for_acks(PROGRESS)

    def recovers(self) -> None:
        """Every replica of every partition is back in sync, writes go through, and consumers read on."""
        for partition in range(self.workload.load.partitions):
            self.cluster.wait_for_isr(self.topic, partition)
        self.gets_on()
        if self.workload.load.consumers:
            self.workload.wait_for_reads(PROGRESS)


Fault = Callable[[Scene], str]
"""Returns what it did."""


def ask(bootstrap: str, question: Callable[[Client], Awaitable[T]]) -> T:
    async def session() -> T:
        async with Client.connect(bootstrap, timeout_s=PATIENCE_S) as client:
            return await question(client)

    return asyncio.run(session())


# --- processes -------------------------------------------------------------------------------------------------------


def kill_leader(scene: Scene) -> str:
    partition = scene.some_partition()
    node = scene.leader(partition)
    _kill(scene, node)
    return f"kill -9 of node {node}, leader of partition {partition}"


def kill_follower(scene: Scene) -> str:
    partition = scene.some_partition()
    node = scene.follower(partition)
    _kill(scene, node)
    return f"kill -9 of node {node}, follower of partition {partition}"


def kill_controller(scene: Scene) -> str:
    node = scene.controller()
    _kill(scene, node)
    return f"kill -9 of node {node}, the active controller"


def _kill(scene: Scene, node: int) -> None:
    scene.cluster.kill(node)
    scene.gets_on()
    scene.cluster.start(node)


def kill_all(scene: Scene) -> str:
    nodes = list(scene.cluster.nodes)
    for node in nodes:
        scene.cluster.kill(node)
    scene.cluster.mend()
    return f"kill -9 of all nodes at once ({_listed(nodes)})"


def pause(scene: Scene) -> str:
    """SIGSTOP until others have taken over: longer than the session timeout."""
    partition = scene.some_partition()
    node = scene.leader(partition)
    scene.cluster.pause(node)
    scene.cluster.wait_for_leader(scene.topic, partition, other_than=node)
    scene.gets_on()
    scene.cluster.resume(node)
    return f"node {node}, leader of partition {partition}, asleep until it was replaced"


def rolling(scene: Scene) -> str:
    """Controlled shutdowns, one after the other (B7)."""
    nodes = list(scene.cluster.nodes)
    scene.rng.shuffle(nodes)
    for node in nodes:
        scene.cluster.restart(node)
        scene.recovers()
    return f"orderly restarts of nodes {_listed(nodes)}"


# --- the network -----------------------------------------------------------------------------------------------------


def cut(scene: Scene) -> str:
    """A leader that hears nobody, or is heard by nobody, or both; clients still reach it."""
    partition = scene.some_partition()
    node = scene.leader(partition)
    others = [each for each in scene.cluster.nodes if each != node]
    how, groups, one_way = scene.rng.choice(
        [
            ("cut off", ([node], others), False),
            ("unheard", ([node], others), True),
            ("deaf", (others, [node]), True),
        ]
    )
    scene.cluster.partition(*groups, one_way=one_way)
    scene.cluster.wait_for_leader(scene.topic, partition, other_than=node)
    scene.gets_on()
    scene.cluster.heal()
    return f"node {node}, leader of partition {partition}, {how} until it was replaced"


# --- disks -----------------------------------------------------------------------------------------------------------


def lossy(scene: Scene) -> str:
    """A power cut of one node: fewer than MinISR lose data, so nothing acknowledged may be lost (S9)."""
    partition = scene.some_partition()
    node = scene.leader(partition)
    lost = scene.cluster.lose_unflushed(node)[node]
    scene.gets_on()
    scene.cluster.start(node)
    return f"node {node}, leader of partition {partition}, lost {sum(lost.values()):,} unflushed bytes in a power cut"


def disk_full(scene: Scene) -> str:
    """A node whose disk takes nothing any more ends; it comes back once there is room."""
    partition = scene.some_partition()
    node = scene.leader(partition)
    scene.cluster.fill_disk(node)
    scene.cluster.wait_until_ended(node)
    scene.gets_on()
    scene.cluster.free_disk(node)
    scene.cluster.start(node)
    return f"disk full on node {node}, leader of partition {partition}"


def slow_disk(scene: Scene) -> str:
    """Every disk is slow when the controllers elect: the election must not time out before it is on disk (Q4)."""
    node = scene.controller()
    for other in scene.cluster.nodes:
        scene.cluster.slow_disk(other, SLOW_FSYNC_MS)
    _kill(scene, node)
    for other in scene.cluster.nodes:
        scene.cluster.slow_disk(other, 0)
    return f"every fsync took {SLOW_FSYNC_MS} ms longer while node {node}, the active controller, was replaced"


# --- damage at rest --------------------------------------------------------------------------------------------------


def damage(scene: Scene) -> str:
    """A node that is down loses files, or parts of them, while the others go on."""
    partition = scene.some_partition()
    node = scene.rng.choice(scene.cluster.isr_of(scene.topic, partition))
    return _damage_one(scene, {**damages.DERIVED, **damages.LOGS}, partition, node)


def bit_rot(scene: Scene) -> str:
    """The same, with a bit in a log that no size tells of (D6). It may not be found before it is read, so of each
    partition it is always the same node that is hit: the other copies are intact."""
    partition = scene.some_partition()
    if scene.rotten.get(partition) not in _replicas(scene, partition):
        scene.rotten[partition] = scene.rng.choice(scene.cluster.isr_of(scene.topic, partition))
    return _damage_one(scene, damages.BIT_ROT, partition, scene.rotten[partition])


def damage_quorum(scene: Scene) -> str:
    """A voter that is down loses what it has promised (Q8). It has it back before the next fault."""
    voters = [node.id for node in scene.cluster.nodes.values() if "controller" in node.roles]
    node = scene.rng.choice(voters)
    how = _end(scene, node)
    scene.gets_on()
    done = _spoil(scene, node, 0, damages.QUORUM)
    scene.cluster.start(node)
    scene.wait_for_voters()
    return f"node {node} {how}, then {done}"


def damage_stopped(scene: Scene) -> str:
    """All nodes are stopped cleanly, one is damaged, all start: its clean stop does not vouch for it (B5, B6)."""
    partition = scene.some_partition()
    node = scene.rng.choice((scene.leader(partition), scene.follower(partition)))
    scene.cluster.stop_all()
    done = _spoil(scene, node, partition, {**damages.DERIVED, **damages.LOGS})
    scene.cluster.mend()
    return f"all nodes stopped, then {done} on node {node}"


def _damage_one(scene: Scene, kinds: dict[str, damages.Damage], partition: int, node: int) -> str:
    how = _end(scene, node)
    scene.gets_on()
    done = _spoil(scene, node, partition, kinds)
    scene.cluster.start(node)
    return f"node {node} {how}, then {done}"


def _end(scene: Scene, node: int) -> str:
    if scene.rng.random() < 0.5:
        scene.cluster.stop(node)
        return "stopped"
    scene.cluster.kill(node)
    return "killed"


def _spoil(scene: Scene, node: int, partition: int, kinds: dict[str, damages.Damage]) -> str:
    """The first kind, in random order, for which the node has files."""
    names = list(kinds)
    scene.rng.shuffle(names)
    directory = scene.cluster.nodes[node].directory
    outcomes = (damages.damage(directory, name, f"{scene.topic}-{partition}", scene.rng) for name in names)
    return next((done for done in outcomes if done is not None), "nothing to damage")


# --- everything ------------------------------------------------------------------------------------------------------


def storm(scene: Scene) -> str:
    return f"a storm of {Storm(scene.cluster, scene.rng).rage(STORM_S)}"


# --- moving ----------------------------------------------------------------------------------------------------------


def reassign(scene: Scene) -> str:
    """The leader's replica moves to a broker that has none; without such a broker it is given up, then added again."""
    partition = scene.some_partition()
    leader = scene.leader(partition)
    before = _replicas(scene, partition)
    free = [id_ for id_, node in scene.cluster.nodes.items() if node.is_broker and id_ not in before]
    rest = [each for each in before if each != leader]
    if free:
        target = [*rest, scene.rng.choice(free)]
        _move(scene, partition, target)
    else:
        target = [*rest, leader]
        _move(scene, partition, rest)
        _move(scene, partition, target)
    return f"partition {partition} moved from {_listed(before)} to {_listed(target)}"


def _move(scene: Scene, partition: int, target: list[int]) -> None:
    key = (scene.topic, partition)

    async def move(client: Client) -> None:
        await admin.reassign(client, {key: target})
        async with asyncio.timeout(PATIENCE_S):
            while any((each.topic, each.partition) == key for each in await admin.list_reassignments(client)):
                await asyncio.sleep(0.05)

    ask(scene.cluster.bootstrap, move)
    scene.gets_on()


def _replicas(scene: Scene, partition: int) -> list[int]:
    _, found = ask(scene.cluster.bootstrap, lambda client: topics.describe_partition(client, scene.topic, partition))
    return list(found.replicas)


def _listed(nodes: Iterable[int]) -> str:
    return ",".join(str(each) for each in nodes)


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


def strike(name: str, scene: Scene) -> str:
    """One fault from a whole cluster to a whole cluster."""
    told = FAULTS[name](scene)
    scene.recovers()
    return told
