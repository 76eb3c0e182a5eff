"""Whole runs: real nodes, real storage, a plan from a seed."""

from __future__ import annotations

from typing import Any

import pytest

from insync.properties.history import History
from insync.sim.engine.cluster import Cluster
from insync.sim.plans.plan import Action
from insync.sim.plans.swarm import draw_plan
from insync.sim.run import World, run_plan
from tests.sim.hash_seeds import run_with_hash_seed


class RunningChecker:
    """Checks only that brokers run in the end."""

    def __init__(self, cluster: Cluster, history: History) -> None:
        self.cluster = cluster
        self.history = history
        self.violations: list[Any] = []
        self.crashes: list[tuple[int, bool]] = []

    def after_step(self, node_id: int, event: Any, effects: list[Any]) -> None:
        self.history.take()

    def node_started(self, node_id: int) -> None: ...

    def node_ends(self, node_id: int) -> None: ...

    def node_crashed(self, node_id: int, lost: Any) -> None:
        self.crashes.append((node_id, lost is not None))

    def finish(self) -> list[Any]:
        return self.violations

    def why_not_converged(self) -> str | None:
        late = [n.id for n in self.cluster.nodes() if n.lifecycle and n.lifecycle.state != "running"]
        return f"L1: {late} do not run" if late else None


@pytest.mark.parametrize("seed", range(6))
def test_a_run_converges_and_acknowledges_records(seed: int) -> None:
    outcome = run_plan(draw_plan(seed))
    assert outcome.violation is None
    assert outcome.steps > 300
    assert outcome.stats["acked"] > 0


def test_one_seed_is_one_run_under_any_hash_seed() -> None:
    code = (
        "from insync.sim.plans.swarm import draw_plan\nfrom insync.sim.run import run_plan\n"
        "print([run_plan(draw_plan(s)).trace_hash for s in (2, 3)])"
    )
    assert run_with_hash_seed(code, 1) == run_with_hash_seed(code, 99)


def test_checkers_and_sinks_do_not_change_the_run() -> None:
    plan = draw_plan(4)
    lines: list[str] = []
    plain = run_plan(plan, checker_factory=RunningChecker)
    watched = run_plan(plan, checker_factory=RunningChecker, trace_sink=lambda _t, line: lines.append(line))
    assert plain.trace_hash == watched.trace_hash
    assert any("ProduceRequest" in line for line in lines)


def test_a_plan_with_a_step_limit_runs_fewer_steps() -> None:
    plan = draw_plan(1)
    whole = run_plan(plan, checker_factory=RunningChecker)
    short = run_plan(plan.with_step_limit(500), checker_factory=RunningChecker)
    assert short.steps < whole.steps
    assert short.sim_seconds < whole.sim_seconds


def test_the_actions_of_a_plan_are_carried_out() -> None:
    actions = (
        Action(at_ms=100, kind="crash", target="1", duration_ms=300),
        Action(at_ms=900, kind="lossy_crash", target="2", duration_ms=300),
        Action(at_ms=1_500, kind="restart", target="3", duration_ms=50),
    )
    world = World(draw_plan(1, actions=actions), checker_factory=RunningChecker)
    world.start()
    world.faults.schedule(world.plan.actions, world.plan.setup_ms)
    world.advance(5_000)
    checker = world.checker
    assert isinstance(checker, RunningChecker)
    assert (1, False) in checker.crashes
    assert (2, True) in checker.crashes
    assert world.cluster.stats["clean_stop"] == 1
    assert all(host.alive for host in world.cluster.hosts.values())


def test_operators_change_the_cluster() -> None:
    topic = draw_plan(1).topics[0].name
    actions = (
        Action(at_ms=100, kind="create_topic", target="n1", value=(2, 1)),
        Action(at_ms=100, kind="grow_topic", target=topic, value=(5,)),
        Action(at_ms=100, kind="set_config", target=topic, value=("min.insync.replicas", "1")),
        Action(at_ms=700, kind="reassign", target="n1-0", value=(2,)),
        Action(at_ms=1_300, kind="reassign", target="n1-0", value=(3,)),
    )
    world = World(draw_plan(1, actions=actions), checker_factory=RunningChecker)
    world.start()
    world.faults.schedule(world.plan.actions, world.plan.setup_ms)
    world.advance(4_000)
    image = world.cluster.nodes()[0].image
    assert len(image.partitions[image.topic_ids[topic]]) == 5
    assert image.min_isr(topic) == 1
    assert image.find("n1", 0).replicas == (3,)
    world.faults.carry_out(Action(at_ms=0, kind="delete_topic", target="n1"))
    world.advance(5_000)
    assert "n1" not in world.cluster.nodes()[0].image.topic_ids


def test_a_cluster_that_does_not_converge_is_a_violation() -> None:
    class Never(RunningChecker):
        def why_not_converged(self) -> str | None:
            return "L4: never converged"

    outcome = run_plan(draw_plan(1, actions=(), fault_ms=200, convergence_ms=600), checker_factory=Never)
    assert outcome.violation is not None
    assert outcome.violation.property == "L4"
