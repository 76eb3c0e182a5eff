"""A failing plan shrinks to a smaller one that violates the same property."""

import itertools

import pytest

from insync.sim import shrinking
from insync.sim.mutants.catalogue import MUTANTS, apply_mutant
from insync.sim.mutants.hunt import find_catching_seed
from insync.sim.narration.narrator import TextNarrator
from insync.sim.plans.swarm import draw_plan
from insync.sim.run import run_plan


@pytest.mark.slow
def test_a_failing_plan_shrinks_to_fewer_actions_that_break_the_same_property() -> None:
    mutant = MUTANTS["unclean-keeps-elr"]
    seed = find_catching_seed(mutant, range(60)).seed
    plan = draw_plan(seed)
    ticks = itertools.count()
    with apply_mutant(mutant):
        broken = run_plan(plan).violation
        assert broken is not None
        small = shrinking.Shrinker(broken.property, 400, lambda: next(ticks)).shrink(plan)
        again = run_plan(small).violation
        lines: list[str] = []
        run_plan(small, narrator=TextNarrator(lines.append, numbered=True))
    assert again is not None
    assert again.property == broken.property
    assert len(small.actions) < len(plan.actions) or len(plan.actions) <= 1
    assert len(small.clients) <= len(plan.clients)
    assert lines[0].lstrip().startswith("1.")
    assert any("LEO" in line and "HWM" in line for line in lines), "the narration shows the state of the replicas"
    assert "actions:" in shrinking.describe_shrunk_plan(plan, small)


def test_shrinking_stops_when_the_time_is_up() -> None:
    mutant = MUTANTS["read-past-hwm"]
    seed = find_catching_seed(mutant, range(60)).seed
    shrinker = shrinking.Shrinker("S8", 0.0, lambda: 1.0)
    with apply_mutant(mutant):
        shrinker.shrink(draw_plan(seed))
    assert shrinker.attempts <= 2
