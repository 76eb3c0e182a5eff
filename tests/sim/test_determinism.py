"""One seed is one run: in any process, under any hash seed."""

from __future__ import annotations

from tests.sim.hash_seeds import run_with_hash_seed

SEED = 11
CODE = f"""
from insync.sim.plans.swarm import draw_plan
from insync.sim.run import run_plan
outcome = run_plan(draw_plan({SEED}))
print(outcome.trace_hash, outcome.steps, sorted(outcome.stats.items()), sorted(outcome.probes.items()), hash("insync"))
"""


def test_a_seed_gives_one_trace_hash_under_any_pythonhashseed() -> None:
    first, second = (run_with_hash_seed(CODE, hash_seed) for hash_seed in (1, 2718))
    assert first.rpartition(b" ")[0] == second.rpartition(b" ")[0]
    assert first != second, "both processes hash strings alike, so the test proves nothing"
