"""One run of a plan: a cluster starts, works under faults, heals, and must converge.

    setup (create topics) -> fault phase (the plan's actions) -> heal -> convergence (L1-L7 within a time limit)

Safety is checked after every step. The outcome is a pure function of the plan.
"""

from __future__ import annotations

import contextlib
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from insync.errors import InvariantError
from insync.node.node import Node
from insync.properties.history import History
from insync.properties.violation import Violation
from insync.sim.checks.checker import Checker
from insync.sim.engine.cluster import Cluster, NodeFactory, Observer
from insync.sim.engine.engine import Engine, NodeClock
from insync.sim.engine.network import Network
from insync.sim.engine.node_config import node_config
from insync.sim.engine.principals import Principals
from insync.sim.engine.trace import Sink, Trace
from insync.sim.plans.plan import Plan
from insync.sim.plans.swarm import draw_plan
from insync.sim.workload.faults import Faults
from insync.sim.workload.operator import Operator
from insync.sim.workload.workload import Workload

CheckerFactory = Callable[[Cluster, History], Any]


class Narrator(Observer, Protocol):
    """An observer that also gets the marks of the trace: what is done to the cluster from outside."""

    def attach(self, cluster: Cluster) -> None: ...
    def mark(self, time_us: int, text: str) -> None: ...


CLIENTS_CONTINUE_MS = 400
"""How long clients go on after the healing: a healed cluster has to accept new work."""
CHECK_INTERVAL_MS = 50
MAX_TIMEOUT_MS = 5_000
CRASH = "crash"
"""Stands for the property when the code under test raises."""


@dataclass(slots=True)
class Outcome:
    seed: int
    violation: Violation | None
    steps: int
    sim_seconds: float
    trace_hash: str
    cpu_seconds: float
    """CPU time of this process; the only field that is not a function of the plan."""
    probes: Counter[str] = field(default_factory=Counter)
    stats: Counter[str] = field(default_factory=Counter)


