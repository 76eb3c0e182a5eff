"""`format("insync-log")`: log directories straight from disk, of any number of brokers, in one DataFrame.

    spark.read.format("insync-log").option("topics", "orders").load("/var/lib/kafka-*")

The driver lists segments and leaves out those that names, indexes, high watermarks and the options exclude; each
segment is a task. The directories must be readable where the executors run. A user schema with fewer columns makes only
those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from insync.logdir.columns import COLUMNS
from insync.logdir.files import Segment, plan_segments
from insync.logdir.options import ReadOptions
from insync.spark import schemas
from insync.spark.log_options import read_options

NAME = "insync-log"


class LogDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return schemas.ddl(COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        return LogReader(read_options(self.options), schemas.asked_for(schema, COLUMNS))


@dataclass
class SegmentTask(InputPartition):
    """Pickled to an executor."""

    segment: Segment


class LogReader(DataSourceReader):
    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        return [SegmentTask(segment) for segment in plan_segments(self._options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from insync.logdir.rows import read_segment  # in executors only: the decoder is slow to load
        from insync.spark import worker

        if not isinstance(partition, SegmentTask):
            return iter(())  # Spark's own, where there is nothing to read
        worker.settle()
        return read_segment(partition.segment, self._columns)
