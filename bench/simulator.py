"""How fast the simulator steps with every safety check on, where its time goes, and whether its memory stays flat.

python bench/simulator.py [seeds]

The aim is 5,000 node steps per second and core. Speed and memory come from one pass over the seeds in one process, the
split from a second, shorter pass with stopwatches around `Node` and the checker. In one long run of a cluster whose
topics have retention, all that may grow is what the checker keeps: a fingerprint of every committed batch.
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

AIM = 5_000
SEEDS = 120
SPLIT_SEEDS = 12
LONG_RUN_S = (3, 6, 12)


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS
    speed_and_memory(seeds)
    split(min(seeds, SPLIT_SEEDS))
    long_run()


def speed_and_memory(seeds: int) -> None:
    marks = [max(1, seeds // 4), seeds]
    rows: list[tuple[int, int, float, float, int]] = []
    steps, spent = 0, 0.0
    for seed in range(seeds):
        outcome = run_plan(draw_plan(seed))
        if outcome.violation is not None:  # worth knowing, but not what is measured here
            print(f"seed {seed}: {outcome.violation}")
        steps += outcome.steps
        spent += outcome.cpu_seconds
        if seed + 1 in marks:
            rows.append((seed + 1, steps, steps / spent, resident_mb(), len(gc.get_objects())))
    table(
        "simulated clusters in one process, all checks on",
        (
            "after seeds",
            "node steps",
            "steps/s, core",
            f"of {AIM:,}",
            "resident MB",
            "ratio",
            "live objects",
            "ratio",
        ),
        [
            (done, total, round(rate), rate / AIM, held, held / rows[0][3], objects, objects / rows[0][4])
            for done, total, rate, held, objects in rows
        ],
    )


def resident_mb() -> float:
    """What this process holds now; where the system does not tell, what it held at most."""
    gc.collect()
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Stopwatch:
    node = 0.0
    checker = 0.0
    steps = 0


class TimedNode(Node):
    def step(self, event: Event, now: int) -> list[Effect]:
        began = time.perf_counter()
        try:
            return super().step(event, now)
        finally:
            Stopwatch.node += time.perf_counter() - began
            Stopwatch.steps += 1

    def next_deadline(self) -> int | None:
        began = time.perf_counter()
        deadline = super().next_deadline()
        Stopwatch.node += time.perf_counter() - began
        return deadline


class TimedChecker(Checker):
    def __init__(self, cluster: Cluster, history: History) -> None:
        super().__init__(cluster, history)

    def after_step(self, node_id: int, event: Event, effects: list[Effect]) -> None:
        began = time.perf_counter()
        super().after_step(node_id, event, effects)
        Stopwatch.checker += time.perf_counter() - began


def split(seeds: int) -> None:
    began = time.perf_counter()
    for seed in range(seeds):
        run_plan(draw_plan(seed), checker_factory=_checker, node_factory=TimedNode)
    total = time.perf_counter() - began
    rest = total - Stopwatch.node - Stopwatch.checker
    rows = [
        (what, seconds / Stopwatch.steps * 1e6, seconds / total)
        for what, seconds in (
            ("the node itself (step, next_deadline)", Stopwatch.node),
            ("properties and probes", Stopwatch.checker),
            ("engine, network, clients, trace", rest),
            ("together", total),
        )
    ]
    table(f"where a step's time goes, over {seeds} seeds", ("", "us per step", "share"), rows)


def long_run() -> None:
    world = World(_long_plan())
    world.start()
    rows: list[tuple[object, ...]] = []
    first = 0
    for seconds in LONG_RUN_S:
        world.advance(seconds * 1_000)
        held = resident_mb()
        objects = gc.get_objects()
        kept = sum(1 for each in objects if type(each) is Fingerprint)
        first = first or len(objects) - kept
        rows.append((seconds, world.trace.steps, held, kept, len(objects) - kept, (len(objects) - kept) / first))
    if world.violation is not None:
        raise SystemExit(str(world.violation))
    table(
        "one long run of four partitions",
        ("simulated s", "node steps", "resident MB", "fingerprints", "other live objects", "ratio"),
        rows,
    )


def _long_plan() -> Plan:
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


def _checker(cluster: Cluster, history: History) -> Any:
    return TimedChecker(cluster, history)


if __name__ == "__main__":
    main()
