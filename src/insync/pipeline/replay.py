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

from insync.client import apis, topics
from insync.client.blocking import Blocking
from insync.client.cluster import Cluster
from insync.client.errors import ClientError, UnknownTopic, check
from insync.client.model import Topic
from insync.client.offsets import LATEST, told
from insync.client.settings import DEFAULTS, ClientSettings
from insync.pipeline import executors, replay_plan
from insync.pipeline import lake as lakes
from insync.pipeline.executors import SparkFailed
from insync.pipeline.ledger import Key, Ledger
from insync.pipeline.replay_plan import ReplayError, Selection, Source
from insync.pipeline.replay_send import Producer
from insync.pipeline.replay_state import DIRECTORY, Job, State, name_of
from insync.pipeline.replay_task import Position, Task, execute, parsed
from insync.pipeline.session import submitted
from insync.wire import compression
from insync.wire.types import ms

ROWS_PER_ROUND = 1_000_000
"""Of one partition: a round's end is where the journal says how far it is."""
BATCH_BYTES = 512 << 10
TRIES = 4
PAUSE_S = 1.0
_ROOM = 1024
"""Of a batch, for what is not records."""


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
    client: ClientSettings = DEFAULTS
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
    ledger, plan = planned(options)
    with Blocking(
        options.bootstrap, timeout=options.timeout_s, client_id="insync-replay", settings=options.client
    ) as client:
        target = Target(client, options, plan)
        asked = asked_for(options, target.cluster_id)
        with State.open(directory_of(options, ledger, asked)) as state:
            if state.done:
                raise ReplayError(f"this replay was done before (see {state.directory}); --again does it once more")
            job = state.job or state.begin(target.job(asked, ledger, plan))
            if job.asked != asked:
                raise ReplayError(f"{state.directory} is the state of another replay: {job.asked}")
            _, plan = planned(options, job.ledger_entries)
            replayer = Replayer(spark, options, target, state, job, plan, on_progress)
            replayer.work(stop or threading.Event())
    replayer.summary.seconds = time.perf_counter() - started
    return replayer.summary


def check_options(options: ReplayOptions) -> None:
    if not options.topics:
        raise ReplayError("name the topics to replay")
    if options.codec not in compression.NAMES:
        raise ReplayError(f"no codec is called '{options.codec}'. Known: {', '.join(compression.NAMES)}")
    if options.rate is not None and options.rate <= 0:
        raise ReplayError(f"a rate of {options.rate:g} records a second would never end")
    if len(set(options.topics.values())) < len(options.topics):
        raise ReplayError("two topics cannot be replayed into one: their records would mix")


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


class Target:
    """The topics that are written to."""

    def __init__(self, client: Blocking, options: ReplayOptions, plan: Sequence[Source]) -> None:
        self._client = client
        self._options = options
        self.topics = {name: self._topic(name, plan) for name in options.topics.values()}
        self.cluster_id = client.call(_cluster_id)
        self.batch_bytes = self._configs()

    def job(self, asked: Mapping[str, object], ledger: Ledger, plan: Sequence[Source]) -> Job:
        wanted = {(source.target, source.partition): LATEST for source in plan}
        ends = self._client.call(lambda cluster: told(cluster, wanted))
        return Job(
            asked=dict(asked),
            ledger_entries=ledger.entries,
            producer=self._client.call(_producer),
            topic_ids={name: str(topic.id) for name, topic in self.topics.items()},
            starts={source.name: ends[source.target, source.partition].offset for source in plan},
        )

    def _topic(self, name: str, plan: Sequence[Source]) -> Topic:
        wanted = 1 + max(source.partition for source in plan if source.target == name)
        try:
            topic = self._client.call(lambda cluster: topics.describe_one(cluster, name))
        except UnknownTopic:
            if not self._options.create:
                raise ReplayError(f"there is no topic '{name}' to write to; --create makes it") from None
            self._client.call(lambda cluster: topics.create(cluster, name, partitions=wanted))
            topic = self._client.call(lambda cluster: topics.describe_one(cluster, name))
        if len(topic.partitions) < wanted:
            raise ReplayError(f"topic '{name}' has {len(topic.partitions)} partitions, the lake has {wanted} to replay")
        return topic

    def _configs(self) -> dict[str, int]:
        names = list(self.topics)
        keys = ["max.message.bytes", "message.timestamp.type"]
        found = self._client.call(lambda cluster: topics.settings(cluster, names, keys))
        for name, configs in found.items():
            if configs.get("message.timestamp.type") == "LogAppendTime":
                raise ReplayError(f"topic '{name}' has message.timestamp.type LogAppendTime: timestamps would be lost")
        most = {name: int(configs.get("max.message.bytes") or BATCH_BYTES) for name, configs in found.items()}
        return {name: max(_ROOM, min(BATCH_BYTES, most.get(name, BATCH_BYTES) - _ROOM)) for name in names}


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
        if not self._tasks():
            self._state.finish()
        else:
            self.summary.notes.append("stopped before its end; the same command goes on from here")
        self.summary.partitions = [self._replayed(source) for source in self._plan.values()]

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
        start = Position(target=self._job.starts[source.name])
        return self._state.positions.get(source.key, start)

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

    def _replayed(self, source: Source) -> Replayed:
        at = self._position(source)
        return Replayed(
            topic=source.topic,
            partition=source.partition,
            target=source.target,
            rows=at.rows,
            resumed=self._before[source.key],
            first=self._job.starts[source.name],
            end=at.target,
        )


async def _cluster_id(cluster: Cluster) -> str:
    return cluster.cluster_id


async def _producer(cluster: Cluster) -> Producer:
    values = {"transactional_id": None, "transaction_timeout": ms(60_000), "producer_id": -1, "producer_epoch": -1}
    answer = await cluster.ask(apis.INIT_PRODUCER_ID, values)
    check(answer.error_code, "asking for a producer id")
    return Producer(answer.producer_id, answer.producer_epoch)


def main(argv: Sequence[str] | None = None) -> None:
    submitted("replay", argv)


if __name__ == "__main__":
    main()

__all__ = ["ClientError", "ReplayError", "ReplayOptions", "Replayed", "Selection", "Summary", "main", "run"]
