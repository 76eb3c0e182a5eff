"""Mirrors topics from one cluster to another: partition to partition, in order, every record exactly once.

    summary = mirror.run(spark, MirrorOptions(source=ClusterOptions(bootstrap="east:9092"),
                                              target=ClusterOptions(bootstrap="west:9092"),
                                              topics={"orders": "orders"}, state="/data/mirror"))

Works in rounds, a task for each partition. Stopped or killed at any point, the same command continues where the
target's log says that it was (see `fenced_sender`), after it has checked that the source still has the same records.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

from pyspark.sql import SparkSession

from insync.client.client import Client
from insync.client.errors import UnknownTopicError, UnsupportedError
from insync.client.model import Topic, TopicPartition
from insync.client.sync_client import SyncClient
from insync.metadata import topic_names
from insync.pipeline.archive.plan import open_view
from insync.pipeline.executors import run_tasks
from insync.pipeline.fenced_sender import init_producer
from insync.pipeline.mirror.errors import MirrorError
from insync.pipeline.mirror.groups import copy_group_offsets
from insync.pipeline.mirror.plan import MirrorPlan, make_plan
from insync.pipeline.mirror.state import MirrorState
from insync.pipeline.mirror.target import MirrorTargets, TopicSettings
from insync.pipeline.mirror.task import CLIENT_ID, MirrorResult, MirrorTask, mirror_range
from insync.pipeline.rounds import PAUSE_S, ClusterOptions, FailedRounds, JobSummary, no_progress
from insync.pipeline.session import run_command
from insync.pipeline.spark_errors import SparkJobError
from insync.spark.cluster_view import ClusterView
from insync.spark.source_options import READ_COMMITTED

OFFSETS_PER_ROUND = 1_000_000
"""Of one partition. The state is saved after a round."""
ALL_GROUPS = ".*"


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorOptions:
    source: ClusterOptions
    target: ClusterOptions
    state: str
    """Directory of the mirror's state."""
    topics: Mapping[str, str] = field(default_factory=dict)
    """From the source's names to the target's."""
    pattern: str = ""
    """A regular expression instead of `topics`; names are kept."""
    topic_settings: TopicSettings = field(default_factory=TopicSettings)
    follow: bool = False
    """Keep mirroring new records; otherwise end where the logs end at the start."""
    interval_s: float = 1.0
    """Pause when nothing is to be mirrored."""
    groups: str = ALL_GROUPS
    """A regular expression for the groups whose offsets are committed in the target; empty for none."""
    group_interval_s: float = 10.0
    """How often that is done, with `follow`."""
    allow_loss: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """After a round."""

    rows: int
    """Mirrored since the start."""
    offsets: int
    """Mirrored in this round."""
    backlog: int
    """Offsets still to mirror."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    topic: str
    partition: int
    target: str
    rows: int
    """In the target, of all runs."""
    before: int
    """Of them, written before this run."""
    source: int
    """The next offset of the source."""
    end: int
    """The offset behind them in the target."""
    losses: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class MirrorSummary(JobSummary):
    """`finished`: true once the source's ends are reached; with `follow`, once the run was stopped cleanly."""

    state: str
    bytes: int = 0
    """Of the batches that were written."""
    partitions: list[PartitionReport] = field(default_factory=list)
    groups: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    """Offsets that were committed in the target."""

    @property
    def rows(self) -> int:
        return sum(report.rows - report.before for report in self.partitions)


OnProgress = Callable[[Progress], None]
"""Called after every round."""


def run(
    spark: SparkSession, options: MirrorOptions, *, on_progress: OnProgress = no_progress, stop: Event | None = None
) -> MirrorSummary:
    """Runs until everything is mirrored, or with `follow` until `stop` is set. A round that has begun is finished."""
    check_options(options)
    started = time.perf_counter()
    with ExitStack() as stack:
        view = open_source_view(options)
        stack.callback(view.close)
        source, target = stack.enter_context(connect(options.source)), stack.enter_context(connect(options.target))
        find_topics(view, options)
        check_clusters(options, source, target)
        state = stack.enter_context(MirrorState.open(Path(options.state).absolute()))
        mirror = Mirror(spark, options, view, source, target, state, on_progress)
        mirror.run(stop or Event())
    mirror.summary.seconds = time.perf_counter() - started
    return mirror.summary


