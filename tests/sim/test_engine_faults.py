"""The actions of a plan: each has its effect, ends by itself, and resolves its target when it happens."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from insync.controller import recovery
from insync.metadata.partition import Partition
from insync.node import forwarding, lifecycle
from insync.quorum.config import FETCH_CHANNEL, QUORUM_CHANNEL
from insync.replication import alter_partition
from insync.sim.engine.cluster import Cluster
from insync.sim.engine.disk import SimDisk
from insync.sim.engine.engine import Engine
from insync.sim.engine.network import Network
from insync.sim.plans.plan import Action
from insync.sim.scenario.fault_steps import CHANNELS
from insync.sim.workload.faults import CONTROL_CHANNELS, Faults
from insync.sim.workload.operator import Operator

PARTITION = Partition(
    topic_id=UUID(int=7),
    topic="t0",
    index=0,
    replicas=(1, 2, 3),
    isr=(1, 2, 3),
    leader=2,
    leader_epoch=0,
    partition_epoch=0,
)


class View:
    """What targets are resolved by: an image and a quorum."""

    def __init__(self) -> None:
        self.partition = PARTITION
        self.is_leader = False
        self.epoch = 1

    def find(self, topic: str, index: int) -> Partition | None:
        return self.partition if (topic, index) == ("t0", 0) else None


class Still:
    """A node that sends requests to its neighbour and records those that it gets."""

    def __init__(self, config: dict[str, Any], disk: SimDisk, rng: random.Random, now: int) -> None:
        self.id = config["id"]
        self.image = config["view"]
        self.quorum = config["view"]

    def start(self, now: int) -> list[Any]:
        return []

    def step(self, event: Any, now: int) -> list[Any]:
        return []

    def next_deadline(self) -> int | None:
        return None


class World:
    def __init__(self) -> None:
        self.engine = Engine()
        self.network = Network(self.engine, random.Random(1))
        self.cluster = Cluster(self.engine, self.network, random.Random(2), Still)
        self.views = {node: View() for node in (1, 2, 3)}
        for node, view in self.views.items():
            self.cluster.add(node, {"id": node, "view": view})
            self.cluster.start(node)
        self.operator = Operator(self.cluster, random.Random(3), (1, 2, 3), (1, 2, 3), 500)
        self.faults = Faults(self.cluster, self.operator, (1, 2, 3))

    def do(self, kind: str, target: str = "", duration_ms: int = 100, *value: int | str) -> None:
        self.faults.carry_out(Action(at_ms=0, kind=kind, target=target, duration_ms=duration_ms, value=value))

    def alive(self) -> list[int]:
        return [host.id for host in self.cluster.hosts.values() if host.alive]

    def pass_ms(self, ms: int) -> None:
        self.engine.run_until(self.engine.now + ms * 1_000)

    def blocked(self, src: int, dst: int, channel: str = "fetch") -> bool:
        return self.network._is_blocked(src, dst, channel)


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("kind", ["crash", "lossy_crash", "corrupt_crash"])
def test_a_crashed_node_is_back_when_its_time_is_over(world: World, kind: str) -> None:
    world.do(kind, "leader:t0-0", 100)
    assert world.alive() == [1, 3]
    world.pass_ms(90)
    assert world.alive() == [1, 3]
    world.pass_ms(20)
    assert world.alive() == [1, 2, 3]


def test_a_node_that_another_action_started_is_not_started_twice(world: World) -> None:
    world.do("crash", "1", 100)
    world.cluster.start(1)
    world.do("crash", "1", 1_000)
    world.pass_ms(500)
    assert world.alive() == [2, 3]


def test_power_may_fail_on_a_machine_whose_process_has_stopped(world: World) -> None:
    world.do("crash", "1", 60_000)
    world.do("power_off", "1", 100)
    assert world.cluster.stats["lossy_crash"] == 1
    world.pass_ms(110)
    assert world.alive() == [1, 2, 3]


def test_a_power_loss_ends_every_node(world: World) -> None:
    world.do("power_loss", "", 100, 50)
    assert world.alive() == []
    assert world.cluster.stats["lossy_crash"] == 3
    world.pass_ms(160)
    assert world.alive() == [1, 2]
    world.pass_ms(50)
    assert world.alive() == [1, 2, 3]


def test_a_pause_ends(world: World) -> None:
    world.do("pause", "3", 100)
    assert world.cluster.hosts[3].paused
    world.pass_ms(110)
    assert not world.cluster.hosts[3].paused


def test_an_isolated_node_reaches_no_other_node_until_the_isolation_ends(world: World) -> None:
    world.do("isolate", "2", 100, "both")
    assert world.blocked(2, 1)
    assert world.blocked(1, 2)
    assert not world.blocked(1, 3)
    world.pass_ms(110)
    assert not world.blocked(2, 1)


def test_one_way_isolation_has_a_direction(world: World) -> None:
    world.do("isolate", "2", 100, "out")
    assert world.blocked(2, 1)
    assert not world.blocked(1, 2)


def test_isolation_from_the_controllers_does_not_affect_replication(world: World) -> None:
    world.do("isolate_from_controllers", "2", 100, "both")
    assert world.blocked(2, 1, "heartbeat")
    assert world.blocked(2, 1, "metadata")
    assert not world.blocked(2, 1, "fetch")


def test_isolation_blocks_every_channel_to_and_from_the_controllers() -> None:
    channels = (
        lifecycle.CHANNEL,
        forwarding.CHANNEL,
        alter_partition.CHANNEL,
        recovery.CHANNEL,
        QUORUM_CHANNEL,
        FETCH_CHANNEL,
    )
    assert sorted(CONTROL_CHANNELS) == sorted(channels)
    assert set(CONTROL_CHANNELS) < set(CHANNELS)


def test_without_fetching_everything_else_works(world: World) -> None:
    world.do("no_fetching", "", 100)
    assert world.blocked(1, 2, "fetch")
    assert world.blocked(3, 1, "fetch")
    assert not world.blocked(1, 2, "heartbeat")
    world.pass_ms(110)
    assert not world.blocked(1, 2, "fetch")


def test_a_node_with_stale_metadata_still_reaches_the_controller(world: World) -> None:
    world.do("stale_metadata", "2", 100)
    assert world.blocked(2, 1, "metadata")
    assert not world.blocked(2, 1, "controller")
    assert not world.blocked(3, 1, "metadata")


def test_a_held_channel_is_one_way_and_does_not_affect_other_channels(world: World) -> None:
    world.do("hold", "3", 100, "leader:t0-0", "fetch", "out")
    assert world.blocked(3, 2, "fetch")
    assert not world.blocked(2, 3, "fetch")
    assert not world.blocked(3, 2, "client")
    world.do("hold", "2", 100, "controllers", "controller", "in")
    assert world.blocked(1, 2, "controller")
    assert not world.blocked(2, 1, "controller")


def test_actions_after_the_healing_are_not_carried_out(world: World) -> None:
    world.faults.schedule([Action(at_ms=50, kind="crash", target="1", duration_ms=1_000)], from_ms=0)
    world.faults.heal()
    world.pass_ms(100)
    assert world.alive() == [1, 2, 3]


def test_a_cut_affects_two_nodes(world: World) -> None:
    world.do("cut", "follower:t0-0:1", 100, "leader:t0-0", "in")
    assert world.blocked(2, 3)
    assert not world.blocked(3, 2)


def test_a_split_separates_two_sides(world: World) -> None:
    world.do("split", "", 100, 1, 3)
    assert world.blocked(1, 2)
    assert world.blocked(2, 3)
    assert not world.blocked(1, 3)


def test_disks_fill_and_have_room_again(world: World) -> None:
    world.do("full_disk", "1", 100)
    world.do("slow_disk", "1", 100, 30)
    host = world.cluster.hosts[1]
    assert host.disk.full
    assert host.disk_delay_us == 30_000
    world.pass_ms(110)
    assert not host.disk.full
    assert host.disk_delay_us == 0


def test_a_failing_disk_syncs_nothing_until_it_is_repaired(world: World) -> None:
    world.do("failing_disk", "1", 100)
    file = world.cluster.hosts[1].disk.open("f")
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    world.pass_ms(110)
    file.sync()
    assert world.cluster.hosts[1].disk.syncs == 1


def test_clocks_jump_and_drift(world: World) -> None:
    world.do("clock_jump", "1", 0, 400)
    world.do("clock_drift", "2", 100, 500_000)
    world.pass_ms(200)
    assert world.cluster.local_now_ms(world.cluster.hosts[1]) == 600
    assert world.cluster.local_now_ms(world.cluster.hosts[2]) == 250


def test_healing_undoes_everything(world: World) -> None:
    for kind, target, *value in (
        ("crash", "1"),
        ("pause", "2"),
        ("isolate", "3", "both"),
        ("full_disk", "3"),
        ("failing_disk", "3"),
        ("slow_disk", "3", 30),
    ):
        world.do(str(kind), str(target), 60_000, *value)
    world.faults.heal()
    assert world.alive() == [1, 2, 3]
    assert not world.cluster.hosts[2].paused
    assert not world.blocked(3, 1)
    assert not world.cluster.hosts[3].disk.full
    assert not world.cluster.hosts[3].disk.failing
    assert world.cluster.hosts[3].disk_delay_us == 0


def test_the_leader_is_that_of_the_newest_metadata(world: World) -> None:
    assert world.faults.resolve("leader:t0-0") == 2
    world.views[3].partition = replace(PARTITION, leader=3, partition_epoch=1)
    assert world.faults.resolve("leader:t0-0") == 3
    assert world.faults.resolve("follower:t0-0:0") == 1
    assert world.faults.resolve("follower:t0-0:1") == 2


def test_the_active_controller_is_the_one_of_the_highest_epoch(world: World) -> None:
    assert world.faults.resolve("active-controller") is None
    world.views[1].is_leader = True
    world.views[3].is_leader, world.views[3].epoch = True, 2
    assert world.faults.resolve("active-controller") == 3


def test_a_name_stays_bound_to_its_node(world: World) -> None:
    world.views[2].is_leader = True
    world.do("name", "active-controller", 0, "A")
    world.do("name", "other-voter:A", 0, "B")
    world.views[2].is_leader, world.views[3].is_leader = False, True
    assert [world.faults.resolve(target) for target in ("A", "B", "other-voter:A:B")] == [2, 1, 3]
    assert world.faults.resolve("other-voter:A:B:active-controller") is None


@pytest.mark.parametrize("target", ["9", "unknown", "leader:nowhere-0", "follower:t0-5:0"])
def test_an_action_without_a_target_does_nothing(world: World, target: str) -> None:
    world.do("crash", target)
    assert world.alive() == [1, 2, 3]


def test_actions_happen_at_their_time(world: World) -> None:
    world.faults.schedule([Action(at_ms=50, kind="crash", target="1", duration_ms=1_000)], from_ms=100)
    world.pass_ms(149)
    assert world.alive() == [1, 2, 3]
    world.pass_ms(2)
    assert world.alive() == [2, 3]
