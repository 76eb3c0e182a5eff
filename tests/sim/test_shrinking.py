"""A failing run shrinks to a smaller one that fails in the same way."""

import itertools

from insync.sim import mutations, shrinking
from insync.sim.mutations import MUTANTS
from insync.sim.plan import Plan
from insync.sim.run import run_plan
from insync.sim.story import Story


def test_a_failing_plan_shrinks_to_fewer_actions_that_break_the_same_property() -> None:
    mutant = MUTANTS["unclean-keeps-elr"]
    seed = mutations.hunt_one(mutant, range(60)).seed
    plan = Plan.from_seed(seed)
    ticks = itertools.count()
    with mutations.applied(mutant):
        broken = run_plan(plan).violation
        assert broken is not None
        small = shrinking.Shrinker(broken.property, 400, lambda: next(ticks)).shrink(plan)
        again = run_plan(small).violation
        told: list[str] = []
        run_plan(small, story=Story(told.append, numbered=True))
    assert again is not None
    assert again.property == broken.property
    assert len(small.actions) < len(plan.actions) or len(plan.actions) <= 1
    assert len(small.clients) <= len(plan.clients)
    assert told[0].lstrip().startswith("1.")
    assert any("LEO" in line and "HWM" in line for line in told), "the story shows where the replicas stand"
    assert "what is done to it" in shrinking.describe(plan, small)


def test_shrinking_stops_when_the_time_is_up() -> None:
    mutant = MUTANTS["read-past-hwm"]
    seed = mutations.hunt_one(mutant, range(60)).seed
    shrinker = shrinking.Shrinker("S8", 0.0, lambda: 1.0)
    with mutations.applied(mutant):
        shrinker.shrink(Plan.from_seed(seed))
    assert shrinker.attempts <= 2