class World:
    """All parts of one run; `run_plan` drives it by the clock, `ClusterDriver` step by step."""

    def __init__(
        self,
        plan: Plan,
        *,
        checker_factory: CheckerFactory | None = None,
        trace_sink: Sink | None = None,
        narrator: Narrator | None = None,
        node_factory: NodeFactory = Node,
    ) -> None:
        self.plan = plan
        self.engine = Engine()
        self.trace = Trace(trace_sink, None if narrator is None else narrator.mark)
        self.network = Network(self.engine, self._rng("network"), plan.latency, MAX_TIMEOUT_MS)
        self.cluster = Cluster(
            self.engine,
            self.network,
            self._rng("cluster"),
            node_factory,
            trace=self.trace,
            node_seed=str(plan.seed),
            disk_us=plan.disk_us,
            principals=Principals() if plan.has_authorizer else None,
        )
        for node in plan.nodes:
            clock = NodeClock(node.skew_ms, node.drift_ppm)
            self.cluster.add(node.node_id, node_config(plan, node), clock)
        self.operator = Operator(self.cluster, self._rng("operator"), plan.brokers, plan.voters, plan.timing.request_ms)
        self.faults = Faults(self.cluster, self.operator, plan.voters)
        self.history = History()
        self.workload = Workload(plan, self.cluster, self.history)
        self.checker = (checker_factory or Checker)(self.cluster, self.history)
        self.cluster.observers = (self.checker,) if narrator is None else (narrator, self.checker)
        if narrator is not None:
            narrator.attach(self.cluster)

    def _rng(self, part: str) -> random.Random:
        return random.Random(f"{part} {self.plan.seed}")

    @property
    def violation(self) -> Violation | None:
        """The first one, found by the checker or by a node."""
        if self.checker.violations:
            first: Violation = self.checker.violations[0]
            return first
        error = self.cluster.violation
        return None if error is None else Violation(error.name, error.detail, "", self.engine.now // 1_000)

    def advance(self, to_ms: int) -> bool:
        """Let time pass; False if the run ended because a property was violated."""
        self.engine.run_until(to_ms * 1_000)
        return not self.engine.stopped

    def start(self) -> None:
        rng = self._rng("start")
        for node in self.plan.nodes:
            self.engine.call_at(rng.randrange(20_000), self.cluster.start, node.node_id)
        for topic in self.plan.topics:
            self.engine.call_at(100_000, self.operator.create, topic)
        self.engine.call_at(150_000, self.workload.start)

    def why_not_converged(self) -> str | None:
        """The first unmet liveness property of the healed cluster; None if all hold."""
        if self.workload.unanswered:
            return f"L5: {self.workload.unanswered} produces are not answered"
        reason: str | None = self.checker.why_not_converged()
        return reason


def run_plan(
    plan: Plan,
    *,
    checker_factory: CheckerFactory | None = None,
    trace_sink: Sink | None = None,
    narrator: Narrator | None = None,
    node_factory: NodeFactory = Node,
) -> Outcome:
    """Run a plan to its end or to the first violation."""
    began = time.process_time()
    world = World(
        plan, checker_factory=checker_factory, trace_sink=trace_sink, narrator=narrator, node_factory=node_factory
    )
    world.start()
    world.faults.schedule(plan.actions, plan.setup_ms)
    violation: Violation | None = None
    if _run_fault_phase(world):
        violation = _await_convergence(world)
    if violation is None and world.violation is None:
        _finish(world)
    return _outcome(world, world.violation or violation, time.process_time() - began)


def _run_fault_phase(world: World) -> bool:
    end = world.plan.setup_ms + world.plan.fault_ms
    limit = world.plan.fault_steps
    now = 0
    while now < end and not (limit and world.trace.steps >= limit):
        now = min(end, now + CHECK_INTERVAL_MS) if limit else end
        if not world.advance(now):
            return False
    return True


def _finish(world: World) -> None:
    """Run the final checks; the checker keeps the violations."""
    with contextlib.suppress(InvariantError):
        world.checker.finish()


def _await_convergence(world: World) -> Violation | None:
    """Heal, and check repeatedly until the cluster has converged or the time is up."""
    world.faults.heal()
    now = world.engine.now // 1_000
    if not world.advance(now + CLIENTS_CONTINUE_MS):
        return None
    world.workload.stop()
    deadline = now + world.plan.convergence_ms
    reason = world.why_not_converged()
    while reason is not None and (now := world.engine.now // 1_000) < deadline:
        if world.trace.steps > world.plan.max_steps:
            return Violation("Liveness", f"no convergence after {world.trace.steps} steps: {reason}", "", now)
        if not world.advance(now + CHECK_INTERVAL_MS):
            return None
        reason = world.why_not_converged()
    if reason is None:
        return None
    name, _, detail = reason.partition(": ")
    return Violation(name, detail, "", world.engine.now // 1_000)


def _outcome(world: World, violation: Violation | None, cpu_seconds: float) -> Outcome:
    stats = Counter(world.cluster.stats)
    stats.update({f"network:{name}": count for name, count in world.network.stats.items()})
    stats["acked"] = sum(producer.acked for producer in world.workload.producers)
    stats["failed"] = sum(producer.failed for producer in world.workload.producers)
    return Outcome(
        seed=world.plan.seed,
        violation=violation,
        steps=world.trace.steps,
        sim_seconds=world.engine.now / 1_000_000,
        trace_hash=world.trace.hash,
        cpu_seconds=cpu_seconds,
        probes=Counter(getattr(getattr(world.checker, "probes", None), "seen", None) or {}),
        stats=stats,
    )


def run_seed(seed: int, max_steps: int = 0) -> Outcome:
    """Run one of many seeds: an exception of the code under test counts as a violation, so that other seeds go on."""
    plan = draw_plan(seed)
    try:
        return run_plan(plan.with_step_limit(max_steps) if max_steps else plan)
    except Exception as error:
        frames = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
        detail = f"{type(error).__name__}: {error} ({' < '.join(reversed(frames[-3:]))})"
        return Outcome(seed, Violation(CRASH, detail, "", 0), 0, 0.0, "", cpu_seconds=0.0)
