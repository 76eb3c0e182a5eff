"""`format("insync-log")`: log directories from disk, of any number of brokers, in one DataFrame.

    spark.read.format("insync-log").option("topics", "orders").load("/var/lib/kafka-*")

The driver lists segments and leaves out those that names, indexes, high watermarks and the options exclude; each
segment is a task. The executors must be able to read the directories. With a user schema of fewer columns, only those
are decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from insync.logdir.columns import COLUMNS
from insync.logdir.files import Replica, plan_segments
from insync.logdir.options import ROWS, ReadOptions
from insync.spark.conditions import NO_LIMIT, Conditions, is_pushing_filters
from insync.spark.executor import SegmentTask, decode_rows, read_segment
from insync.spark.log_options import read_log_options
from insync.spark.option_values import OptionValues
from insync.spark.schemas import select_columns
from insync.spark.typed_options import TYPED_NAMES, TypedColumns, add_typed_columns, read_typed_options


class LogDataSource(DataSource):
    """Log directories, of insync or Apache Kafka."""

    @classmethod
    def name(cls) -> str:
        return "insync-log"

    _typed: TypedColumns | None = None
    """What keys and values are decoded to, once Spark has asked for the schema."""

    def schema(self) -> StructType:
        self._typed = self._read_typed(None)
        return add_typed_columns(COLUMNS, self._typed)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_log_options(self.options)
        make = PushDownLogReader if options.push_filters and is_pushing_filters() else LogReader
        typed = self._typed or self._read_typed(schema)
        return make(options, *select_columns(schema, COLUMNS, typed))

    def _read_typed(self, schema: StructType | None) -> TypedColumns | None:
        values = OptionValues(self.options, TYPED_NAMES)
        return read_typed_options(values, lambda: read_log_options(self.options).topics, schema)


class LogReader(DataSourceReader):
    def __init__(self, options: ReadOptions, columns: tuple[str, ...], typed: TypedColumns | None = None) -> None:
        self._options = options
        self._columns = columns
        self._typed = typed
        self._conditions = Conditions()

    def partitions(self) -> Sequence[InputPartition]:
        segments = plan_segments(narrow_options(self._options, self._conditions), self._is_wanted)
        return [SegmentTask(segment, self._columns) for segment in segments]

    def _is_wanted(self, replica: Replica) -> bool:
        constants: dict[str, int | str] = {
            "broker": replica.broker,
            "topic": replica.topic,
            "partition": replica.partition,
        }
        return all(self._conditions.allow(column, value) for column, value in constants.items())

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return decode_rows(read_segment(partition), self._typed)


class PushDownLogReader(LogReader):
    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802  Spark's name
        """Returns all of them: Spark applies them to the rows, too."""
        self._conditions = Conditions(filters)
        return filters


def narrow_options(options: ReadOptions, conditions: Conditions) -> ReadOptions:
    """Without the offsets and times that cannot satisfy the conditions. If damage becomes rows, everything is read."""
    if options.corrupt == ROWS:
        return options
    low, high = conditions.offsets
    start, end = options.start_offset or 0, NO_LIMIT if options.end_offset is None else options.end_offset
    narrowed = replace(options, newer_than_ms=conditions.since_ms)
    if low > start:
        narrowed = replace(narrowed, start_offset=low)
    return replace(narrowed, end_offset=high) if high < end else narrowed
