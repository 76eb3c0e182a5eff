"""Archives topics into a lake of Parquet files, every record exactly once.

    summary = archive.run(spark, ArchiveOptions(bootstrap="localhost:9092", lake="/data/lake", topics=("orders",)))

Works in rounds: the driver asks the brokers where the logs end and splits what the ledger does not have yet into
ranges; with `follow`, only once there is enough for a file (see `rolling`). The executors write one or more files for
each range. The files count once the driver has committed them to the ledger, one entry per round. A process that dies
before that leaves orphans, which are never read and which the next start deletes. A range that failed is tried again
from where its partition's ledger ends; the ranges after it in the same partition are discarded, because the ledger has
no gaps.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Event

from pyspark.sql import SparkSession

from insync.client.model import TopicPartition
from insync.lake.directory import Lake
from insync.lake.ledger import RANGES, Range
from insync.lake.location import open_store
from insync.lake.tables.ledger import TableLake
from insync.lake.writer import CODECS
from insync.pipeline.archive.plan import Plan, find_topics, make_plan, open_view
from insync.pipeline.archive.rolling import RETENTION_BYTES, RETENTION_MS, Rolling, RollLimits, TopicConfigs
from insync.pipeline.archive.task import ArchiveResult, ArchiveTask, archive_range
from insync.pipeline.executors import run_tasks
from insync.pipeline.rounds import PAUSE_S, ClusterOptions, FailedRounds, JobSummary, no_progress
from insync.pipeline.session import run_command
from insync.pipeline.spark_errors import SparkJobError
from insync.spark.cluster_view import ClusterView
from insync.spark.source_options import READ_COMMITTED, READ_UNCOMMITTED

PARQUET, DELTA, ICEBERG = FORMATS = ("parquet", "delta", "iceberg")
CONFIGS_TTL_S = 60.0
"""How long the retention settings of topics are remembered."""
FILES_PER_CORE = 4
"""Files that a core writes in a round, at most: a kill discards a round."""


class ArchiveError(Exception):
    """The archive cannot start or go on. What the ledger has stays archived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions(ClusterOptions):
    lake: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    """A regular expression, instead of `topics`."""
    follow: bool = False
    """Keep archiving new records; otherwise end where the logs end at the start."""
    interval_s: float = 10.0
    """Pause when nothing is to be archived."""
    roll_bytes: int = 64 << 20
    """About the size of a file; with `follow`, new records are archived once they make one."""
    roll_interval_s: float = 600.0
    """With `follow`, how long new records wait for that at most."""
    allow_loss: bool = False
    isolation: str = READ_COMMITTED
    codec: str = "lz4"
    rows_per_file: int = 1_000_000
    table_format: str = PARQUET
    """PARQUET for files with a ledger, DELTA or ICEBERG for a table per topic."""
    catalog: str = ""
    """URI of the Iceberg catalog; by default a SQLite file in the lake."""
    namespace: str = "insync"
    """Of the Iceberg tables."""


@dataclass(slots=True)
class Progress:
    """After a round."""

    rows: int
    """Archived since the start."""
    offsets: int
    """Archived in this round."""
    backlog: int
    """Offsets still to archive."""


@dataclass(slots=True, kw_only=True)
class ArchiveSummary(JobSummary):
    """`finished`: true once the target offsets are archived; with `follow`, once the run was stopped cleanly."""

    lake: str
    committed: list[Range] = field(default_factory=list)
    removed_orphans: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(archived.rows for archived in self.committed)

    @property
    def lost(self) -> list[Range]:
        return [archived for archived in self.committed if archived.lost]


OnProgress = Callable[[Progress], None]
"""Called after every round."""


def run(
    spark: SparkSession, options: ArchiveOptions, *, on_progress: OnProgress = no_progress, stop: Event | None = None
) -> ArchiveSummary:
    """Runs until everything is archived, or with `follow` until `stop` is set. A round that has begun is finished."""
    check_options(options)
    started = time.perf_counter()
    view = _open_view(options)
    try:
        _has_topics(view, options)  # before a lake is created
        with open_lake(options) as lake:
            archiver = Archiver(spark, options, lake, view, on_progress)
            archiver.summary.removed_orphans = lake.removed_orphans
            archiver.run(stop or Event())
    finally:
        view.close()
    archiver.summary.seconds = time.perf_counter() - started
    return archiver.summary


