"""Compares two clusters: topics, partitions, configs, every record, and the offsets of groups.

Records are compared in order, whatever their offsets: a task for each partition reads both logs. That gives the
target's offset of every record, by which the groups' offsets are compared. Of the mirror's state only the offset is
used at which a target partition begins. Every difference is named once, runs of records as one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from insync.client import groups, topics
from insync.client.errors import ClientError
from insync.client.model import Offset, Topic, TopicPartition
from insync.client.offsets import EARLIEST, LATEST, READ_COMMITTED, list_offsets_with_retry
from insync.client.sync_client import SyncClient
from insync.pipeline.executors import run_tasks
from insync.pipeline.mirror import job
from insync.pipeline.mirror.batches import RECORD
from insync.pipeline.mirror.compare import Interval, LogComparison, LogDifferences, Pair, Run
from insync.pipeline.mirror.errors import MirrorError
from insync.pipeline.mirror.groups import list_committed
from insync.pipeline.mirror.job import MirrorOptions
from insync.pipeline.mirror.row_digests import RowDigests, fetch_rows, read_digests
from insync.pipeline.mirror.state import FILE, MirrorState
from insync.pipeline.mirror.target import find_config_differences, select_copied
from insync.pipeline.rounds import ClusterOptions
from insync.pipeline.spark_errors import SparkJobError
from insync.pipeline.text import pluralize
from insync.wire.errors import MalformedBatchError

MAX_COMPARED_FIELDS = 100
"""Changed records of a partition whose fields are compared; of others it is only said that they differ."""
FIELDS = ("key", "value", "headers", "timestamp")


@dataclass(frozen=True, slots=True)
class Difference:
    kind: str
    """topic, partitions, config, missing, added, doubled, reordered, changed or group."""
    text: str


@dataclass(slots=True, kw_only=True)
class ComparedPartition:
    topic: str
    partition: int
    target: str
    records: int = 0
    """Equal and in order."""
    differences: list[Difference] = field(default_factory=list)


@dataclass(slots=True)
class Comparison:
    partitions: list[ComparedPartition] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    groups: int = 0
    """Compared groups."""
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def equal(self) -> bool:
        return not self.differences


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyTask:
    """Pickled to an executor. The ranges are (first offset, end)."""

    source: ClusterOptions
    target: ClusterOptions
    topic: str
    target_topic: str
    partition: int
    source_range: tuple[int, int]
    target_range: tuple[int, int]
    offsets: tuple[int, ...]
    """Of groups in the source."""


@dataclass(frozen=True, slots=True)
class VerifyResult:
    records: int = 0
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()
    intervals: Mapping[int, Interval] = field(default_factory=dict)
    error: str = ""


# --- on an executor --------------------------------------------------------------------------------------------------


def verify_partition(task: VerifyTask) -> VerifyResult:
    try:
        with job.connect(task.source) as source, job.connect(task.target) as target:
            return _compare_logs(task, source, target)
    except (ClientError, MalformedBatchError, OSError, pa.ArrowException) as error:
        return VerifyResult(error=f"{task.topic}-{task.partition}: {str(error) or type(error).__name__}")


def _compare_logs(task: VerifyTask, source: SyncClient, target: SyncClient) -> VerifyResult:
    def read_source() -> Iterator[RowDigests]:
        return read_digests(source, task.topic, task.partition, *task.source_range)

    def find_in_source(digests: Any) -> Any:
        mask = np.zeros(len(digests), np.bool_)
        for rows in read_source():
            mask |= np.isin(digests, rows.digests)
        return mask

    rows = read_digests(target, task.target_topic, task.partition, *task.target_range)
    differences = LogComparison(read_source(), rows, task.offsets, task.target_range[1]).run(find_in_source)
    named, notes = name_differences(task, differences)
    compared = differences.changed[:MAX_COMPARED_FIELDS]
    named += name_changes(
        task, [(pair, _find_changed_fields(task, source, target, pair)) for pair in compared], differences.changed
    )
    return VerifyResult(differences.equal, tuple(named), tuple(notes), differences.intervals)


def _find_changed_fields(task: VerifyTask, source: SyncClient, target: SyncClient, pair: Pair) -> tuple[str, ...]:
    before = _read_record(source, task.topic, task.partition, pair.source)
    after = _read_record(target, task.target_topic, task.partition, pair.target)
    before["headers"], after["headers"] = before["headers"] or [], after["headers"] or []  # none are an empty list
    return tuple(name for name in FIELDS if before[name] != after[name])


def _read_record(client: SyncClient, topic: str, partition: int, offset: int) -> dict[str, Any]:
    for batch in fetch_rows(client, topic, partition, offset, offset + 1, RECORD):
        record: dict[str, Any] = batch.to_pylist()[0]
        return record
    return dict.fromkeys(FIELDS)  # it was deleted meanwhile


# --- sentences -------------------------------------------------------------------------------------------------------


def name_differences(task: VerifyTask, differences: LogDifferences) -> tuple[list[Difference], list[str]]:
    """(differences, notes): what was removed from the beginning of either log is a note."""
    name, target_name = f"{task.topic}-{task.partition}", f"{task.target_topic}-{task.partition}"
    named: list[Difference] = []
    notes: list[str] = []
    for run in differences.missing:
        if run.number == 0 and task.target_range[0] > 0 and differences.equal:
            notes.append(f"{name}: {_offsets(run)} of the source are no longer in the target, whose log was trimmed")
        else:
            named.append(
                Difference("missing", f"{name}: {_offsets(run)} of the source {_are(run)} missing in the target")
            )
    for run in differences.added:
        if run.number == 0 and task.source_range[0] > 0 and differences.equal:
            notes.append(f"{name}: {_offsets(run)} of the target are no longer in the source, whose log was trimmed")
        else:
            text = f"{target_name}: {_offsets(run)} of the target {_are(run)} not in the source"
            named.append(Difference("added", text))
    for run in differences.doubled:
        repeats = "repeats a record" if run.records == 1 else "repeat records"
        named.append(Difference("doubled", f"{target_name}: {_offsets(run)} of the target {repeats} of the source"))
    for pair in differences.moved:
        source = Run(pair.source, pair.source_last, pair.records, 0)
        target = Run(pair.target, pair.target_last, pair.records, 0)
        text = f"{name}: {_offsets(source)} of the source {_are(source)} out of order: {_offsets(target)} of the target"
        named.append(Difference("reordered", text))
    return named, notes


def name_changes(
    task: VerifyTask, compared: list[tuple[Pair, tuple[str, ...]]], changed: list[Pair]
) -> list[Difference]:
    """Neighbours with the same changed fields are one difference."""
    runs: list[tuple[Pair, tuple[str, ...]]] = []
    for pair, fields in compared:
        last = runs[-1] if runs else None
        if last is not None and last[1] == fields and _follows(last[0], pair):
            runs[-1] = (
                last[0]._replace(source_last=pair.source, target_last=pair.target, records=last[0].records + 1),
                fields,
            )
        else:
            runs.append((pair, fields))
    name = f"{task.topic}-{task.partition}"
    named = []
    for pair, fields in runs:
        source = Run(pair.source, pair.source_last, pair.records, 0)
        target = Run(pair.target, pair.target_last, pair.records, 0)
        where = f"{name}: {_offsets(source)} of the source, {_offsets(target)} of the target"
        named.append(Difference("changed", f"{where}: {', '.join(fields) or 'contents'} changed"))
    if rest := len(changed) - len(compared):
        first = changed[len(compared)]
        text = f"{name}: {pluralize(rest, 'more record')} changed, the first at offset {first.source} of the source"
        named.append(Difference("changed", text))
    return named


def _follows(before: Pair, after: Pair) -> bool:
    return after.source == before.source_last + 1 and after.target == before.target_last + 1


def _offsets(run: Run) -> str:
    if run.records == 1:
        return f"offset {run.first}"
    return f"offsets {run.first} to {run.last} ({pluralize(run.records, 'record')})"


def _are(run: Run) -> str:
    return "is" if run.records == 1 else "are"


# --- on the driver ---------------------------------------------------------------------------------------------------


def compare_clusters(spark: SparkSession, options: MirrorOptions) -> Comparison:
    """Compare the topics of the options, up to where the logs end now."""
    started = time.perf_counter()
    view = job.open_source_view(options)
    try:
        with job.connect(options.source) as source, job.connect(options.target) as target:
            job.check_clusters(options, source, target)
            comparison = _Clusters(spark, options, source, target, job.find_topics(view, options)).compare()
    finally:
        view.close()
    comparison.seconds = time.perf_counter() - started
    return comparison


class _Clusters:
    def __init__(
        self,
        spark: SparkSession,
        options: MirrorOptions,
        source: SyncClient,
        target: SyncClient,
        described: Mapping[str, Topic],
    ) -> None:
        self._spark = spark
        self._options = options
        self._source = source
        self._target = target
        self._topics = described
        self._names = {name: options.topics.get(name, name) for name in described}
        self._result = Comparison()

    def compare(self) -> Comparison:
        keys = self._compare_topics()
        committed, target_committed = self._list_groups(keys)
        tasks = self._make_tasks(keys, committed)
        try:
            results = run_tasks(self._spark, tasks, verify_partition)
        except SparkJobError as error:
            raise MirrorError(str(error)) from None
        for task, result in zip(tasks, results, strict=True):
            if result.error:
                raise MirrorError(result.error)
            self._result.notes += result.notes
            self._result.differences += result.differences
            self._result.partitions.append(
                ComparedPartition(
                    topic=task.topic,
                    partition=task.partition,
                    target=task.target_topic,
                    records=result.records,
                    differences=list(result.differences),
                )
            )
        intervals = {key: result.intervals for key, result in zip(keys, results, strict=True)}
        self._compare_groups(committed, target_committed, intervals)
        return self._result

    def _add(self, kind: str, text: str) -> None:
        self._result.differences.append(Difference(kind, text))

    # --- topics and configs ------------------------------------------------------------------------------------------

    def _compare_topics(self) -> list[TopicPartition]:
        """Returns the partitions that both have."""
        existing = {topic.name: topic for topic in self._target.call(topics.describe)}
        keys: list[TopicPartition] = []
        for name, topic in self._topics.items():
            renamed = self._names[name]
            target = existing.get(renamed)
            if target is None:
                self._add("topic", f"topic '{renamed}' is missing in the target")
                continue
            count, target_count = len(topic.partitions), len(target.partitions)
            if count != target_count:
                partitions = f"{pluralize(count, 'partition')} in the source and {target_count} in the target"
                self._add("partitions", f"topic '{renamed}' has {partitions}")
            indexes = {partition.index for partition in target.partitions}
            keys += [(name, partition.index) for partition in topic.partitions if partition.index in indexes]
            self._compare_configs(name, renamed)
        if self._options.pattern:
            matches = re.compile(self._options.pattern, re.ASCII).fullmatch
            for name, topic in existing.items():
                if not topic.internal and matches(name) and name not in self._topics:
                    self._add("topic", f"topic '{name}' is in the target only")
        return keys

    def _compare_configs(self, name: str, renamed: str) -> None:
        source = self._source.call(lambda cluster: topics.describe_configs(cluster, name))
        target = self._target.call(lambda cluster: topics.describe_configs(cluster, renamed))
        settings = self._options.topic_settings
        chosen = select_copied(source) if settings.copy_configs else {}
        only_target = [key for key in select_copied(target) if key not in chosen and key in source]
        chosen |= {key: source[key].value or "" for key in only_target if settings.copy_configs}
        for text in find_config_differences(renamed, chosen | dict(settings.configs), target):
            self._add("config", text)

    # --- records -----------------------------------------------------------------------------------------------------

    def _make_tasks(
        self, keys: list[TopicPartition], committed: Mapping[str, Mapping[TopicPartition, int]]
    ) -> list[VerifyTask]:
        ranges = _list_ranges(self._source, keys)
        renamed = [(self._names[topic], index) for topic, index in keys]
        target_ranges = dict(zip(keys, _list_ranges(self._target, renamed).values(), strict=True))
        starts = self._find_target_starts({key: start for key, (start, _) in ranges.items()})
        tasks = []
        for key in keys:
            start, end = target_ranges[key]
            task = VerifyTask(
                source=self._options.source,
                target=self._options.target,
                topic=key[0],
                target_topic=self._names[key[0]],
                partition=key[1],
                source_range=ranges[key],
                target_range=(min(end, max(start, starts.get(key, 0))), end),
                offsets=tuple(sorted({offsets[key] for offsets in committed.values() if key in offsets})),
            )
            tasks.append(task)
        return tasks

    def _find_target_starts(self, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where the target has the source's first records, as far as a mirror's state says so."""
        directory = Path(self._options.state).absolute()
        if not (directory / FILE).exists():
            return {}
        state = MirrorState.load(directory)
        ids = job.check_clusters(self._options, self._source, self._target)
        if state.clusters != ids:
            return {}
        known: dict[TopicPartition, int] = {}
        for key, start in starts.items():
            mirrored = state.partitions.get(key)
            if mirrored is None or state.topics[key[0]].target != self._names[key[0]]:
                continue
            self._result.notes += mirrored.losses
            translation = mirrored.map.translate(start, lambda _start, _end: None)
            if translation is not None:
                known[key] = translation.offset
        return known

    # --- groups ------------------------------------------------------------------------------------------------------

    def _list_groups(
        self, keys: list[TopicPartition]
    ) -> tuple[dict[str, dict[TopicPartition, int]], dict[str, dict[TopicPartition, int]]]:
        """Committed offsets by group, in source and target, both by the source's names of partitions."""
        if not self._options.groups:
            return {}, {}
        by_target = {(self._names[topic], index): (topic, index) for topic, index in keys}
        same = {key: key for key in keys}
        return (
            _list_group_offsets(self._source, self._options.groups, same),
            _list_group_offsets(self._target, self._options.groups, by_target),
        )

    def _compare_groups(
        self,
        committed: Mapping[str, Mapping[TopicPartition, int]],
        target_committed: Mapping[str, Mapping[TopicPartition, int]],
        intervals: Mapping[TopicPartition, Mapping[int, Interval]],
    ) -> None:
        names = sorted({*committed, *target_committed})
        self._result.groups = len(names)
        for group in names:
            offsets, others = committed.get(group, {}), target_committed.get(group, {})
            for key in sorted({*offsets, *others}):
                text = describe_group_difference(
                    offsets.get(key), others.get(key), intervals[key].get(offsets.get(key, -1))
                )
                if text:
                    self._add("group", f"group '{group}' on {key[0]}-{key[1]}: {text}")


