"""Topics to a lake of Parquet files, every record exactly once.

    summary = archive.run(spark, ArchiveOptions(bootstrap="localhost:9092", lake="/data/lake", topics=("orders",)))

In rounds: the driver asks the brokers how far the log is, cuts what the ledger does not have yet into ranges, and the
executors write a file or more for each. What they have written begins to count when the driver has put it into the
ledger, one entry for a round. Whatever dies before that leaves orphans, which nobody reads and the next start sweeps.
A range that failed is tried again from where its partition's ledger ends; those after it in the same partition are
thrown away, because the ledger knows no gaps.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from insync.client.model import TopicPartition
from insync.client.settings import DEFAULT_SETTINGS, ClientSettings
from insync.pipeline import executors
from insync.pipeline.archive import plan as archive_plan
from insync.pipeline.archive.task import Answer, Task, execute, parsed
from insync.pipeline.executors import SparkFailed
from insync.pipeline.lake import Lake, LakeError, local_path
from insync.pipeline.lake_writer import CODECS
from insync.pipeline.ledger import RANGES, Range
from insync.pipeline.session import submitted
from insync.spark.cluster_view import ClusterView

ROUNDS_PER_CORE = 4
"""Files that a core writes in a round, at most: a round is what a kill throws away."""
TRIES = 4
"""Rounds in a row without any progress before the archive gives up."""
PAUSE_S = 1.0


class ArchiveError(Exception):
    """The text is meant for people. What the ledger has, it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions:
    bootstrap: str
    lake: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    """Instead of `topics`: a regular expression."""
    follow: bool = False
    """Go on for ever; else up to where the log is now."""
    interval_s: float = 10.0
    """Between rounds that found everything archived."""
    allow_loss: bool = False
    isolation: str = "read_committed"
    codec: str = "lz4"
    rows_per_file: int = 1_000_000
    timeout_s: float = 60.0
    client: ClientSettings = DEFAULT_SETTINGS
    """How to get into the cluster, and the like."""


@dataclass(slots=True)
class Progress:
    """After each round."""

    rows: int
    offsets: int
    backlog: int
    """Offsets that are still to be archived, as far as is known."""


@dataclass(slots=True)
class Summary:
    lake: str
    committed: list[Range] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    swept: list[str] = field(default_factory=list)
    seconds: float = 0.0
    finished: bool = False
    """Everything that was to be archived is: of who follows, all up to where he was stopped."""

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.committed)

    @property
    def lost(self) -> list[Range]:
        return [each for each in self.committed if each.lost]


def run(
    spark: SparkSession,
    options: ArchiveOptions,
    *,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    stop: threading.Event | None = None,
) -> Summary:
    """Until everything is archived, or, if it follows, until `stop` is set; a round that has begun is finished."""
    check(options)
    started = time.perf_counter()
    view = _view(options)
    try:
        _fitting(view, options)  # told before a lake is made
        with Lake.open(options.lake, {"isolation": options.isolation}) as lake:
            archiver = Archiver(spark, options, lake, view, on_progress)
            archiver.summary.swept = lake.swept
            archiver.work(stop or threading.Event())
    finally:
        view.close()
    archiver.summary.seconds = time.perf_counter() - started
    return archiver.summary


def check(options: ArchiveOptions) -> None:
    if options.topics and options.pattern:
        both = f"'{options.topics[0]}' and --pattern {options.pattern}"
        raise ArchiveError(f"name topics, or a pattern for their names, not both: {both} were given")
    if not options.topics and not options.pattern:
        raise ArchiveError("name topics, or a pattern for their names with --pattern")
    try:
        re.compile(options.pattern)
    except re.error as error:
        raise ArchiveError(f"--pattern {options.pattern} is no regular expression: {error}") from None
    if options.codec not in CODECS:
        raise ArchiveError(f"no codec is called '{options.codec}'. Known: {', '.join(CODECS)}")
    if options.isolation not in ("read_committed", "read_uncommitted"):
        raise ArchiveError(f"isolation is '{options.isolation}': read_committed or read_uncommitted")
    if options.rows_per_file < 1:
        raise ArchiveError(f"{options.rows_per_file} rows in a file: at least 1")


def check_topics(options: ArchiveOptions) -> bool:
    """Whether brokers answer and know the topics: told without waiting for Spark. False: none fits the pattern yet."""
    view = _view(options)
    try:
        return _fitting(view, options)
    finally:
        view.close()


def _fitting(view: ClusterView, options: ArchiveOptions) -> bool:
    """Who follows may wait for the first topic that fits the pattern."""
    found = archive_plan.known_topics(view, options.topics)
    if not found and not options.follow:
        raise ArchiveError(f"no topic fits --pattern {options.pattern}: `insync topic list` shows those there are")
    return bool(found)


