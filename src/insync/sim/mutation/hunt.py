"""Runs seeds of the simulator with a mutation in the code under test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from insync.sim.mutation.mutations import Mutation, applied
from insync.sim.plans.swarm import draw_plan
from insync.sim.run import run_plan


@dataclass(frozen=True, slots=True)
class Catch:
    """The seed that notices a mutation, and the property that fails; `crash` if the code raises."""

    seed: int
    property: str


def find_catch(mutation: Mutation, seeds: Sequence[int]) -> Catch | None:
    """The first of the seeds that notices it; None if none does."""
    with applied(mutation):
        for seed in seeds:
            try:
                violation = run_plan(draw_plan(seed)).violation
            except Exception as error:
                return Catch(seed, type(error).__name__)
            if violation is not None:
                return Catch(seed, violation.property)
    return None
