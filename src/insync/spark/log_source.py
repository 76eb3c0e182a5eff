"""`format("insync-log")`: log directories from disk, of any number of brokers, in one DataFrame.

    spark.read.format("insync-log").option("topics", "orders").load("/var/lib/kafka-*")

The driver lists segments and leaves out those that names, indexes, high watermarks and the options exclude; each
segment is a task. The executors must be able to read the directories. With a user schema of fewer columns, only those
are decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from insync.logdir.columns import COLUMNS
from insync.logdir.files import plan_segments
from insync.logdir.options import ReadOptions
from insync.spark.executor import SegmentTask, read_segment
from insync.spark.log_options import read_log_options
from insync.spark.schemas import select_columns, to_ddl


class LogDataSource(DataSource):
    """Log directories, of insync or Apache Kafka."""

    @classmethod
    def name(cls) -> str:
        return "insync-log"

    def schema(self) -> str:
        return to_ddl(COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        return LogReader(read_log_options(self.options), select_columns(schema, COLUMNS))


class LogReader(DataSourceReader):
    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        return [SegmentTask(segment, self._columns) for segment in plan_segments(self._options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_segment(partition)
