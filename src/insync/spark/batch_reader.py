"""Batch queries on `format("insync")`: the log between two positions.

The driver looks up where the partitions begin and end and splits them into tasks; the executors fetch record batches
from the leaders and decode them into Arrow columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from insync.client.offsets import EARLIEST, LATEST
from insync.spark.cluster_snapshot import ClusterSnapshot, clamp_to_log, snapshot_cluster
from insync.spark.cluster_view import ClusterView
from insync.spark.conditions import Conditions, is_pushing_filters
from insync.spark.executor import decode_rows, read_offsets
from insync.spark.lake_view import open_view, plan_lake_tasks
from insync.spark.option_values import OptionError
from insync.spark.planning import OffsetRange
from insync.spark.source_options import Position, SourceOptions
from insync.spark.task_planning import PlannedPartitions, plan_tasks
from insync.spark.typed_options import TypedColumns

_DEFAULT_START, _DEFAULT_END = "'startingOffsets' is 'earliest'", "'endingOffsets' is 'latest'"


def make_batch_reader(
    options: SourceOptions, columns: tuple[str, ...], typed: TypedColumns | None = None
) -> BatchReader:
    """`columns` are those of the log that the query needs; `typed` says what becomes of them."""
    is_pushing = options.push_filters and is_pushing_filters()
    return (PushDownBatchReader if is_pushing else BatchReader)(options, columns, typed)


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, columns: tuple[str, ...], typed: TypedColumns | None = None) -> None:
        self._options = options
        self._columns = columns
        self._typed = typed
        self._conditions = Conditions()

    def partitions(self) -> Sequence[InputPartition]:
        view = open_view(self._options)
        try:
            return self._plan_tasks(view)
        finally:
            view.close()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return decode_rows(read_offsets(partition), self._typed)

    def _plan_tasks(self, view: ClusterView) -> list[InputPartition]:
        options = self._options
        now = snapshot_cluster(view, must_exist=True)
        wanted = narrow_ranges(view, self._plan_ranges(view, now), self._conditions)
        from_lake, whole = plan_lake_tasks(view, wanted, options, self._columns)
        known = PlannedPartitions(now.ids, now.epochs, view.find_leaders(now.topics, {part.key for part in whole}))
        return [*from_lake, *plan_tasks(whole, options, self._columns, known)]

    def _plan_ranges(self, view: ClusterView, now: ClusterSnapshot) -> list[OffsetRange]:
        """What the options select, as far as the log has it."""
        options, keys = self._options, sorted(now.latest)
        first, last = options.start or Position(EARLIEST), options.end or Position(LATEST)
        start = view.resolve_position(first, keys, latest_without_match=options.latest_without_match)
        end = now.offsets if last == Position(LATEST) else view.resolve_position(last, keys, latest_without_match=True)
        if reversed_ranges := [key for key in keys if start[key] > end[key]]:
            key = reversed_ranges[0]
            raise OptionError(
                f"options {first.option or _DEFAULT_START} and {last.option or _DEFAULT_END}: "
                f"{key[0]}-{key[1]} would be read from {start[key]} to {end[key]}"
            )
        if first != Position(EARLIEST) or last != Position(LATEST):
            start, end = clamp_to_log(view, start, end, now, fail=options.fail_on_data_loss)
        return [OffsetRange(*key, start[key], end[key]) for key in keys]


class PushDownBatchReader(BatchReader):
    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802  Spark's name
        """Returns all of them: Spark applies them to the rows, too."""
        self._conditions = Conditions(filters)
        return filters


def narrow_ranges(view: ClusterView, ranges: list[OffsetRange], conditions: Conditions) -> list[OffsetRange]:
    """Without the offsets whose records cannot satisfy the conditions. The ranges end where their partitions ended
    before: if no record is new enough now, none in the range is."""
    if conditions.is_empty:
        return [offsets for offsets in ranges if offsets.size > 0]
    low, high = conditions.offsets
    narrowed = [
        replace(offsets, start=max(offsets.start, low), end=min(offsets.end, high))
        for offsets in ranges
        if conditions.allow("topic", offsets.topic) and conditions.allow("partition", offsets.partition)
    ]
    narrowed = [offsets for offsets in narrowed if offsets.size > 0]
    if conditions.since_ms is None or not narrowed:
        return narrowed
    first = view.list_offsets({offsets.key: conditions.since_ms for offsets in narrowed})
    return [
        replace(offsets, start=max(offsets.start, first[offsets.key]))
        for offsets in narrowed
        if 0 <= first[offsets.key] < offsets.end
    ]
