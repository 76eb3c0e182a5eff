"""One seed is one run: in any process, under any hash seed."""

from __future__ import annotations

import os
import subprocess
import sys

SEED = 11
CODE = f"""
from insync.sim.plans.swarm import draw_plan
from insync.sim.run import run_plan
outcome = run_plan(draw_plan({SEED}))
print(outcome.trace_hash, outcome.steps, sorted(outcome.stats.items()), sorted(outcome.probes.items()), hash("insync"))
"""


def test_a_seed_gives_one_trace_hash_under_any_pythonhashseed() -> None:
    first, second = (_run(hash_seed) for hash_seed in ("1", "2718"))
    assert first.rpartition(" ")[0] == second.rpartition(" ")[0]
    assert first != second, "both processes hashed strings alike: the test proves nothing"


def _run(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, check=True, text=True)
    return done.stdout.strip()
