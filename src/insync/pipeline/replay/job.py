"""A lake back to topics, keeping keys, values, headers, timestamps, partitions and the order within each.

    replay.run(spark, ReplayOptions(bootstrap="localhost:9092", lake="/data/lake", topics={"orders": "orders-again"}))

Exactly once: stopped or killed at any point, the same command goes on where the log says that it was (see
`replay_send`), also beside other writers to the same partitions. What it cannot survive: the target's records being
deleted before it goes on, its log cut back by an unclean election, or the topic made anew; these are errors.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from insync.client.client import Client
from insync.client.errors import ClientError
from insync.client.settings import DEFAULT_SETTINGS, ClientSettings
from insync.client.sync_client import SyncClient
from insync.pipeline import executors
from insync.pipeline import lake as lakes
from insync.pipeline.executors import SparkFailed
from insync.pipeline.ledger import Key, Ledger
from insync.pipeline.replay import plan as replay_plan
from insync.pipeline.replay import target as replay_target
from insync.pipeline.replay.plan import ReplayError, Selection, Source
from insync.pipeline.replay.state import DIRECTORY, Job, State, name_of
from insync.pipeline.replay.target import Target
from insync.pipeline.replay.task import Position, Task, execute, parsed
from insync.pipeline.session import submitted
from insync.wire import compression

ROWS_PER_ROUND = 1_000_000
"""Of one partition: a round's end is where the journal says how far it is."""
TRIES = 4
PAUSE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    bootstrap: str
    lake: str
    topics: Mapping[str, str]
    """From the lake's names to the names of the topics to be written."""
    selection: Selection = field(default_factory=Selection)
    partitions: tuple[int, ...] = ()
    """All, if none is named."""
    generation: int | None = None
    """Of topics that were made anew; the newest, if none is named."""
    rate: float | None = None
    """Records a second, all partitions together."""
    create: bool = False
    """Make the topics that do not exist, with as many partitions as the lake has."""
    codec: str = "none"
    state: str = ""
    """Where the journal is; without it, in the lake."""
    again: bool = False
    """Once more, though it was done before."""
    timeout_s: float = 60.0
    client: ClientSettings = DEFAULT_SETTINGS
    """How to get into the cluster, and the like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    topic: str
    partition: int
    target: str
    rows: int
    resumed: int
    """Rows that had landed before this run."""
    first: int
    end: int
    """Offsets in the target: its end at the beginning, and one past the last record."""


@dataclass(slots=True)
class Summary:
    state: str
    partitions: list[Replayed] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    finished: bool = False
    """Everything is written, now or before."""

    @property
    def rows(self) -> int:
        return sum(each.rows - each.resumed for each in self.partitions)


def run(
    spark: SparkSession,
    options: ReplayOptions,
    *,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    stop: threading.Event | None = None,
) -> Summary:
    """Until everything is written, or `stop` is set: then the same options go on later."""
    check_options(options)
    started = time.perf_counter()
    if (over := done_before(options)) is not None:
        return over
    ledger, plan = planned(options)
    with _connected(options) as client:
        asked = asked_for(options, client.call(_cluster_id))
        target = Target(client, options.topics, plan, create=options.create)
        with State.open(directory_of(options, ledger, asked)) as state:
            job = state.job or state.begin(target.job(asked, ledger, plan))
            _of_this_replay(state, job, asked)
            _, plan = planned(options, job.ledger_entries)
            replayer = Replayer(spark, options, target, state, job, plan, on_progress)
            replayer.work(stop or threading.Event())
    replayer.summary.seconds = time.perf_counter() - started
    return replayer.summary


def done_before(options: ReplayOptions) -> Summary | None:
    """What the same replay wrote, if it came to its end. No topic is made or looked at for it, and no Spark needed."""
    if options.again:
        return None
    ledger, _ = planned(options)
    with _connected(options) as client:
        asked = asked_for(options, client.call(_cluster_id))
    directory = directory_of(options, ledger, asked)
    if not directory.is_dir():
        return None
    with State.open(directory) as state:
        if state.job is None:
            return None
        _of_this_replay(state, state.job, asked)
        if not state.done:
            return None
        _, plan = planned(options, state.job.ledger_entries)
        told = f"this replay was done before (see {directory}), and nothing was written; --again does it once more"
        partitions = [_replayed(source, state, state.job, _position(source, state, state.job).rows) for source in plan]
        return Summary(str(directory), partitions, [told], finished=True)


def check_targets(options: ReplayOptions) -> None:
    """Whether the topics to be written are there, or may be made: told without waiting for Spark."""
    with _connected(options) as client:
        for name in options.topics.values():
            replay_target.find(client, name, create=options.create)


def _connected(options: ReplayOptions) -> SyncClient:
    return SyncClient(
        options.bootstrap, timeout_s=options.timeout_s, client_id="insync-replay", settings=options.client
    )


def _of_this_replay(state: State, job: Job, asked: Mapping[str, object]) -> None:
    if job.asked != asked:
        raise ReplayError(f"{state.directory} is the state of another replay: {job.asked}")


def check_options(options: ReplayOptions) -> None:
    if not options.topics:
        raise ReplayError("name the topics to replay")
    if options.codec not in compression.NAMES:
        raise ReplayError(f"no codec is called '{options.codec}'. Known: {', '.join(compression.NAMES)}")
    if options.rate is not None and options.rate <= 0:
        raise ReplayError(f"a rate of {options.rate:g} records a second would never end")
    if len(set(options.topics.values())) < len(options.topics):
        raise ReplayError("two topics cannot be replayed into one: their records would mix")
    replay_plan.check_names(options.topics)
    replay_plan.check_selection(options.selection)


def asked_for(options: ReplayOptions, cluster_id: str) -> dict[str, object]:
    return {
        "cluster": cluster_id,
        "lake": str(lakes.local_path(options.lake)),
        "topics": dict(options.topics),
        "partitions": list(options.partitions),
        "generation": options.generation,
        **replay_plan.as_dict(options.selection),
    }


def directory_of(options: ReplayOptions, ledger: Ledger, asked: Mapping[str, object]) -> Path:
    """With `again`, the first place after those of replays that are done."""
    base = Path(options.state) if options.state else ledger.lake / DIRECTORY / name_of(asked)
    if not options.again:
        return base.absolute()
    return (base.parent / f"{base.name}-{time.time_ns()}").absolute()


def planned(options: ReplayOptions, entries: int | None = None) -> tuple[Ledger, list[Source]]:
    """What the lake has, or had when its ledger had so many entries: what is archived later is not part of a replay."""
    ledger = lakes.load(options.lake, entries)
    partitions, generation = options.partitions, options.generation
    return ledger, replay_plan.sources(
        ledger, options.topics, options.selection, partitions=partitions, generation=generation
    )


class Replayer:
    def __init__(
        self,
        spark: SparkSession,
        options: ReplayOptions,
        target: Target,
        state: State,
        job: Job,
        plan: Sequence[Source],
        on_progress: Callable[[int, int], None],
    ) -> None:
        self._spark = spark
        self._options = options
        self._target = target
        self._state = state
        self._job = job
        self._plan = {source.key: source for source in plan}
        self._on_progress = on_progress
        self._before = {source.key: self._position(source).rows for source in plan}
        self.summary = Summary(str(state.directory))

    def work(self, stop: threading.Event) -> None:
        self._same_topics()
        failures = 0
        while not stop.is_set() and (tasks := self._tasks()):
            began = time.perf_counter()
            rows = sum(at.rows for at in self._state.positions.values())
            problem = self._round(tasks)
            done = sum(at.rows for at in self._state.positions.values())
            self._on_progress(done, sum(source.rows for source in self._plan.values()))
            failures = 0 if not problem or done > rows else failures + 1
            if failures >= TRIES:
                raise ReplayError(f"{problem}. The same command goes on from here")
            self._pace(done - rows, time.perf_counter() - began, stop, failed=bool(problem))
        self.summary.finished = not self._tasks()
        if self.summary.finished:
            self._state.finish()
        else:
            self.summary.notes.append("stopped before its end; the same command goes on from here")
        self.summary.partitions = [
            _replayed(source, self._state, self._job, self._before[source.key]) for source in self._plan.values()
        ]

    # --- a round -----------------------------------------------------------------------------------------------------

    def _tasks(self) -> dict[Key, Task]:
        left = {source.key: units for source in self._plan.values() if (units := self._left(source, 1))}
        most = ROWS_PER_ROUND
        if self._options.rate is not None and left:
            most = max(1, min(most, round(self._options.rate / len(left))))
        return {key: self._task(self._plan[key], most) for key in left}

    def _left(self, source: Source, most: int) -> list[replay_plan.Unit]:
        return source.remaining(self._position(source).source, most)

    def _position(self, source: Source) -> Position:
        return _position(source, self._state, self._job)

    def _task(self, source: Source, most: int) -> Task:
        return Task(
            lake=str(lakes.local_path(self._options.lake)),
            bootstrap=self._options.bootstrap,
            topic=source.target,
            topic_id=self._job.topic_ids[source.target],
            partition=source.partition,
            producer=self._job.producer,
            units=tuple(self._left(source, most)),
            selection=self._options.selection,
            position=self._position(source),
            most=most,
            codec=self._options.codec,
            batch_bytes=self._target.batch_bytes[source.target],
            timeout_s=self._options.timeout_s,
            client=self._options.client,
        )

    def _round(self, tasks: Mapping[Key, Task]) -> str:
        """What went wrong, if anything did."""
        keys, work = list(tasks), list(tasks.values())
        try:
            found = executors.answers(self._spark, work, execute)
        except SparkFailed as error:
            return str(error)
        answers = {keys[index]: parsed(answer) for index, answer in found.items()}
        landed = {key: answer.position for key, answer in answers.items() if answer.position is not None}
        if landed:
            self._state.progress(landed)
        return next((answer.error for answer in answers.values() if answer.error), "")

    def _pace(self, rows: int, seconds: float, stop: threading.Event, *, failed: bool) -> None:
        if failed:
            stop.wait(PAUSE_S)
        elif self._options.rate is not None:
            stop.wait(max(0.0, rows / self._options.rate - seconds))

    def _same_topics(self) -> None:
        for name, topic in self._target.topics.items():
            if self._job.topic_ids[name] != str(topic.id):
                raise ReplayError(f"topic '{name}' was made anew since this replay began: --again starts it over")


def _position(source: Source, state: State, job: Job) -> Position:
    return state.positions.get(source.key, Position(target=job.starts[source.name]))


def _replayed(source: Source, state: State, job: Job, before: int) -> Replayed:
    at = _position(source, state, job)
    return Replayed(
        topic=source.topic,
        partition=source.partition,
        target=source.target,
        rows=at.rows,
        resumed=before,
        first=job.starts[source.name],
        end=at.target,
    )


async def _cluster_id(cluster: Client) -> str:
    return cluster.cluster_id


def main(argv: Sequence[str] | None = None) -> None:
    submitted("replay", argv)


if __name__ == "__main__":
    main()

__all__ = ["ClientError", "ReplayError", "ReplayOptions", "Replayed", "Selection", "Summary", "main", "run"]
