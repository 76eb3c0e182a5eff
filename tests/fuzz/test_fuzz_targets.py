"""A short run of every fuzz target with a fixed seed; `make fuzz` runs them for long, with new seeds each time."""

from __future__ import annotations

import pytest

from fuzz import engine
from fuzz.target import Target
from fuzz.targets import TARGETS

SEED = 2024


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_damaged_input_leads_to_nothing_but_the_documented_errors(target: Target) -> None:
    report = engine.fuzz(target, seed=SEED, executions=target.short)
    assert report.executions == target.short
    assert not report.findings, "\n".join(finding.trace for finding in report.findings.values())


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_what_a_target_starts_from_is_sound_and_not_empty(target: Target) -> None:
    seeds = target.seeds()
    assert seeds
    assert all(seeds)
    assert seeds == target.seeds()
