"""`format("insync")` and its batch queries: the log between two positions, as rows of Spark's Kafka connector.

The driver asks where the partitions begin and end and cuts them into tasks; each executor fetches raw record batches
from the leaders and decodes them into Arrow columns. A user schema with fewer columns makes only those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from insync.spark import schemas, seen, tasks
from insync.spark.cluster_view import ClusterView
from insync.spark.options import EARLIEST, LATEST, OptionError, Position, SourceOptions, read_source
from insync.spark.planning import OffsetRange, split
from insync.spark.seen import Seen

NAME = "insync"
DEFAULT_START, DEFAULT_END = "'startingOffsets' is 'earliest'", "'endingOffsets' is 'latest'"


class InsyncDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        options = {name.lower(): value for name, value in self.options.items()}
        with_headers = options.get("includeheaders", "false").lower() == "true"
        return schemas.ddl(
            {name: kind for name, kind in tasks.COLUMNS.items() if with_headers or name != tasks.HEADERS}
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(read_source(self.options, streaming=False), schemas.asked_for(schema, tasks.COLUMNS))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        from insync.spark.stream import StreamReader

        return StreamReader(read_source(self.options, streaming=True), schemas.asked_for(schema, tasks.COLUMNS))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from insync.spark import sink

        return sink.batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  Spark's name
        from insync.spark import sink

        return sink.stream_writer(self.options, schema, overwrite)


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        view = ClusterView.of_source(self._options)
        try:
            return self._tasks(view)
        finally:
            view.close()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return tasks.read(partition)

    def _tasks(self, view: ClusterView) -> list[tasks.Task]:
        options = self._options
        now = seen.look(view, insist=True)
        cut = split(self._ranges(view, now), min_partitions=options.min_partitions, max_records=options.max_records)
        ids, epochs = now.ids, now.epochs
        return [tasks.Task(each, options, self._columns, ids.get(each.topic, ""), epochs[each.key]) for each in cut]

    def _ranges(self, view: ClusterView, now: Seen) -> list[OffsetRange]:
        """What the options name, as far as the log has it: what it should have and has not is a loss."""
        options, keys = self._options, sorted(now.latest)
        first, last = options.start or Position(EARLIEST), options.end or Position(LATEST)
        start = view.resolve(first, keys, latest_without_match=options.latest_without_match)
        end = now.offsets if last == Position(LATEST) else view.resolve(last, keys, latest_without_match=True)
        if wrong := [key for key in keys if start[key] > end[key]]:
            topic, index = wrong[0]
            where = f"{topic}-{index} would be read from {start[wrong[0]]} to {end[wrong[0]]}"
            told = f"{first.option or DEFAULT_START} and {last.option or DEFAULT_END}"
            raise OptionError(f"options {told}: {where}")
        if first != Position(EARLIEST) or last != Position(LATEST):
            seen.within(view, start, end, now, fail=options.fail_on_data_loss)
        return [OffsetRange(*key, start[key], end[key]) for key in keys]


__all__ = ["BatchReader", "InsyncDataSource"]
