"""Hunts mutants: runs seeds with one safeguard removed until a property fails.

A mutant that no seed catches shows that a fault pattern or a check is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from insync.sim.mutants.catalogue import MUTANTS, apply_mutant
from insync.sim.mutants.mutant import Mutant
from insync.sim.plans.swarm import draw_plan
from insync.sim.run import run_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class HuntResult:
    """The result for one mutant; `seed` is the smallest of those tried that catches it."""

    name: str
    removes: str
    caught: bool
    property: str = ""
    seed: int = -1
    detail: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "removes": self.removes,
            "caught": self.caught,
            "property": self.property or None,
            "seed": self.seed if self.caught else None,
        }


def try_seed(mutant: Mutant, seed: int) -> HuntResult | None:
    """One run without the safeguard; None if every property held."""
    with apply_mutant(mutant):
        violation = run_plan(draw_plan(seed)).violation
    if violation is None:
        return None
    return HuntResult(
        name=mutant.name,
        removes=mutant.removes,
        caught=True,
        property=violation.property,
        seed=seed,
        detail=violation.detail,
    )


def find_catching_seed(mutant: Mutant, seeds: Sequence[int]) -> HuntResult:
    """The first seed that catches it."""
    for seed in seeds:
        result = try_seed(mutant, seed)
        if result is not None:
            return result
    return HuntResult(name=mutant.name, removes=mutant.removes, caught=False)


def hunt_mutants(mutants: Sequence[Mutant], seeds: Sequence[int], jobs: int) -> Iterator[HuntResult]:
    """One mutant per process at a time; results come in the order in which they are done."""
    work = _Hunt(seeds)
    if jobs <= 1:
        yield from map(work, [mutant.name for mutant in mutants])
        return
    with get_context("fork").Pool(min(jobs, len(mutants))) as pool:
        yield from pool.imap_unordered(work, [mutant.name for mutant in mutants], chunksize=1)


class _Hunt:
    """A picklable `find_catching_seed`."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = seeds

    def __call__(self, name: str) -> HuntResult:
        return find_catching_seed(MUTANTS[name], self.seeds)


def markdown_table(rows: Sequence[HuntResult]) -> str:
    lines = ["| mutant | rule | safeguard removed | caught by | smallest seed |", "|---|---|---|---|---|"]
    lines += [
        f"| `{row.name}` | {MUTANTS[row.name].rule} | {row.removes} | {row.property or 'none'} | {row.seed} |"
        for row in rows
    ]
    return "\n".join(lines)
