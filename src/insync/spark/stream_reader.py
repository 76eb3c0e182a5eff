"""Streams from `format("insync")`.

Spark calls `initialOffset` if there is no checkpoint, `latestOffset` before each batch, and `partitions` for the tasks
of a batch; after a restart it calls `partitions` again for a batch that was planned and not finished. The two offsets
of a batch determine it (see `stream_offsets`), so what was decided once, such as what "latest" was or where a new
partition begins, holds for every repetition. Even a stream without new records starts with an (empty) batch, so that
its beginning reaches the checkpoint and "latest" does not move.

A call of `latestOffset(start)` means that the batch which ends at `start` is done: that is when a group's offsets are
committed (`groupId`). `commit` is called at the same time, but not after the last batch of an AvailableNow run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from insync.client.errors import ClientError
from insync.client.model import TopicPartition
from insync.client.offsets import EARLIEST, LATEST
from insync.spark.cluster_snapshot import ClusterSnapshot, find_batch_start, snapshot_cluster
from insync.spark.cluster_view import ClusterView
from insync.spark.executor import decode_rows, read_offsets
from insync.spark.lake_view import open_view, plan_lake_tasks
from insync.spark.planning import OffsetRange, Offsets, backlog, limit_batch
from insync.spark.progress import describe_source, measure_lag
from insync.spark.pyspark_versions import (
    HAS_ADMISSION_CONTROL,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from insync.spark.read_task import PlannedLeader
from insync.spark.source_options import Position, SourceOptions
from insync.spark.stream_offsets import EXTENSION, StreamOffset, by_topic
from insync.spark.task_planning import PlannedPartitions, plan_tasks
from insync.spark.typed_options import TypedColumns

SIZE_INTERVAL_S = 60.0
"""How often brokers are asked for the sizes of logs, for the lag in bytes."""
log = logging.getLogger("insync.spark")


def make_stream_reader(
    options: SourceOptions, columns: tuple[str, ...], typed: TypedColumns | None = None
) -> DataSourceStreamReader:
    """`columns` are those of the log that the query needs; `typed` says what becomes of them."""
    return (StreamReader if HAS_ADMISSION_CONTROL else UnlimitedStreamReader)(options, columns, typed)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, columns: tuple[str, ...], typed: TypedColumns | None = None) -> None:
        self._options = options
        self._columns = columns
        self._typed = typed
        self._open_view: ClusterView | None = None
        self._initial: StreamOffset | None = None
        self._target: ClusterSnapshot | None = None
        """Where an AvailableNow run ends."""
        self._latest: ClusterSnapshot | None = None
        self._end: Offsets = {}
        """Where the last batch ended."""
        self._bytes_per_offset: dict[TopicPartition, float] = {}
        self._sized_s: float | None = None
        self._committed: Offsets = {}
        self._last_batch_s: float | None = None

    # --- Spark's interface -------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        if self._initial is None:
            self._initial = self._find_initial_offset()
        return self._initial.to_dict()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = snapshot_cluster(self._view, must_exist=False)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        options = self._options
        if options.max_offsets is not None:
            return ReadMaxRows(options.max_offsets)
        return ReadAllAvailable() if options.min_offsets is None else ReadMinRows(options.min_offsets)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        done = StreamOffset.from_dict(start)
        if not done.initial:
            self._commit_group(done.offsets)
        self._view.remember_epochs((done.id_of(topic), index, epoch) for (topic, index), epoch in done.epochs.items())
        now = self._target or snapshot_cluster(self._view, must_exist=False)
        self._latest, self._end = now, done.offsets
        begin = find_batch_start(self._view, done, now, fail=self._options.fail_on_data_loss)
        unlimited = isinstance(limit, ReadAllAvailable)
        if not unlimited and not done.initial and self._should_wait(begin, now.offsets):
            return start
        max_offsets = self._options.max_offsets
        end = now.offsets if unlimited or max_offsets is None else limit_batch(begin, now.offsets, max_offsets)
        end = {key: max(offset, begin[key]) for key, offset in end.items()}
        if not done.initial and end == begin and begin == done.offsets:
            return start
        self._last_batch_s = time.monotonic()
        self._end = end
        origin = begin if done.initial else {key: at for key, at in begin.items() if done.offsets.get(key) != at}
        return StreamOffset(end, now.epochs, now.ids, origin).to_dict()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """With what else is worth reporting: `progress` says why here."""
        if self._latest is None or not self._latest.latest:
            return None
        self._measure_sizes(self._latest)
        metrics = measure_lag(self._end, self._latest.offsets, self._bytes_per_offset)
        extension = {"description": describe_source(self._options), "metrics": metrics}
        return {**by_topic(self._latest.offsets), EXTENSION: extension}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        before, after = StreamOffset.from_dict(start), StreamOffset.from_dict(end)
        begin = before.offsets | after.origin
        if unknown := [key for key in after.offsets if key not in begin]:  # in a checkpoint of Spark's connector
            begin |= self._view.list_offsets(dict.fromkeys(unknown, EARLIEST))
        whole = [OffsetRange(*key, begin[key], until) for key, until in after.offsets.items() if begin[key] < until]
        from_lake, whole = plan_lake_tasks(self._view, whole, self._options, self._columns)
        known = PlannedPartitions(after.ids, after.epochs, self._find_leaders(after, {part.key for part in whole}))
        return [*from_lake, *plan_tasks(whole, self._options, self._columns, known)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return decode_rows(read_offsets(partition), self._typed)

    def commit(self, end: dict[str, Any]) -> None:
        self._commit_group(StreamOffset.from_dict(end).offsets)

    def stop(self) -> None:
        if self._open_view is not None:
            self._open_view.close()
            self._open_view = None

    # --- helpers -----------------------------------------------------------------------------------------------------

    @property
    def _view(self) -> ClusterView:
        """Opened on first use: Spark copies readers to executors."""
        if self._open_view is None:
            self._open_view = open_view(self._options)
        return self._open_view

    def _find_leaders(
        self, after: StreamOffset, keys: Collection[TopicPartition]
    ) -> dict[TopicPartition, PlannedLeader]:
        """Of the topics that are the same as when the batch was planned. A batch that is repeated after a restart has
        none: its tasks look them up."""
        described = {} if self._latest is None else self._latest.topics
        unchanged = {name: topic for name, topic in described.items() if str(topic.id) == after.id_of(name)}
        return self._view.find_leaders(unchanged, keys)

    def _find_initial_offset(self) -> StreamOffset:
        options = self._options
        position = options.start or Position(EARLIEST if options.lake else LATEST)
        now = snapshot_cluster(self._view, must_exist=True)
        keys = sorted(now.offsets)
        offsets = self._view.resolve_position(position, keys, latest_without_match=options.latest_without_match)
        if self._target is not None:  # records may have come since it was prepared: the start must not pass the end
            ends = self._target.offsets
            named = {key for key, offset in position.offsets.items() if offset >= 0}
            offsets = {key: at if key in named else min(at, ends.get(key, at)) for key, at in offsets.items()}
        return StreamOffset(offsets, now.epochs, now.ids, initial=True)

    def _should_wait(self, begin: Offsets, latest: Offsets) -> bool:
        """There are fewer records than `minOffsetsPerTrigger`, and `maxTriggerDelay` has not passed. An AvailableNow
        run does not wait."""
        min_offsets = self._options.min_offsets
        if min_offsets is None or self._target is not None or self._last_batch_s is None:
            return False
        if sum(backlog(begin, latest).values()) >= min_offsets:
            return False
        return (time.monotonic() - self._last_batch_s) * 1_000 < self._options.max_delay_ms

    def _measure_sizes(self, now: ClusterSnapshot) -> None:
        """Now and then, while the stream is behind. Brokers need not answer."""
        due = self._sized_s is None or time.monotonic() - self._sized_s > SIZE_INTERVAL_S
        if not due or not any(backlog(self._end, now.offsets).values()):
            return
        self._sized_s = time.monotonic()
        try:
            self._bytes_per_offset = self._view.measure_bytes_per_offset(now.topics, now.offsets)
        except ClientError as error:
            log.debug("no sizes of logs: %s", error)

    def _commit_group(self, done: Offsets) -> None:
        """For lag monitoring. A failure does not stop the query: its progress is in the checkpoint."""
        if not self._options.group or not done or done == self._committed:
            return
        try:
            self._view.commit_offsets(self._options.group, done)
        except ClientError as error:
            log.warning("the lag of group '%s' is not up to date: %s", self._options.group, error)
        else:
            self._committed = done


class UnlimitedStreamReader(StreamReader):
    """For PySpark 4.0 and 4.1, which call `latestOffset` without the offset that the last batch ended at. It is known
    but for the first batch after a restart; that one looks for losses, and for the start of new partitions, when its
    tasks are planned."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...], typed: TypedColumns | None = None) -> None:
        super().__init__(options, columns, typed)
        self._previous: dict[str, Any] | None = None
        self._is_start_unknown = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        self._previous = super().initialOffset()
        return self._previous

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        if self._previous is not None:
            self._previous = super().latestOffset(self._previous, ReadAllAvailable())
        else:
            now = snapshot_cluster(self._view, must_exist=False)
            self._is_start_unknown = True
            self._previous = StreamOffset(now.offsets, now.epochs, now.ids).to_dict()
        return self._previous

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if self._is_start_unknown and end == self._previous:
            end = self._with_start(StreamOffset.from_dict(start), StreamOffset.from_dict(end)).to_dict()
        self._is_start_unknown = False
        self._previous = self._previous or end
        return super().partitions(start, end)

    def _with_start(self, before: StreamOffset, after: StreamOffset) -> StreamOffset:
        now = snapshot_cluster(self._view, must_exist=False)
        begin = find_batch_start(self._view, before, now, fail=self._options.fail_on_data_loss)
        origin = {key: at for key, at in begin.items() if key in after.offsets and at != before.offsets.get(key)}
        return StreamOffset(after.offsets, after.epochs, after.ids, after.origin | origin)


class RejectedStreamReader(DataSourceStreamReader):
    """For options with a mistake. PySpark hides an error of `streamReader` behind an UnboundLocalError of its own."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        raise self._error

    def latestOffset(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # noqa: N802
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[Any]:
        raise self._error
