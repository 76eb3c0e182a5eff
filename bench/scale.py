"""One simulated cluster with 10, 100 and 1,000 partitions: does the cost of an event grow with their number?

python bench/scale.py [partitions...]

Three brokers, one controller, three replicas each, all checks on. The aim: with 1,000 partitions the cluster steps at
least half as fast as with 10. Creating, failing over and restarting touch every partition, so their cost is also given
per partition; a fetch that finds nothing new should cost the same with any number.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from common import table, typical_us

from insync.node.node import Node
from insync.sansio import Effect, Event, Request, Response
from insync.sim.plans.plan import ClientPlan, NodePlan, Plan, Timing, TopicPlan
from insync.sim.run import World
from insync.wire.messages import fetch

COUNTS = (10, 100, 1_000)
BROKERS = (1, 2, 3)
CONTROLLER = 4
LOST = 3
LOAD_MS = 2_000
IDLE_MS = 2_000
WAIT_TIMEOUT_MS = 30_000


@dataclass(slots=True)
class Phase:
    """CPU seconds, simulated milliseconds and node steps of one phase, and the typical step of a fetch in it."""

    cpu: float
    sim_ms: int
    steps: int
    fetch_us: float = 0.0

    @property
    def us_per_step(self) -> float:
        return self.cpu / self.steps * 1e6


class FetchTimedNode(Node):
    """Measures its steps that serve a fetch or handle the response to one."""

    took: ClassVar[list[float]] = []

    def step(self, event: Event, now: int) -> list[Effect]:
        began = time.perf_counter()
        effects = super().step(event, now)
        request = (
            event.request if isinstance(event, Request) else event.send.request if isinstance(event, Response) else None
        )
        if isinstance(request, fetch.FetchRequest):
            self.took.append(time.perf_counter() - began)
        return effects


def main() -> None:
    counts = tuple(int(count) for count in sys.argv[1:]) or COUNTS
    measured = {count: measure(count) for count in counts}
    first = measured[counts[0]]
    table(
        f"steps with {' / '.join(f'{count:,}' for count in counts)} partitions",
        ("partitions", "loaded steps/s", f"of {counts[0]}'s", "us per loaded step", "us per idle fetch", "ratio"),
        [
            (
                count,
                round(1e6 / phases["load"].us_per_step),
                first["load"].us_per_step / phases["load"].us_per_step,
                phases["load"].us_per_step,
                phases["idle"].fetch_us,
                phases["idle"].fetch_us / first["idle"].fetch_us,
            )
            for count, phases in measured.items()
        ],
    )
    for name, title in (
        ("create", "create one topic, until every replica is in sync"),
        ("fail over", f"lose broker {LOST}, until nothing is led by it"),
        ("restart", f"restart broker {LOST}, until every replica is in sync"),
    ):
        rows = [_phase_row(count, phases[name]) for count, phases in measured.items()]
        table(title, ("partitions", "CPU ms", "CPU us per partition", "simulated ms", "steps"), rows)


def _phase_row(count: int, phase: Phase) -> tuple[object, ...]:
    return count, phase.cpu * 1e3, phase.cpu / count * 1e6, phase.sim_ms, phase.steps


def measure(partitions: int) -> dict[str, Phase]:
    world = World(_plan(partitions), node_factory=FetchTimedNode)
    for node in world.plan.nodes:
        world.cluster.start(node.node_id)
    _until(world, lambda: all(world.cluster.node(broker).lifecycle.state == "running" for broker in BROKERS))
    phases: dict[str, Phase] = {}
    world.operator.create(world.plan.topics[0])
    phases["create"] = _until(world, lambda: _in_sync(world, partitions))
    phases["idle"] = _pass(world, IDLE_MS)
    world.workload.start()
    _pass(world, 500)
    phases["load"] = _pass(world, LOAD_MS)
    world.cluster.crash(LOST)
    phases["fail over"] = _until(world, lambda: not world.cluster.node(1).image.leads_any(LOST))
    world.cluster.start(LOST)
    phases["restart"] = _until(world, lambda: _in_sync(world, partitions))
    if world.violation is not None:
        raise SystemExit(str(world.violation))
    return phases


def _plan(partitions: int) -> Plan:
    producers = tuple(ClientPlan(client_id=-10 - n, kind="producer", every_ms=5, in_flight=5) for n in range(4))
    return Plan(
        seed=1,
        nodes=(
            *(NodePlan(node_id=broker, roles=("broker",)) for broker in BROKERS),
            NodePlan(node_id=CONTROLLER, roles=("controller",)),
        ),
        topics=(TopicPlan(name="t", partitions=partitions, replication_factor=len(BROKERS)),),
        clients=(*producers, ClientPlan(client_id=-20, kind="consumer", every_ms=5)),
        timing=Timing(snapshot_records=20_000),
    )


def _in_sync(world: World, partitions: int) -> bool:
    image = world.cluster.node(CONTROLLER).image
    known = image.all_partitions()
    return len(known) == partitions and all(len(partition.isr) == len(BROKERS) for partition in known)


def _pass(world: World, by_ms: int) -> Phase:
    FetchTimedNode.took.clear()
    began, steps = time.process_time(), world.trace.steps
    world.advance(world.engine.now // 1_000 + by_ms)
    cpu = time.process_time() - began
    return Phase(cpu, by_ms, world.trace.steps - steps, typical_us(FetchTimedNode.took or [0.0]))


def _until(world: World, condition: Callable[[], bool]) -> Phase:
    """Look every 10 ms; looking is not part of the cost."""
    whole = Phase(0.0, 0, 0)
    while not condition():
        part = _pass(world, 10)
        whole = Phase(whole.cpu + part.cpu, whole.sim_ms + part.sim_ms, whole.steps + part.steps)
        if whole.sim_ms > WAIT_TIMEOUT_MS or world.engine.stopped:
            raise SystemExit(f"no end after {whole.sim_ms} simulated ms: {world.violation}")
    return whole


if __name__ == "__main__":
    main()
