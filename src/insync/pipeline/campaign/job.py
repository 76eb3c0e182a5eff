"""A campaign: the simulator's seeds on every core that Spark has.

    frame = seeds(spark, range(0, 1000))                       # lazily, a row per seed
    summary = run(spark, Options(range(0, 1_000_000), "campaign"))   # into files, and what is there is not run again

Rows: seed, property and detail of the first violation (null if there is none), steps, simulated and processor seconds,
the hash of the trace, how often each probe was reached, and the counters of the run. `violations` and `coverage` are
made from them. A violation is replayed from its seed alone, on any machine with the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from insync.pipeline.campaign import seeds as campaign_seeds
from insync.pipeline.campaign.seeds import Work
from insync.pipeline.campaign.store import Chunks, Store, chunk_size, missing, whole
from insync.pipeline.report import progress as report_watch
from insync.pipeline.session import submitted
from insync.sim.checks.probes import PROBES

MOST_FAILURES = 1_000
"""Violations that a summary names; the files have all."""


@dataclass(frozen=True)
class Options:
    seeds: range
    out: str
    """A directory, or a URI of one that driver and executors both see."""
    work: Work = field(default_factory=Work)
    chunk: int = 0
    """Seeds of one task and one file; 0: as is best for this many seeds and cores."""


@dataclass(frozen=True)
class Failure:
    seed: int
    property: str
    detail: str
    replay: str
    """What to type to see it."""


@dataclass(frozen=True)
class Summary:
    seeds: int
    ran: int
    """Of them in this run; the others were there."""
    violations: int
    steps: int
    cpu_seconds: float
    probes: dict[str, int]
    """How often each was reached; every probe is in it."""
    seeds_per_probe: dict[str, int]
    failures: tuple[Failure, ...]
    path: str

    @cached_property
    def never(self) -> tuple[str, ...]:
        return tuple(name for name, count in self.probes.items() if not count)


def seeds(spark: SparkSession, wanted: range, work: Work | None = None, *, chunk: int = 0) -> DataFrame:
    """A row per seed, run when an action asks for it, and again by the next one."""
    work = work or Work()
    chunks = _chunks(spark, [wanted], chunk)
    return _numbers(spark, chunks).mapInArrow(campaign_seeds.rows(chunks, work, work.build), campaign_seeds.DDL)


def run(spark: SparkSession, options: Options, tell: report_watch.Tell = report_watch.silent) -> Summary:
    """Run what is not there yet, and sum up all of it."""
    build = options.work.build
    out = whole(options.out)
    store = Store(out, build)
    store.create()
    left = missing(options.seeds, store.parts())
    chunks = _chunks(spark, left, options.chunk)
    if len(chunks):
        job = campaign_seeds.files(chunks, options.work, build, out)
        frame = _numbers(spark, chunks).mapInArrow(job, campaign_seeds.DONE)
        report_watch.watched(spark, "chunks of seeds", frame.collect, tell)
    return summary(stored(spark, options), options, store.path, ran=sum(map(len, left)))


def stored(spark: SparkSession, options: Options) -> DataFrame:
    """The rows of these seeds that are there. One that was run twice, in chunks of two sizes, is there once."""
    parts = Store(options.out, options.work.build).parts()
    wanted = options.seeds
    scheme = options.out.partition("://")[0] + "://" if "://" in options.out else "file://"
    paths = [scheme + path for seeds, path in parts.items() if seeds.start < wanted.stop and wanted.start < seeds.stop]
    if not paths:
        return spark.createDataFrame([], campaign_seeds.DDL)
    frame = spark.read.schema(campaign_seeds.DDL).parquet(*paths)
    inside = frame.where((f.col("seed") >= wanted.start) & (f.col("seed") < wanted.stop))
    overlap = sum(map(len, parts)) > sum(map(len, _merged(parts)))
    return inside.dropDuplicates(["seed"]) if overlap else inside


def violations(frame: DataFrame) -> DataFrame:
    return frame.where(f.col("property").isNotNull()).select("seed", "property", "detail", "time_ms", "steps")


def coverage(frame: DataFrame) -> DataFrame:
    """Of each probe that was reached: hits in all, and in how many seeds."""
    hits = frame.select(f.explode("probes").alias("probe", "hits"))
    return hits.groupBy("probe").agg(f.sum("hits").alias("hits"), f.count(f.lit(1)).alias("seeds"))


def summary(frame: DataFrame, options: Options, path: str, *, ran: int) -> Summary:
    totals = frame.agg(
        f.count(f.lit(1)), f.count("property"), f.coalesce(f.sum("steps"), f.lit(0)), f.sum("cpu_seconds")
    ).first()
    reached = {row["probe"]: (row["hits"], row["seeds"]) for row in coverage(frame).collect()}
    worst = violations(frame).orderBy("seed").limit(MOST_FAILURES).collect()
    return Summary(
        seeds=totals[0] if totals else 0,
        ran=ran,
        violations=totals[1] if totals else 0,
        steps=totals[2] if totals else 0,
        cpu_seconds=(totals[3] if totals else 0.0) or 0.0,
        probes={name: reached.get(name, (0, 0))[0] for name in PROBES},
        seeds_per_probe={name: reached.get(name, (0, 0))[1] for name in PROBES},
        failures=tuple(_failure(row, options.work) for row in worst),
        path=path,
    )


def replay_command(seed: int, work: Work) -> str:
    if work.mutant:
        return f"insync sim shrink {seed} --mutant {work.mutant}"
    return f"insync sim run --seeds {seed} --steps {work.steps}" if work.steps else f"insync sim replay {seed}"


def main(argv: Sequence[str] | None = None) -> None:
    submitted("campaign", argv)


# --- helpers ---------------------------------------------------------------------------------------------------------


def _failure(row: Any, work: Work) -> Failure:
    return Failure(row["seed"], row["property"], row["detail"], replay_command(row["seed"], work))


def _chunks(spark: SparkSession, ranges: Sequence[range], size: int) -> Chunks:
    cores = spark.sparkContext.defaultParallelism
    return Chunks(tuple(ranges), size or chunk_size(sum(map(len, ranges)), cores))


def _numbers(spark: SparkSession, chunks: Chunks) -> DataFrame:
    """One task per chunk."""
    return spark.range(0, len(chunks), 1, max(1, len(chunks)))


def _merged(parts: dict[range, str]) -> list[range]:
    ends = max((each.stop for each in parts), default=0)
    holes = missing(range(ends), parts)
    return missing(range(ends), holes)


if __name__ == "__main__":
    main()
