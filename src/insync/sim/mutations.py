"""Mutants: the protocol with one safeguard taken out, to prove that the simulator would notice.

A safeguard is a small function or method of its own, found by its name when it is called. A mutant replaces that one
attribute for as long as it is applied; the production code knows nothing of it. A mutant is caught when a property
fails on some seed. One that nobody can catch means that a fault or a checker is missing.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from insync.sim.mutant_list import LIST, Mutant
from insync.sim.plan import Plan
from insync.sim.run import run_plan

MUTANTS: dict[str, Mutant] = {mutant.name: mutant for mutant in LIST}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caught:
    """What a hunt found out about one mutant; `seed` is the smallest of those tried that catches it."""

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


@contextmanager
def applied(mutant: Mutant | None) -> Iterator[None]:
    """The safeguard is gone inside the block, and back after it."""
    undo: list[tuple[Any, str, Any]] = []
    try:
        for path, make in mutant.patches if mutant else ():
            owner, name = _find(path)
            original = owner.__dict__[name]
            undo.append((owner, name, original))
            setattr(owner, name, make(original))
        yield
    finally:
        for owner, name, original in reversed(undo):
            setattr(owner, name, original)


def _find(path: str) -> tuple[Any, str]:
    """`package.module:name` or `package.module:Class.name` as the thing that holds the name, and the name."""
    module, _, rest = path.partition(":")
    *owners, name = rest.split(".")
    owner: Any = importlib.import_module(f"insync.{module}")
    for each in owners:
        owner = getattr(owner, each)
    return owner, name


def try_seed(mutant: Mutant, seed: int) -> Caught | None:
    """One run without the safeguard; None if nothing was noticed."""
    with applied(mutant):
        violation = run_plan(Plan.from_seed(seed)).violation
    if violation is None:
        return None
    return Caught(
        name=mutant.name,
        removes=mutant.removes,
        caught=True,
        property=violation.property,
        seed=seed,
        detail=violation.detail,
    )


def hunt_one(mutant: Mutant, seeds: Sequence[int]) -> Caught:
    """The first seed that catches it."""
    for seed in seeds:
        found = try_seed(mutant, seed)
        if found is not None:
            return found
    return Caught(name=mutant.name, removes=mutant.removes, caught=False)


def hunt(mutants: Sequence[Mutant], seeds: Sequence[int], jobs: int) -> Iterator[Caught]:
    """One mutant per process at a time, in the order in which they are done."""
    work = _Hunt(seeds)
    if jobs <= 1:
        yield from map(work, [mutant.name for mutant in mutants])
        return
    with get_context("fork").Pool(min(jobs, len(mutants))) as pool:
        yield from pool.imap_unordered(work, [mutant.name for mutant in mutants], chunksize=1)


class _Hunt:
    """A picklable `hunt_one`."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = seeds

    def __call__(self, name: str) -> Caught:
        return hunt_one(MUTANTS[name], self.seeds)


def markdown_table(rows: Sequence[Caught]) -> str:
    lines = ["| mutant | rule | safeguard removed | caught by | smallest seed |", "|---|---|---|---|---|"]
    lines += [
        f"| `{row.name}` | {MUTANTS[row.name].rule} | {row.removes} | {row.property or 'nobody'} | {row.seed} |"
        for row in rows
    ]
    return "\n".join(lines)