def _view(options: ArchiveOptions) -> ClusterView:
    return archive_plan.view_of(
        options.bootstrap,
        options.topics,
        options.pattern,
        isolation=options.isolation,
        timeout_s=options.timeout_s,
        client=options.client,
    )


class Archiver:
    def __init__(
        self,
        spark: SparkSession,
        options: ArchiveOptions,
        lake: Lake,
        view: ClusterView,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._spark = spark
        self._options = options
        self._lake = lake
        self._view = view
        self._on_progress = on_progress
        self._rounds = 0
        self._cores = max(1, spark.sparkContext.defaultParallelism)
        self.summary = Summary(str(local_path(options.lake)))

    def work(self, stop: threading.Event) -> None:
        target: dict[tuple[str, int], int] | None = None
        failures = 0
        while not stop.is_set():
            plan = self._plan()
            if target is None and not self._options.follow:
                target = dict(plan.ends)
            if target is not None:
                plan.ends = {key: max(plan.starts[key].start, target.get(key, 0)) for key in plan.ends}
            if plan.backlog == 0:
                if target is not None:
                    self.summary.finished = True
                    return
                stop.wait(self._options.interval_s)
                continue
            failures = self._round(plan, failures)
        self.summary.finished = self._options.follow

    # --- a round -----------------------------------------------------------------------------------------------------

    def _plan(self) -> archive_plan.Plan:
        plan = archive_plan.make(
            self._view, self._lake.ledger, self._options.topics, allow_loss=self._options.allow_loss
        )
        self.summary.notes += [note for note in plan.notes if note not in self.summary.notes]
        if plan.lost:
            self._commit(plan.lost)
        return plan

    def _round(self, plan: archive_plan.Plan, failures: int) -> int:
        per_file = self._options.rows_per_file
        most = per_file * self._cores * ROUNDS_PER_CORE
        ranges = plan.ranges(most=most, tasks=self._cores, per_file=per_file)
        done, problem = self._execute(ranges, plan.epochs)
        if done:
            self._commit(done)
        archived = sum(each.end - each.start for each in done)
        self._on_progress(Progress(self.summary.rows, archived, plan.backlog - archived))
        if not problem or archived:
            return 0
        if failures + 1 >= TRIES:
            raise ArchiveError(f"{problem}. The ledger has what was archived before")
        time.sleep(PAUSE_S)
        return failures + 1

    def _execute(self, ranges: Sequence[Range], epochs: Mapping[TopicPartition, int]) -> tuple[list[Range], str]:
        """Those that may be committed, and what went wrong with the first of the others."""
        self._rounds += 1
        tasks = [self._task(each, epochs[each.key]) for each in ranges]
        try:
            found = executors.answers(self._spark, tasks, execute)
        except SparkFailed as error:
            return [], str(error)
        unanswered = Answer(error="no answer")
        return accepted(ranges, [parsed(found[i]) if i in found else unanswered for i in range(len(ranges))])

    def _task(self, each: Range, leader_epoch: int) -> Task:
        options = self._options
        return Task(
            range=each,
            leader_epoch=leader_epoch,
            bootstrap=options.bootstrap,
            lake=str(self._lake.path),
            round=self._rounds,
            isolation=options.isolation,
            codec=options.codec,
            timeout_s=options.timeout_s,
            client=options.client,
        )

    def _commit(self, ranges: Sequence[Range]) -> None:
        self._lake.ledger.commit(RANGES, self._lake.archiver, ranges=ranges)
        self.summary.committed += ranges


def accepted(ranges: Sequence[Range], answers: Sequence[Answer]) -> tuple[list[Range], str]:
    """Of each partition the ranges before the first that failed: the ledger has no gaps."""
    found: list[Range] = []
    broken: dict[tuple[str, int], str] = {}
    for each, answer in sorted(zip(ranges, answers, strict=True), key=lambda pair: (pair[0].key, pair[0].start)):
        if answer.error:
            broken.setdefault(each.key, answer.error)
        elif each.key not in broken:
            rows = sum(file.rows for file in answer.files)
            found.append(replace(each, files=answer.files, rows=rows, epoch=answer.epoch, seen=answer.seen))
    return found, next(iter(broken.values()), "")


def main(argv: Sequence[str] | None = None) -> None:
    submitted("archive", argv)


if __name__ == "__main__":
    main()

__all__ = ["ArchiveError", "ArchiveOptions", "LakeError", "Progress", "Summary", "main", "run"]
