"""Seeds per second of the simulator: in one process without Spark, and with Spark on one core and on two."""

from __future__ import annotations

import subprocess
import sys

from common import table

_SPARK = """
import time
from insync.pipeline import campaign
from insync.pipeline.session import session
spark = session("local[{cores}]")
campaign.seeds(spark, range({cores} * 4)).select("seed").collect()
began = time.perf_counter()
rows = len(campaign.seeds(spark, range({seeds})).select("seed").collect())
print(rows / (time.perf_counter() - began))
"""
_ALONE = """
import time
from insync.pipeline.campaign_seeds import Work, play
for seed in range(4):
    play(seed, Work())
began = time.perf_counter()
for seed in range({seeds}):
    play(seed, Work())
print({seeds} / (time.perf_counter() - began))
"""


def measured(seeds: int) -> dict[str, float]:
    """What starts and warms up is not counted."""
    found = {"one process, without Spark": _run(_ALONE.format(seeds=seeds))}
    for cores in (1, 2):
        found[f"local[{cores}]"] = _run(_SPARK.format(cores=cores, seeds=seeds * cores))
    alone = next(iter(found.values()))
    lines = [(name, speed, speed / alone) for name, speed in found.items()]
    table("campaign", ("", "seeds/s", "of one process"), lines)
    return found


def _run(code: str) -> float:
    output = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(output.split()[-1])