def describe_group_difference(offset: int | None, target: int | None, interval: Interval | None) -> str:
    """What differs between a committed offset of the source and the target's; empty if nothing does."""
    if offset is None or interval is None:
        return f"offset {target} is committed in the target, and none in the source"
    expected = f"offset {offset} of the source is {interval.high} in the target"
    if target is None:
        return f"{expected}, where none is committed"
    if interval.low <= target <= interval.high:
        return ""
    distance = interval.low - target if target < interval.low else target - interval.high
    what = "read again" if target < interval.low else "skipped"
    return f"{expected}, where {target} is committed: {pluralize(distance, 'offset')} would be {what}"


def _list_group_offsets(
    client: SyncClient, pattern: str, keys: Mapping[TopicPartition, TopicPartition]
) -> dict[str, dict[TopicPartition, int]]:
    """Groups without an offset of these partitions are left out."""
    matches = re.compile(pattern).fullmatch
    committed: dict[str, dict[TopicPartition, int]] = {}
    for group in client.call(groups.list_groups):
        if matches(group.id):
            offsets = {keys[key]: offset for key, offset in list_committed(client, group.id).items() if key in keys}
            if offsets:
                committed[group.id] = offsets
    return committed


def _list_ranges(client: SyncClient, keys: list[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    """(first offset, end) of each partition."""

    def list_offsets(at: int) -> dict[TopicPartition, Offset]:
        times = dict.fromkeys(keys, at)
        return client.call(lambda cluster: list_offsets_with_retry(cluster, times, isolation=READ_COMMITTED))

    earliest, latest = list_offsets(EARLIEST), list_offsets(LATEST)
    return {key: (earliest[key].offset, latest[key].offset) for key in keys}