def check_options(options: MirrorOptions) -> None:
    if bool(options.topics) == bool(options.pattern):
        raise MirrorError("name the topics to mirror, or a regular expression for their names with --pattern")
    for option, pattern in (("--pattern", options.pattern), ("--groups", options.groups)):
        try:
            re.compile(pattern)
        except re.error as error:
            raise MirrorError(f"{option} {pattern} is not a regular expression: {error}") from None
    if len(set(options.topics.values())) < len(options.topics):
        raise MirrorError("two topics cannot be mirrored into one: their records would mix")
    for name in options.topics.values():
        if not topic_names.is_valid(name):
            raise MirrorError(f"'{name}' is not a valid topic name: {topic_names.RULE}")
    for name in (*options.topics, *options.topics.values()):
        if name in topic_names.INTERNAL_TOPICS:
            raise MirrorError(f"'{name}' is an internal topic of a cluster; the offsets in it are mirrored by --groups")


def check_clusters(options: MirrorOptions, source: SyncClient, target: SyncClient) -> tuple[str, str]:
    """The clusters' ids. Raises if a topic would be mirrored into itself."""
    ids = source.call(_cluster_id), target.call(_cluster_id)
    same = [name for name, renamed in options.topics.items() if name == renamed]
    if ids[0] == ids[1] and (same or options.pattern):
        raise MirrorError(
            f"source and target are the same cluster ({ids[0]}): a topic cannot be mirrored into itself; TOPIC=TARGET "
            "mirrors it into another"
        )
    return ids


def check_connections(options: MirrorOptions) -> bool:
    """Raise unless both clusters can be reached and the topics exist; asked before Spark starts. With `follow`, false
    if no topic matches the pattern yet."""
    view = open_source_view(options)
    try:
        with connect(options.source) as source, connect(options.target) as target:
            check_clusters(options, source, target)
        return bool(find_topics(view, options))
    finally:
        view.close()


def find_topics(view: ClusterView, options: MirrorOptions) -> dict[str, Topic]:
    topics = view.describe_topics(must_exist=False)
    for name in options.topics:
        if name not in topics:
            raise UnknownTopicError(name)
    if not topics and not options.follow:
        raise MirrorError(f"no topic of the source matches --pattern {options.pattern}")
    return topics


def open_source_view(options: MirrorOptions) -> ClusterView:
    return open_view(options.source, tuple(options.topics), options.pattern, isolation=READ_COMMITTED)


def connect(cluster: ClusterOptions) -> SyncClient:
    return SyncClient(cluster.bootstrap, timeout_s=cluster.timeout_s, client_id=CLIENT_ID, settings=cluster.client)


async def _cluster_id(client: Client) -> str:
    return client.cluster_id


