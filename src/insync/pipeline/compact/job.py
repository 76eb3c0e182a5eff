"""Merges a lake's small files into large ones, and removes old ones.

    summary = compact.run(spark, CompactOptions(lake="/data/lake", keep_s=30 * 86_400))

The driver chooses neighbouring ranges whose files are small; executors merge the files of each run of ranges. One
ledger entry then replaces the ranges of a round by merged ones with the same offsets and rows (see `insync.lake.ledger`
for what happens if an archiver commits at the same time, and `insync.lake.staging` for what readers see). A process
that dies before the commit leaves orphans, which the next compaction deletes; one that dies after it leaves files that
the next compaction moves to their place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from threading import Event

from pyspark.sql import SparkSession

from insync.lake.directory import Lake
from insync.lake.ledger import REPLACE, Range
from insync.lake.staging import list_finished, publish
from insync.lake.writer import CODECS
from insync.pipeline.compact.plan import merge_ranges, plan_expiry, plan_merges
from insync.pipeline.compact.task import CompactResult, CompactTask, merge_files
from insync.pipeline.executors import run_tasks
from insync.pipeline.rounds import JobSummary, no_progress
from insync.pipeline.session import run_command
from insync.pipeline.spark_errors import SparkJobError

TASKS_PER_CORE = 4
"""In a round, at most: a kill discards a round."""


class CompactError(Exception):
    """The compaction cannot start or go on. What it has committed stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactOptions:
    lake: str
    topics: tuple[str, ...] = ()
    """If empty, all."""
    target_bytes: int = 64 << 20
    min_ranges: int = 4
    """Fewer ranges at a partition's end wait for more."""
    keep_s: float | None = None
    """Remove ranges whose records are all older."""
    keep_bytes: int | None = None
    """Remove a topic's oldest ranges until it is no larger."""
    grace_s: float = 0.0
    """How long replaced files stay for readers that loaded the ledger before."""
    history_s: float = 7 * 86_400
    """How long earlier states of the ledger can still be read, which replays do that began then."""
    checkpoint_entries: int = 100
    """After so many entries the ledger gets a checkpoint."""
    codec: str = "lz4"


@dataclass(frozen=True, slots=True)
class Progress:
    done: int
    total: int
    """Merges."""


@dataclass(slots=True, kw_only=True)
class CompactSummary(JobSummary):
    """`finished`: true once there is nothing left to merge."""

    lake: str
    merged_files: int = 0
    """Files that were replaced by fewer ones."""
    new_files: int = 0
    rows: int = 0
    bytes: int = 0
    """Of the new files."""
    expired: list[Range] = field(default_factory=list)
    expired_bytes: int = 0
    deleted: list[str] = field(default_factory=list)
    """Files that were replaced, now or before, and whose grace period is over."""
    removed_entries: int = 0
    """Of the ledger, because a checkpoint covers them."""
    problems: list[str] = field(default_factory=list)
    """Ranges that could not be merged."""


OnProgress = Callable[[Progress], None]
"""Called after every round."""


def run(
    spark: SparkSession, options: CompactOptions, *, on_progress: OnProgress = no_progress, stop: Event | None = None
) -> CompactSummary:
    """Runs until nothing is left to merge, or `stop` is set. A round that has begun is finished."""
    check_options(options)
    started = time.perf_counter()
    with Lake.open_for_compaction(options.lake) as lake:
        compactor = Compactor(spark, options, lake, on_progress)
        compactor.run(stop or Event())
    compactor.summary.seconds = time.perf_counter() - started
    return compactor.summary


def check_options(options: CompactOptions) -> None:
    if options.codec not in CODECS:
        raise CompactError(f"unknown codec '{options.codec}'; known are {', '.join(CODECS)}")
    if options.target_bytes < 1:
        raise CompactError(f"target bytes is {options.target_bytes}: at least 1")


class Compactor:
    def __init__(self, spark: SparkSession, options: CompactOptions, lake: Lake, on_progress: OnProgress) -> None:
        self._spark = spark
        self._options = options
        self._lake = lake
        self._on_progress = on_progress
        self._rounds = 0
        self._tasks = TASKS_PER_CORE * max(1, spark.sparkContext.defaultParallelism)
        self.summary = CompactSummary(lake=str(lake.store))

    def run(self, stop: Event) -> None:
        self._publish()
        self._expire()
        options = self._options
        merges = plan_merges(
            self._lake.ledger,
            target_bytes=options.target_bytes,
            min_ranges=options.min_ranges,
            topics=options.topics,
        )
        done = 0
        while done < len(merges) and not stop.is_set():
            self._merge(merges[done : done + self._tasks])
            done = min(len(merges), done + self._tasks)
            self._on_progress(Progress(done, len(merges)))
        self._publish()
        self._shorten_ledger()
        self.summary.finished = done == len(merges) and not self.summary.problems

    def _publish(self) -> None:
        self.summary.deleted += publish(self._lake.ledger, self._options.grace_s)

    def _shorten_ledger(self) -> None:
        ledger = self._lake.ledger
        if ledger.entries_since_checkpoint >= self._options.checkpoint_entries:
            ledger.commit_checkpoint(self._lake.writer, list_finished(ledger))
        self.summary.removed_entries = ledger.remove_entries(self._options.history_s)

    def _expire(self) -> None:
        options, ledger = self._options, self._lake.ledger
        older_than_ms = None if options.keep_s is None else int((time.time() - options.keep_s) * 1000)
        expired = plan_expiry(ledger, older_than_ms=older_than_ms, max_bytes=options.keep_bytes, topics=options.topics)
        if not expired:
            return
        before = sum(file.bytes for file in ledger.files().values())
        ledger.commit(REPLACE, self._lake.writer, ranges=expired)
        self.summary.expired = expired
        self.summary.expired_bytes = before - sum(file.bytes for file in ledger.files().values())

    def _merge(self, merges: Sequence[tuple[Range, ...]]) -> None:
        self._rounds += 1
        options = self._options
        tasks = [
            CompactTask(
                lake=self._lake.store,
                ranges=ranges,
                round=self._rounds,
                codec=options.codec,
                target_bytes=options.target_bytes,
            )
            for ranges in merges
        ]
        try:
            results = run_tasks(self._spark, tasks, merge_files)
        except SparkJobError as error:
            raise CompactError(f"{error}. What was merged before is in the ledger") from None
        merged = []
        for ranges, result in zip(merges, results, strict=True):
            if problem := _find_problem(ranges, result):
                self.summary.problems.append(problem)
                continue
            rows = sum(file.rows for file in result.files)
            merged.append(replace(merge_ranges(ranges), rows=rows, files=result.files))
            self.summary.merged_files += sum(len(archived.files) for archived in ranges)
        if merged:
            self._lake.ledger.commit(REPLACE, self._lake.writer, ranges=merged)
        self.summary.new_files += sum(len(archived.files) for archived in merged)
        self.summary.rows += sum(archived.rows for archived in merged)
        self.summary.bytes += sum(archived.bytes for archived in merged)


def _find_problem(ranges: Sequence[Range], result: CompactResult) -> str:
    if result.error:
        return result.error
    rows, expected = (sum(part.rows for part in parts) for parts in (result.files, ranges))
    first, last = ranges[0], ranges[-1]
    where = f"{first.topic}-{first.partition} offsets {first.start} to {last.end}"
    return "" if rows == expected else f"{where}: {rows} rows were merged instead of {expected}"


def main(argv: Sequence[str] | None = None) -> None:
    run_command("compact", argv)


if __name__ == "__main__":
    main()
