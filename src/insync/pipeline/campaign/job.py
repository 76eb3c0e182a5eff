"""A campaign: runs simulator seeds on all cores of Spark.

    frame = seeds_frame(spark, range(0, 1000))                               # lazily, a row per seed
    summary = run(spark, CampaignOptions(range(0, 1_000_000), "campaign"))   # into files; finished seeds are skipped

A row has the seed, property and detail of the first violation (null if there is none), steps, simulated seconds and CPU
seconds, the trace hash, how often each probe was reached, and the run's counters. `select_violations` and
`sum_coverage` are made from them. A violation can be replayed from its seed alone, on any machine with the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from insync.pipeline.campaign.seeds import CHUNK_DDL, DDL, RunOptions, chunk_writer, row_maker
from insync.pipeline.campaign.store import Chunks, Store, absolute_path, choose_chunk_size, find_missing
from insync.pipeline.report.progress import OnProgress, ignore_progress, run_with_progress
from insync.pipeline.session import run_command
from insync.sim.checks.probes import PROBES

MAX_FAILURES = 1_000
"""Violations in a summary; the files have all."""


@dataclass(frozen=True)
class CampaignOptions:
    seeds: range
    out: str
    """A directory, or the URI of one, that driver and executors share."""
    run: RunOptions = field(default_factory=RunOptions)
    chunk: int = 0
    """Seeds per task and file; 0: chosen by the number of seeds and cores."""


@dataclass(frozen=True)
class Failure:
    seed: int
    property: str
    detail: str
    replay: str
    """The command that reproduces it."""


@dataclass(frozen=True)
class CampaignSummary:
    seeds: int
    ran: int
    """Of them in this run; the others were run before."""
    violations: int
    steps: int
    cpu_seconds: float
    probes: dict[str, int]
    """How often each was reached, for all probes."""
    seeds_per_probe: dict[str, int]
    failures: tuple[Failure, ...]
    path: str

    @cached_property
    def never(self) -> tuple[str, ...]:
        return tuple(name for name, count in self.probes.items() if not count)


def seeds_frame(spark: SparkSession, seeds: range, run: RunOptions | None = None, *, chunk: int = 0) -> DataFrame:
    """A row per seed. Seeds run when an action needs them, and again for the next action."""
    run = run or RunOptions()
    chunks = _split(spark, [seeds], chunk)
    return _number_chunks(spark, chunks).mapInArrow(row_maker(chunks, run, run.build), DDL)


def run(spark: SparkSession, options: CampaignOptions, on_progress: OnProgress = ignore_progress) -> CampaignSummary:
    """Run the seeds that are not in the files yet, and summarise all."""
    build = options.run.build
    out = absolute_path(options.out)
    store = Store(out, build)
    store.create()
    missing = find_missing(options.seeds, store.parts())
    chunks = _split(spark, missing, options.chunk)
    if len(chunks):
        frame = _number_chunks(spark, chunks).mapInArrow(chunk_writer(chunks, options.run, build, out), CHUNK_DDL)
        run_with_progress(spark, "chunks of seeds", frame.collect, on_progress)
    return summarise(read_stored(spark, options), options, store.path, ran=sum(map(len, missing)))


def read_stored(spark: SparkSession, options: CampaignOptions) -> DataFrame:
    """The stored rows of these seeds. A seed that was run twice, in chunks of different sizes, appears once."""
    parts = Store(options.out, options.run.build).parts()
    chosen = options.seeds
    scheme = options.out.partition("://")[0] + "://" if "://" in options.out else "file://"
    paths = [scheme + path for seeds, path in parts.items() if seeds.start < chosen.stop and chosen.start < seeds.stop]
    if not paths:
        return spark.createDataFrame([], DDL)
    frame = spark.read.schema(DDL).parquet(*paths)
    inside = frame.where((f.col("seed") >= chosen.start) & (f.col("seed") < chosen.stop))
    overlap = sum(map(len, parts)) > sum(map(len, _merge(parts)))
    return inside.dropDuplicates(["seed"]) if overlap else inside


def select_violations(frame: DataFrame) -> DataFrame:
    return frame.where(f.col("property").isNotNull()).select("seed", "property", "detail", "time_ms", "steps")


def sum_coverage(frame: DataFrame) -> DataFrame:
    """Each probe that was reached: hits in total, and the number of seeds."""
    hits = frame.select(f.explode("probes").alias("probe", "hits"))
    return hits.groupBy("probe").agg(f.sum("hits").alias("hits"), f.count(f.lit(1)).alias("seeds"))


def summarise(frame: DataFrame, options: CampaignOptions, path: str, *, ran: int) -> CampaignSummary:
    totals = frame.agg(
        f.count(f.lit(1)), f.count("property"), f.coalesce(f.sum("steps"), f.lit(0)), f.sum("cpu_seconds")
    ).first()
    reached = {row["probe"]: (row["hits"], row["seeds"]) for row in sum_coverage(frame).collect()}
    first = select_violations(frame).orderBy("seed").limit(MAX_FAILURES).collect()
    return CampaignSummary(
        seeds=totals[0] if totals else 0,
        ran=ran,
        violations=totals[1] if totals else 0,
        steps=totals[2] if totals else 0,
        cpu_seconds=(totals[3] if totals else 0.0) or 0.0,
        probes={name: reached.get(name, (0, 0))[0] for name in PROBES},
        seeds_per_probe={name: reached.get(name, (0, 0))[1] for name in PROBES},
        failures=tuple(_failure(row, options.run) for row in first),
        path=path,
    )


def replay_command(seed: int, run: RunOptions) -> str:
    if run.mutant:
        return f"insync sim shrink {seed} --mutant {run.mutant}"
    return f"insync sim run --seeds {seed} --steps {run.steps}" if run.steps else f"insync sim replay {seed}"


def main(argv: Sequence[str] | None = None) -> None:
    run_command("campaign", argv)


# --- helpers ---------------------------------------------------------------------------------------------------------


def _failure(row: Any, run: RunOptions) -> Failure:
    return Failure(row["seed"], row["property"], row["detail"], replay_command(row["seed"], run))


def _split(spark: SparkSession, ranges: Sequence[range], size: int) -> Chunks:
    cores = spark.sparkContext.defaultParallelism
    return Chunks(tuple(ranges), size or choose_chunk_size(sum(map(len, ranges)), cores))


def _number_chunks(spark: SparkSession, chunks: Chunks) -> DataFrame:
    """One task per chunk."""
    return spark.range(0, len(chunks), 1, max(1, len(chunks)))


def _merge(parts: dict[range, str]) -> list[range]:
    end = max((seeds.stop for seeds in parts), default=0)
    return find_missing(range(end), find_missing(range(end), parts))


if __name__ == "__main__":
    main()