class Mirror:
    def __init__(
        self,
        spark: SparkSession,
        options: MirrorOptions,
        view: ClusterView,
        source: SyncClient,
        target: SyncClient,
        state: MirrorState,
        on_progress: OnProgress,
    ) -> None:
        self._spark = spark
        self._options = options
        self._view = view
        self._source = source
        self._target = target
        self._state = state
        self._on_progress = on_progress
        self._failed = FailedRounds()
        self._targets = MirrorTargets(source, target, options.topic_settings)
        self._rows_before = {key: mirrored.position.rows for key, mirrored in state.partitions.items()}
        self._groups_due_s = 0.0
        self._group_notes: list[str] = []
        self.summary = MirrorSummary(state=str(state.directory))

    def run(self, stop: Event) -> None:
        self._open_state()
        ends: dict[TopicPartition, int] | None = None
        while not stop.is_set():
            plan = self._plan()
            if ends is None and not self._options.follow:
                ends = dict(plan.ends)
            if ends is not None:
                plan.limit_to(ends)
            if backlog := plan.backlog(self._state):
                self._run_round(plan, backlog)
            elif ends is not None:
                self.summary.finished = True
                break
            if self._options.follow:
                self._copy_groups(time.monotonic())
                if not backlog:
                    stop.wait(self._options.interval_s)
        self.summary.finished |= self._options.follow
        self._copy_groups(float("inf"))
        self._state.save()
        self._report()

    def _open_state(self) -> None:
        state = self._state
        ids = check_clusters(self._options, self._source, self._target)
        if not state.is_new and state.clusters != ids:
            raise MirrorError(
                f"{state.directory} is the state of a mirror from cluster {state.clusters[0]} to {state.clusters[1]}, "
                f"and these are {ids[0]} and {ids[1]}: name another directory"
            )
        for name, known in state.topics.items():
            if name in self._options.topics and self._options.topics[name] != known.target:
                raise MirrorError(
                    f"{state.directory} has the state of a mirror of '{name}' into '{known.target}', not into "
                    f"'{self._options.topics[name]}': name another directory"
                )
        if state.is_new:
            try:
                state.producer = self._target.call(init_producer)
            except UnsupportedError as error:
                raise MirrorError(
                    f"the target has no idempotent producers, which make a mirror exact: {error}"
                ) from None
            state.clusters = ids
            state.save()

    # --- a round -----------------------------------------------------------------------------------------------------

    def _plan(self) -> MirrorPlan:
        topics = find_topics(self._view, self._options)
        target_ends: dict[TopicPartition, int] = {}
        for name, topic in topics.items():
            if self._has_new_partitions(topic):
                ends = self._targets.prepare(topic, self._options.topics.get(name, name), self._state)
                target_ends |= {(name, index): end for index, end in ends.items()}
        plan = make_plan(self._view, topics, self._state, target_ends, allow_loss=self._options.allow_loss)
        for name, topic in topics.items():  # a recreated topic, if that is allowed
            self._state.topics[name] = replace(self._state.topics[name], id=str(topic.id))
        self._add_notes(self._targets.notes + plan.notes)
        return plan

    def _has_new_partitions(self, topic: Topic) -> bool:
        keys = ((topic.name, partition.index) for partition in topic.partitions)
        return topic.name not in self._targets.topics or any(key not in self._state.partitions for key in keys)

    def _add_notes(self, notes: Sequence[str]) -> None:
        self.summary.notes += [note for note in dict.fromkeys(notes) if note not in self.summary.notes]

    def _run_round(self, plan: MirrorPlan, backlog: Mapping[TopicPartition, int]) -> None:
        tasks = {key: self._make_task(key, plan, size) for key, size in backlog.items()}
        before = {key: self._state.partitions[key].position.source for key in tasks}
        try:
            results = run_tasks(self._spark, list(tasks.values()), mirror_range)
            error = next((result.error for result in results if result.error), "")
        except SparkJobError as failure:
            results, error = [], str(failure)
        for key, result in zip(tasks, results, strict=bool(results)):
            self._apply(key, result)
        self._state.save()
        done = sum(self._state.partitions[key].position.source - start for key, start in before.items())
        self._on_progress(Progress(self._count_rows(), done, sum(backlog.values()) - done))
        if self._failed.add(error, progressed=done > 0):
            raise MirrorError(f"{error}. The same command continues from here")
        if error and not done:
            time.sleep(PAUSE_S)

    def _make_task(self, key: TopicPartition, plan: MirrorPlan, size: int) -> MirrorTask:
        topic, partition = key
        known, target = self._state.topics[topic], self._targets.topics[topic]
        position = self._state.partitions[key].position
        return MirrorTask(
            source=self._options.source,
            target=self._options.target,
            topic=topic,
            topic_id=known.id,
            target_topic=known.target,
            target_id=known.target_id,
            partition=partition,
            end=position.source + min(size, OFFSETS_PER_ROUND),
            log_end=position.source + size,
            leader_epoch=plan.epochs[key],
            position=position,
            producer=self._state.producer,
            limits=target.limits,
            is_compacted=target.is_compacted,
            allow_loss=self._options.allow_loss,
        )

    def _apply(self, key: TopicPartition, result: MirrorResult) -> None:
        if result.position is None:
            return
        mirrored = self._state.partitions[key]
        if result.diverged:
            loss = (
                f"{key[0]}-{key[1]}: {result.diverged} records from offset {mirrored.position.target} of the target on "
                "are no longer in the source, which was truncated after they were mirrored"
            )
            mirrored.losses.append(loss)
            self._add_notes([loss])
        for anchor in result.anchors:
            mirrored.map.add(anchor)
        mirrored.position = result.position
        self.summary.bytes += result.bytes

    def _count_rows(self) -> int:
        return sum(
            mirrored.position.rows - self._rows_before.get(key, 0) for key, mirrored in self._state.partitions.items()
        )

    # --- groups and the report ---------------------------------------------------------------------------------------

    def _copy_groups(self, now_s: float) -> None:
        if not self._options.groups or now_s < self._groups_due_s:
            return
        report = copy_group_offsets(self._source, self._target, self._state, self._options.groups)
        self._groups_due_s = time.monotonic() + self._options.group_interval_s
        self._group_notes = report.notes  # the newest ones only: they name offsets, which change
        for group, offsets in report.committed.items():
            self.summary.groups.setdefault(group, {}).update(offsets)

    def _report(self) -> None:
        self.summary.partitions = [
            PartitionReport(
                topic=topic,
                partition=partition,
                target=self._state.topics[topic].target,
                rows=mirrored.position.rows,
                before=self._rows_before.get((topic, partition), 0),
                source=mirrored.position.source,
                end=mirrored.position.target,
                losses=tuple(mirrored.losses),
            )
            for (topic, partition), mirrored in sorted(self._state.partitions.items())
            if topic in self._targets.topics
        ]
        self._add_notes(self._group_notes)
        if not self.summary.finished:
            self.summary.notes.append("stopped before the end; the same command continues from here")


def main(argv: Sequence[str] | None = None) -> None:
    run_command("mirror", argv)


if __name__ == "__main__":
    main()
