"""The simulator notices a removed safeguard. These mutants are caught quickly; `make mutants` hunts all."""

from __future__ import annotations

import pkgutil
from typing import Any

import pytest

from insync.sim.mutants.catalogue import CATALOGUE, MUTANTS, apply_mutant
from insync.sim.mutants.hunt import find_catching_seed
from insync.sim.mutants.mutant import Mutant
from insync.sim.plans.swarm import draw_plan
from insync.sim.run import run_plan

pytestmark = pytest.mark.slow

QUICK = {
    "truncate-to-hwm": ("S3", "S1", "S9"),
    "exact-epoch-only": ("S2", "S3", "F5"),
    "unclamped-hwm": ("S2", "S6"),
    "hwm-below-min-isr": ("S3", "S4", "S1", "S16"),
    "read-past-hwm": ("S8",),
    "joins-below-hwm": ("S3", "S5", "S4", "S1"),
    "unclean-keeps-elr": ("S5",),
    "registers-unfenced": ("S5",),
    "fenced-before-its-replicas": ("S5",),
    "fenced-electable": ("S5",),
    "elr-kept-at-min-isr": ("S4", "S3"),
    "elr-not-filled": ("S10", "S9"),
    "duplicates-appended": ("S13",),
    "appends-below-min-isr": ("S16",),
    "completes-with-first-added": ("S14",),
    "epoch-with-every-isr-change": ("S17",),
    "sessions-too-long": ("L8",),
    "shutdown-does-not-wait": ("L9",),
    "no-pre-votes": ("L10",),
    "producer-ids-not-in-snapshots": ("L4",),
    "expands-below-min-isr-only": ("L11",),
    "stale-generation-commits": ("S18",),
    "groups-loaded-in-part": ("S18",),
    "epoch-end-too-far": ("S19",),
    "time-search-too-late": ("S19",),
}
"""Mutants that need few seeds, and the properties that may fail."""


@pytest.mark.parametrize("name", QUICK)
def test_a_removed_safeguard_violates_a_property_that_fits(name: str) -> None:
    result = find_catching_seed(MUTANTS[name], range(60))
    assert result.caught, f"{name}: no property failed"
    assert result.property in QUICK[name], (result.property, result.detail)


def test_a_stale_epoch_table_is_found_by_its_directed_race() -> None:
    """D1: without it more than a thousand seeds were needed."""
    result = find_catching_seed(MUTANTS["epoch-checkpoint-kept-stale"], range(12, 150, 16))
    assert result.property == "S3", result


def test_a_mutant_is_gone_when_its_block_ends() -> None:
    from insync.replication.leader import Leader

    before = Leader.has_min_isr
    with apply_mutant(MUTANTS["hwm-below-min-isr"]):
        assert Leader.has_min_isr is not before
    assert Leader.has_min_isr is before


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_names_a_safeguard_that_exists(name: str) -> None:
    """A renamed function would leave a mutant that removes nothing."""
    mutant = MUTANTS[name]
    before = safeguards(mutant)
    with apply_mutant(mutant):
        assert all(patched != original for patched, original in zip(safeguards(mutant), before, strict=True))
    assert safeguards(mutant) == before != []
    assert mutant.removes
    assert mutant.rule


def safeguards(mutant: Mutant) -> list[Any]:
    """The functions that the mutant replaces."""
    return [pkgutil.resolve_name(f"insync.{path}") for path, _ in mutant.patches]


def test_there_are_enough_mutants_and_their_names_are_unique() -> None:
    assert len(MUTANTS) >= 25
    assert len(CATALOGUE) == len(MUTANTS)


def test_without_a_mutant_the_same_seeds_hold() -> None:
    """So a violation in the hunt is caused by the mutant."""
    assert all(run_plan(draw_plan(seed)).violation is None for seed in range(3))