def open_lake(options: ArchiveOptions) -> Lake | TableLake:
    settings = {"isolation": options.isolation}
    if options.table_format == PARQUET:
        return Lake.open(options.lake, settings)
    root = open_store(options.lake)
    try:
        if options.table_format == DELTA:
            from insync.lake.tables.delta import open_delta_lake

            return TableLake(open_delta_lake(root, settings))
        from insync.lake.tables.iceberg import open_iceberg_lake

        return TableLake(open_iceberg_lake(root, options.catalog, options.namespace, settings))
    except ModuleNotFoundError as error:
        extra = f"pip install 'insync[{options.table_format}]'"
        raise ArchiveError(f"--format {options.table_format} needs {error.name}: {extra}") from None


def check_options(options: ArchiveOptions) -> None:
    if options.topics and options.pattern:
        raise ArchiveError(f"name topics or a --pattern, not both: got '{options.topics[0]}' and '{options.pattern}'")
    if not options.topics and not options.pattern:
        raise ArchiveError("name topics, or a regular expression for their names with --pattern")
    try:
        re.compile(options.pattern)
    except re.error as error:
        raise ArchiveError(f"--pattern {options.pattern} is not a regular expression: {error}") from None
    if options.codec not in CODECS:
        raise ArchiveError(f"unknown codec '{options.codec}'; known are {', '.join(CODECS)}")
    if options.isolation not in (READ_COMMITTED, READ_UNCOMMITTED):
        raise ArchiveError(f"isolation is '{options.isolation}': use {READ_COMMITTED} or {READ_UNCOMMITTED}")
    if options.table_format not in FORMATS:
        raise ArchiveError(f"unknown format '{options.table_format}'; known are {', '.join(FORMATS)}")
    if options.catalog and options.table_format != ICEBERG:
        raise ArchiveError(f"--catalog is for --format {ICEBERG}; the format is {options.table_format}")
    if options.rows_per_file < 1:
        raise ArchiveError(f"rows per file is {options.rows_per_file}: at least 1")
    if options.roll_bytes < 1:
        raise ArchiveError(f"roll bytes is {options.roll_bytes}: at least 1")
    if options.roll_interval_s < 0:
        raise ArchiveError(f"roll interval is {options.roll_interval_s:g}: at least 0 seconds")


def check_topics(options: ArchiveOptions) -> bool:
    """Whether the topics exist, asked before Spark starts. With `follow`, false if none matches the pattern yet."""
    view = _open_view(options)
    try:
        return _has_topics(view, options)
    finally:
        view.close()


def _has_topics(view: ClusterView, options: ArchiveOptions) -> bool:
    topics = find_topics(view, options.topics)
    if not topics and not options.follow:
        raise ArchiveError(f"no topic matches --pattern {options.pattern}; `insync topic list` shows the topics")
    return bool(topics)


def _open_view(options: ArchiveOptions) -> ClusterView:
    return open_view(options, options.topics, options.pattern, isolation=options.isolation)


