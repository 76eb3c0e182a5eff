"""The seeds of the corpus and a few others: no property may fail."""

import pytest

from insync.sim.plans.swarm import draw_plan
from insync.sim.run import run_plan
from tests.sim.seed_corpus import CORPUS, read_plan

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", CORPUS)
def test_a_seed_that_once_failed_holds_every_property(seed: int) -> None:
    """S1 S2 S3 S4 S5 S6 S7 S8 S9 S10 S11 S12 S13 S14 S15 S16 S17 S18 S19 L1 L2 L3 L4 L5 L6 L7 L8 L9 L10 L11:
    all are checked in every run."""
    assert run_plan(read_plan(seed)).violation is None, CORPUS[seed]


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_ten_seeds_hold_every_property(first: int) -> None:
    """S1 to S19 and L8 to L11 under faults, L1 to L7 after healing."""
    broken = [
        outcome for seed in range(first, first + 10) if (outcome := run_plan(draw_plan(seed))).violation is not None
    ]
    assert not broken, [(outcome.seed, str(outcome.violation)) for outcome in broken]
