"""A short run of every fuzz target with a fixed seed; `make fuzz` is a long one with new seeds."""

from __future__ import annotations

import pytest

from fuzz import engine
from fuzz.archive import unpack_files
from fuzz.target import Target
from fuzz.targets import TARGETS

SEED = 2024


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_damaged_input_raises_only_documented_errors(target: Target) -> None:
    report = engine.fuzz(target, seed=SEED, executions=target.short)
    assert report.executions == target.short
    assert not report.findings, "\n".join(finding.trace for finding in report.findings.values())


def test_restarts_begin_with_the_files_of_a_killed_and_of_a_stopped_node() -> None:
    killed, stopped = (unpack_files(seed) for seed in TARGETS["restarts"].seeds())
    for files in (killed, stopped):
        assert files["data/t-0/00000000000000000000.log"]
        assert files["metadata/__cluster_metadata-0/00000000000000000000.log"]
    assert "data/.kafka_cleanshutdown" in stopped
    assert "data/.kafka_cleanshutdown" not in killed


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_the_seeds_of_a_target_are_the_same_each_time_and_not_empty(target: Target) -> None:
    seeds = target.seeds()
    assert seeds
    assert all(seeds)
    assert seeds == target.seeds()