class Archiver:
    def __init__(
        self,
        spark: SparkSession,
        options: ArchiveOptions,
        lake: Lake | TableLake,
        view: ClusterView,
        on_progress: OnProgress,
    ) -> None:
        self._spark = spark
        self._options = options
        self._lake = lake
        self._view = view
        self._on_progress = on_progress
        self._rounds = 0
        self._failed = FailedRounds()
        limits = RollLimits(options.roll_bytes, options.roll_interval_s, options.rows_per_file)
        self._rolling = Rolling(limits, lake.ledger)
        self._configs: TopicConfigs = {}
        self._configs_until_s = -math.inf
        self._cores = max(1, spark.sparkContext.defaultParallelism)
        self.summary = ArchiveSummary(lake=str(open_store(options.lake)))

    def run(self, stop: Event) -> None:
        target: dict[TopicPartition, int] | None = None
        while not stop.is_set():
            plan = self._plan()
            if target is None and not self._options.follow:
                target = dict(plan.ends)
            if target is not None:
                plan.ends = {key: max(plan.starts[key].start, target.get(key, 0)) for key in plan.ends}
            else:
                plan.limit_to(self._rolling.find_due(plan, self._describe_retention(plan)))
            if plan.backlog:
                self._run_round(plan)
            elif target is not None:
                self.summary.finished = True
                return
            else:
                stop.wait(self._options.interval_s)
        self.summary.finished = self._options.follow

    # --- a round -----------------------------------------------------------------------------------------------------

    def _plan(self) -> Plan:
        plan = make_plan(self._view, self._lake.ledger, self._options.topics, allow_loss=self._options.allow_loss)
        self.summary.notes += [note for note in plan.notes if note not in self.summary.notes]
        if plan.lost:
            self._commit(plan.lost)
        return plan

    def _describe_retention(self, plan: Plan) -> TopicConfigs:
        """Kept for a while: it seldom changes."""
        now = time.monotonic()
        topics = {topic for topic, _ in plan.starts}
        if now >= self._configs_until_s or not topics <= self._configs.keys():
            known = self._view.describe_configs(sorted(topics), (RETENTION_MS, RETENTION_BYTES))
            self._configs = {topic: known.get(topic, {}) for topic in topics}  # unreadable: no right to describe them
            self._configs_until_s = now + CONFIGS_TTL_S
        return self._configs

    def _run_round(self, plan: Plan) -> None:
        rows_per_file = self._options.rows_per_file
        ranges = plan.split(
            max_offsets=rows_per_file * self._cores * FILES_PER_CORE, tasks=self._cores, rows_per_file=rows_per_file
        )
        done, error = self._archive(ranges, plan.epochs)
        if done:
            self._commit(done)
        archived = sum(part.end - part.start for part in done)
        self._on_progress(Progress(self.summary.rows, archived, plan.backlog - archived))
        if self._failed.add(error, progressed=archived > 0):
            raise ArchiveError(f"{error}. What was archived before is in the ledger")
        if error and not archived:
            time.sleep(PAUSE_S)

    def _archive(self, ranges: Sequence[Range], epochs: Mapping[TopicPartition, int]) -> tuple[list[Range], str]:
        """The ranges that can be committed, and the first error."""
        self._rounds += 1
        tasks = [self._make_task(planned, epochs[planned.key]) for planned in ranges]
        try:
            results = run_tasks(self._spark, tasks, archive_range)
        except SparkJobError as error:
            return [], str(error)
        return select_committable(ranges, results)

    def _make_task(self, planned: Range, leader_epoch: int) -> ArchiveTask:
        options = self._options
        return ArchiveTask(
            bootstrap=options.bootstrap,
            timeout_s=options.timeout_s,
            client=options.client,
            range=planned,
            leader_epoch=leader_epoch,
            lake=self._lake.data_store(planned.topic),
            round=self._rounds,
            isolation=options.isolation,
            codec=options.codec,
            roll_bytes=options.roll_bytes,
        )

    def _commit(self, ranges: Sequence[Range]) -> None:
        self._lake.ledger.commit(RANGES, self._lake.writer, ranges=ranges)
        self.summary.committed += ranges


def select_committable(ranges: Sequence[Range], results: Sequence[ArchiveResult]) -> tuple[list[Range], str]:
    """Each partition's ranges before the first that failed, because the ledger has no gaps; and the first error."""
    done: list[Range] = []
    errors: dict[TopicPartition, str] = {}
    for planned, result in sorted(zip(ranges, results, strict=True), key=lambda pair: (pair[0].key, pair[0].start)):
        if result.error:
            errors.setdefault(planned.key, result.error)
        elif planned.key not in errors:
            rows = sum(file.rows for file in result.files)
            done.append(replace(planned, files=result.files, rows=rows, epoch=result.epoch, seen=result.seen))
    return done, next(iter(errors.values()), "")


def main(argv: Sequence[str] | None = None) -> None:
    run_command("archive", argv)


if __name__ == "__main__":
    main()
