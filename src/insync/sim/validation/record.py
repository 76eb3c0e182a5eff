"""Runs a plan and records the traces of its partitions."""

from __future__ import annotations

from typing import Any

from insync.properties.history import History
from insync.properties.violation import Violation
from insync.sim.engine.cluster import Cluster
from insync.sim.plans.plan import Plan
from insync.sim.run import Outcome, run_plan
from insync.sim.validation.recorder import Recorder
from insync.sim.validation.steps import PartitionTrace


class NoChecks:
    """Takes the checker's place where the specification alone is to judge."""

    def __init__(self, cluster: Cluster, history: History) -> None:
        self.violations: list[Violation] = []

    def after_step(self, *_: Any) -> None: ...
    def node_started(self, *_: Any) -> None: ...
    def node_ends(self, *_: Any) -> None: ...
    def node_crashed(self, *_: Any) -> None: ...
    def finish(self) -> None: ...
    def why_not_converged(self) -> str | None:
        return None


def record_plan(plan: Plan, *, checks: bool = True) -> tuple[Outcome, list[PartitionTrace]]:
    recorder = Recorder(plan.seed)
    with recorder.attached():
        outcome = run_plan(plan, narrator=recorder, checker_factory=None if checks else NoChecks)
    recorder.finish()
    return outcome, recorder.traces
