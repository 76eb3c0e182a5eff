"""Writes a lake back to topics, keeping keys, values, headers, timestamps, partitions and the order within each.

    replay.run(spark, ReplayOptions(bootstrap="localhost:9092", lake="/data/lake", topics={"orders": "orders-again"}))

Exactly once: stopped or killed at any point, the same command continues where the target's log says that it was (see
`sender`), even if other producers write to the same partitions. It cannot continue if the target's records were
deleted meanwhile, its log was truncated by an unclean election, or the topic was recreated; these are errors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from threading import Event

from pyspark.sql import SparkSession

from insync.client.client import Client
from insync.client.model import TopicPartition
from insync.client.sync_client import SyncClient
from insync.lake.directory import load_ledger
from insync.lake.journal import EntryRemovedError
from insync.lake.ledger import Ledger
from insync.lake.location import open_store
from insync.lake.reader import Selection, Unit
from insync.lake.store import Store
from insync.pipeline.executors import run_tasks
from insync.pipeline.replay.plan import (
    ReplayError,
    SourcePartition,
    check_names,
    check_selection,
    find_expired,
    plan_sources,
)
from insync.pipeline.replay.state import DIRECTORY, ReplayJob, ReplayState, job_name
from insync.pipeline.replay.target import ReplayTarget, find_topic
from insync.pipeline.replay.task import Position, ReplayTask, replay_units
from insync.pipeline.rounds import PAUSE_S, ClusterOptions, FailedRounds, JobSummary, no_progress
from insync.pipeline.session import run_command
from insync.pipeline.spark_errors import SparkJobError
from insync.wire import compression

ROWS_PER_ROUND = 1_000_000
"""Of one partition. Positions are recorded at the end of a round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions(ClusterOptions):
    lake: str
    topics: Mapping[str, str]
    """From the lake's names to the names of the target topics."""
    selection: Selection = field(default_factory=Selection)
    partitions: tuple[int, ...] = ()
    """If empty, all."""
    generation: int | None = None
    """Of topics that were recreated or truncated; None is the newest."""
    rate: float | None = None
    """Records per second, all partitions together."""
    create: bool = False
    """Create missing target topics, with as many partitions as the lake has."""
    codec: str = "none"
    state: str = ""
    """The journal's directory; by default inside the lake."""
    again: bool = False
    """Replay once more what was replayed before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedPartition:
    topic: str
    partition: int
    target: str
    rows: int
    resumed: int
    """Rows that were written before this run."""
    first: int
    end: int
    """Offsets in the target: its end before the replay, and one past the last record."""


@dataclass(slots=True, kw_only=True)
class ReplaySummary(JobSummary):
    """`finished`: true once everything is written, in this run or before."""

    state: str
    partitions: list[ReplayedPartition] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(replayed.rows - replayed.resumed for replayed in self.partitions)


OnProgress = Callable[[int, int], None]
"""(records written, all records)"""


def run(
    spark: SparkSession, options: ReplayOptions, *, on_progress: OnProgress = no_progress, stop: Event | None = None
) -> ReplaySummary:
    """Runs until everything is written or `stop` is set; the same options then continue later."""
    check_options(options)
    started = time.perf_counter()
    if (finished := find_finished(options)) is not None:
        return finished
    ledger, plan = _load_plan(options)
    with _connect(options) as client:
        request = describe_request(options, client.call(_cluster_id))
        target = ReplayTarget(client, options.topics, plan, create=options.create)
        with ReplayState.open(_state_directory(options, ledger, request)) as state:
            job = state.job or state.record_job(target.make_job(request, ledger, plan))
            _check_same_request(state, job, request)
            _, plan = _load_plan(options, job.ledger_entries)
            replayer = Replayer(spark, options, target, state, job, plan, on_progress)
            replayer.run(stop or Event())
    replayer.summary.seconds = time.perf_counter() - started
    return replayer.summary


def find_finished(options: ReplayOptions) -> ReplaySummary | None:
    """The summary of the same replay if it was finished before. Needs no Spark, and touches no topic."""
    if options.again:
        return None
    ledger, _ = _load_plan(options)
    with _connect(options) as client:
        request = describe_request(options, client.call(_cluster_id))
    directory = _state_directory(options, ledger, request)
    if not directory.list_names(""):
        return None
    with ReplayState.open(directory) as state:
        if state.job is None:
            return None
        _check_same_request(state, state.job, request)
        if not state.done:
            return None
        try:
            _, plan = _load_plan(options, state.job.ledger_entries)
        except EntryRemovedError:
            plan = []  # what the lake had then is no longer known
        note = f"this replay was finished before (see {directory}); nothing was written. --again repeats it"
        partitions = [_report(source, state, state.job, _position(source, state, state.job).rows) for source in plan]
        return ReplaySummary(state=str(directory), partitions=partitions, notes=[note], finished=True)


def check_targets(options: ReplayOptions) -> None:
    """Raise unless the target topics exist or may be created; asked before Spark starts."""
    with _connect(options) as client:
        for name in options.topics.values():
            find_topic(client, name, create=options.create)


def check_options(options: ReplayOptions) -> None:
    if not options.topics:
        raise ReplayError("name the topics to replay")
    if options.codec not in compression.NAMES:
        raise ReplayError(f"unknown codec '{options.codec}'; known are {', '.join(compression.NAMES)}")
    if options.rate is not None and options.rate <= 0:
        raise ReplayError(f"the rate is {options.rate:g} records per second: it must be above 0")
    if len(set(options.topics.values())) < len(options.topics):
        raise ReplayError("two topics cannot be replayed into one: their records would mix")
    check_names(options.topics)
    check_selection(options.selection)


def describe_request(options: ReplayOptions, cluster_id: str) -> dict[str, object]:
    """What identifies a replay: the same request continues it."""
    return {
        "cluster": cluster_id,
        "lake": str(open_store(options.lake)),
        "topics": dict(options.topics),
        "partitions": list(options.partitions),
        "generation": options.generation,
        **asdict(options.selection),
    }


def _connect(options: ReplayOptions) -> SyncClient:
    return SyncClient(
        options.bootstrap, timeout_s=options.timeout_s, client_id="insync-replay", settings=options.client
    )


def _check_same_request(state: ReplayState, job: ReplayJob, request: Mapping[str, object]) -> None:
    if job.asked != request:
        raise ReplayError(f"{state.directory} is the state of another replay: {job.asked}")


def _state_directory(options: ReplayOptions, ledger: Ledger, request: Mapping[str, object]) -> Store:
    """With `again`, a new one."""
    suffix = f"-{time.time_ns()}" if options.again else ""
    if options.state:
        return open_store(options.state.rstrip("/") + suffix)
    return ledger.lake.child(f"{DIRECTORY}/{job_name(request)}{suffix}")


def _load_plan(options: ReplayOptions, entries: int | None = None) -> tuple[Ledger, list[SourcePartition]]:
    """With `entries`: as a replay that began when the ledger had so many."""
    ledger = load_ledger(options.lake)
    plan = plan_sources(
        ledger,
        options.topics,
        options.selection,
        partitions=options.partitions,
        generation=options.generation,
        began=None if entries is None else load_ledger(options.lake, entries),
    )
    return ledger, plan


class Replayer:
    def __init__(
        self,
        spark: SparkSession,
        options: ReplayOptions,
        target: ReplayTarget,
        state: ReplayState,
        job: ReplayJob,
        plan: Sequence[SourcePartition],
        on_progress: OnProgress,
    ) -> None:
        self._spark = spark
        self._options = options
        self._target = target
        self._state = state
        self._job = job
        self._plan = {source.key: source for source in plan}
        self._on_progress = on_progress
        self._failed = FailedRounds()
        self._rows_before = {source.key: self._position(source).rows for source in plan}
        self.summary = ReplaySummary(state=str(state.directory))

    def run(self, stop: Event) -> None:
        self._check_topic_ids()
        self._check_expired()
        while not stop.is_set() and (tasks := self._plan_round()):
            began = time.perf_counter()
            rows_before = self._count_rows()
            error = self._run_round(tasks)
            rows = self._count_rows()
            self._on_progress(rows, sum(source.rows for source in self._plan.values()))
            if self._failed.add(error, progressed=rows > rows_before):
                raise ReplayError(f"{error}. The same command continues from here")
            if error:
                stop.wait(PAUSE_S)
                self._load_plan()  # a compaction may have replaced files
            elif self._options.rate is not None:
                stop.wait(max(0.0, (rows - rows_before) / self._options.rate - (time.perf_counter() - began)))
        self.summary.finished = not self._plan_round()
        if self.summary.finished:
            self._state.record_done()
        else:
            self.summary.notes.append("stopped before the end; the same command continues from here")
        self.summary.partitions = [
            _report(source, self._state, self._job, self._rows_before[source.key]) for source in self._plan.values()
        ]

    def _count_rows(self) -> int:
        return sum(position.rows for position in self._state.positions.values())

    # --- a round -----------------------------------------------------------------------------------------------------

    def _plan_round(self) -> dict[TopicPartition, ReplayTask]:
        """A task for each partition that is not finished."""
        unfinished = [source for source in self._plan.values() if self._remaining(source, 1)]
        max_rows = ROWS_PER_ROUND
        if self._options.rate is not None and unfinished:
            max_rows = max(1, min(max_rows, round(self._options.rate / len(unfinished))))
        return {source.key: self._make_task(source, max_rows) for source in unfinished}

    def _remaining(self, source: SourcePartition, rows: int) -> list[Unit]:
        return source.remaining(self._position(source).source, rows)

    def _position(self, source: SourcePartition) -> Position:
        return _position(source, self._state, self._job)

    def _make_task(self, source: SourcePartition, max_rows: int) -> ReplayTask:
        options = self._options
        return ReplayTask(
            bootstrap=options.bootstrap,
            timeout_s=options.timeout_s,
            client=options.client,
            lake=open_store(options.lake),
            topic=source.target,
            topic_id=self._job.topic_ids[source.target],
            partition=source.partition,
            producer=self._job.producer,
            units=tuple(self._remaining(source, max_rows)),
            selection=replace(options.selection, to_offset=source.end),
            position=self._position(source),
            max_rows=max_rows,
            codec=options.codec,
            batch_bytes=self._target.batch_bytes[source.target],
        )

    def _run_round(self, tasks: Mapping[TopicPartition, ReplayTask]) -> str:
        """Records the new positions; returns the first error."""
        try:
            results = run_tasks(self._spark, list(tasks.values()), replay_units)
        except SparkJobError as error:
            return str(error)
        positions = {
            key: result.position for key, result in zip(tasks, results, strict=True) if result.position is not None
        }
        if positions:
            self._state.record_positions(positions)
        return next((result.error for result in results if result.error), "")

    def _load_plan(self) -> None:
        _, plan = _load_plan(self._options, self._job.ledger_entries)
        self._plan = {source.key: source for source in plan}
        self._check_expired()

    def _check_expired(self) -> None:
        """A replay cannot do without rows that it has counted on."""
        ledger = load_ledger(self._options.lake)
        began = load_ledger(self._options.lake, self._job.ledger_entries)
        for source in self._plan.values():
            if expired := find_expired(ledger, began, source, self._position(source).source):
                raise ReplayError(
                    f"{source.name} offsets {expired.start} to {expired.end - 1} were removed from the lake after this "
                    f"replay began ({expired.expired}): --again replays what is left"
                )

    def _check_topic_ids(self) -> None:
        for name, topic in self._target.topics.items():
            if self._job.topic_ids[name] != str(topic.id):
                raise ReplayError(f"topic '{name}' was recreated since this replay began: --again starts it over")


def _position(source: SourcePartition, state: ReplayState, job: ReplayJob) -> Position:
    return state.positions.get(source.key, Position(target=job.starts[source.name]))


def _report(source: SourcePartition, state: ReplayState, job: ReplayJob, rows_before: int) -> ReplayedPartition:
    position = _position(source, state, job)
    return ReplayedPartition(
        topic=source.topic,
        partition=source.partition,
        target=source.target,
        rows=position.rows,
        resumed=rows_before,
        first=job.starts[source.name],
        end=position.target,
    )


async def _cluster_id(client: Client) -> str:
    return client.cluster_id


def main(argv: Sequence[str] | None = None) -> None:
    run_command("replay", argv)


if __name__ == "__main__":
    main()
