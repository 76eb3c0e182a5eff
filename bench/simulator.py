"""How fast the simulator steps with every safety check on, where its time goes, and whether its memory stays bounded.

python bench/simulator.py [seeds]

The target is 5,000 node steps per second and core. Speed and memory are measured in one pass over the seeds in one
process, the split in a second, shorter pass with timers around `Node` and the checker. In one long run of a cluster
whose topics have retention, only what the checker keeps may grow: a fingerprint of every committed batch.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from pathlib import Path
from typing import Any

from common import table

from insync.node.node import Node
from insync.properties.history import Fingerprint, History
from insync.sansio import Effect, Event
from insync.sim.checks.checker import Checker
from insync.sim.engine.cluster import Cluster
from insync.sim.plans.plan import ClientPlan, NodePlan, Plan, TopicPlan
from insync.sim.plans.swarm import draw_plan
from insync.sim.run import World, run_plan

TARGET_STEPS_PER_S = 5_000
SEEDS = 120
SEEDS_FOR_SPLIT = 12
LONG_RUN_CHECKPOINTS_S = (3, 6, 12)


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS
    measure_speed_and_memory(seeds)
    measure_split(min(seeds, SEEDS_FOR_SPLIT))
    measure_long_run()


def measure_speed_and_memory(seeds: int) -> None:
    checkpoints = [max(1, seeds // 4), seeds]
    rows: list[tuple[int, int, float, float, int]] = []
    steps, spent = 0, 0.0
    for seed in range(seeds):
        outcome = run_plan(draw_plan(seed))
        if outcome.violation is not None:  # reported, but not what is measured here
            print(f"seed {seed}: {outcome.violation}")
        steps += outcome.steps
        spent += outcome.cpu_seconds
        if seed + 1 in checkpoints:
            rows.append((seed + 1, steps, steps / spent, resident_mb(), len(gc.get_objects())))
    table(
        "simulated clusters in one process, all checks on",
        (
            "after seeds",
            "node steps",
            "steps/s, core",
            f"of {TARGET_STEPS_PER_S:,}",
            "resident MB",
            "ratio",
            "live objects",
            "ratio",
        ),
        [
            (
                done,
                total,
                round(rate),
                rate / TARGET_STEPS_PER_S,
                held,
                held / rows[0][3],
                objects,
                objects / rows[0][4],
            )
            for done, total, rate, held, objects in rows
        ],
    )


def resident_mb() -> float:
    """The resident memory of this process; on systems without /proc its maximum."""
    gc.collect()
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Timings:
    node = 0.0
    checker = 0.0
    steps = 0


class TimedNode(Node):
    def step(self, event: Event, now: int) -> list[Effect]:
        began = time.perf_counter()
        try:
            return super().step(event, now)
        finally:
            Timings.node += time.perf_counter() - began
            Timings.steps += 1

    def next_deadline(self) -> int | None:
        began = time.perf_counter()
        deadline = super().next_deadline()
        Timings.node += time.perf_counter() - began
        return deadline


class TimedChecker(Checker):
    def __init__(self, cluster: Cluster, history: History) -> None:
        super().__init__(cluster, history)

    def after_step(self, node_id: int, event: Event, effects: list[Effect]) -> None:
        began = time.perf_counter()
        super().after_step(node_id, event, effects)
        Timings.checker += time.perf_counter() - began


def measure_split(seeds: int) -> None:
    began = time.perf_counter()
    for seed in range(seeds):
        run_plan(draw_plan(seed), checker_factory=_timed_checker, node_factory=TimedNode)
    total = time.perf_counter() - began
    rest = total - Timings.node - Timings.checker
    rows = [
        (what, seconds / Timings.steps * 1e6, seconds / total)
        for what, seconds in (
            ("the node itself (step, next_deadline)", Timings.node),
            ("properties and probes", Timings.checker),
            ("engine, network, clients, trace", rest),
            ("together", total),
        )
    ]
    table(f"where a step's time goes, over {seeds} seeds", ("", "us per step", "share"), rows)


def measure_long_run() -> None:
    world = World(_plan_long_run())
    world.start()
    rows: list[tuple[object, ...]] = []
    first = 0
    for seconds in LONG_RUN_CHECKPOINTS_S:
        world.advance(seconds * 1_000)
        held = resident_mb()
        objects = gc.get_objects()
        kept = sum(1 for item in objects if type(item) is Fingerprint)
        first = first or len(objects) - kept
        rows.append((seconds, world.trace.steps, held, kept, len(objects) - kept, (len(objects) - kept) / first))
    if world.violation is not None:
        raise SystemExit(str(world.violation))
    table(
        "one long run of four partitions",
        ("simulated s", "node steps", "resident MB", "fingerprints", "other live objects", "ratio"),
        rows,
    )


def _plan_long_run() -> Plan:
    return Plan(
        seed=1,
        nodes=(
            *(NodePlan(node_id=broker, roles=("broker",)) for broker in (1, 2, 3)),
            NodePlan(node_id=4, roles=("controller",)),
        ),
        topics=(
            TopicPlan(
                name="t",
                partitions=4,
                replication_factor=3,
                configs=(("segment.bytes", "2000"), ("retention.bytes", "4000")),
            ),
        ),
        clients=(
            *(ClientPlan(client_id=-10 - n, kind="producer", every_ms=5, idempotent=n % 2 == 0) for n in range(4)),
            ClientPlan(client_id=-20, kind="consumer", every_ms=5),
        ),
    )


def _timed_checker(cluster: Cluster, history: History) -> Any:
    return TimedChecker(cluster, history)


if __name__ == "__main__":
    main()
