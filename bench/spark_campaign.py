"""Seeds per second of the simulator: without Spark in one process and in two at once, and with Spark on one core and on
two. Two processes at once are what the machine can do: cores that share a chip slow each other down.

Each run plays the same seeds: some are twice as long as others.
"""

from __future__ import annotations

import subprocess
import sys

from common import table

_SPARK = """
import time
from insync.pipeline.campaign.job import seeds_frame
from insync.pipeline.session import open_session
spark = open_session("local[{cores}]")
seeds_frame(spark, range({cores} * 4)).select("seed").collect()
began = time.perf_counter()
rows = len(seeds_frame(spark, range({seeds})).select("seed").collect())
print(rows / (time.perf_counter() - began))
"""
_ALONE = """
import time
from multiprocessing import Pool
from insync.pipeline.campaign.seeds import RunOptions, make_row
def one(seed):
    make_row(seed, RunOptions())
with Pool({cores}) as pool:
    pool.map(one, range({cores} * 4), chunksize=1)
    began = time.perf_counter()
    pool.map(one, range({seeds}), chunksize=8)
    print({seeds} / (time.perf_counter() - began))
"""


def measured(seeds: int) -> dict[str, float]:
    """What starts and warms up is not counted."""
    seeds_per_s: dict[str, float] = {}
    lines = []
    for cores in (1, 2):
        plain = _run(_ALONE.format(cores=cores, seeds=seeds))
        spark = _run(_SPARK.format(cores=cores, seeds=seeds))
        seeds_per_s |= {f"{cores} without Spark": plain, f"local[{cores}]": spark}
        one = seeds_per_s["1 without Spark"]
        lines.append((f"{cores}, without Spark", plain, plain / one / cores, ""))
        lines.append((f"{cores}, Spark", spark, spark / one / cores, f"{spark / plain:.2f} x"))
    table("campaign, by cores", ("", "seeds/s", "of cores x one core", "of the same without Spark"), lines)
    return seeds_per_s


def _run(code: str) -> float:
    output = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(output.split()[-1])
