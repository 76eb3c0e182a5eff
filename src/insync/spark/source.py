"""`format("insync")` for batch queries: what is in the log between two positions, as rows of Spark's Kafka connector.

The driver asks where the partitions begin and end and cuts them into tasks; each executor fetches raw record batches
from the leaders and decodes them into Arrow columns. A user schema with fewer columns makes only those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from insync.spark import rows
from insync.spark.cluster_view import ClusterView
from insync.spark.options import EARLIEST, LATEST, OptionError, Position, SourceOptions, read_source
from insync.spark.planning import OffsetRange, split

NAME = "insync"


class InsyncDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        options = {name.lower(): value for name, value in self.options.items()}
        with_headers = options.get("includeheaders", "false").lower() == "true"
        return f"{rows.SCHEMA}, {rows.HEADERS}" if with_headers else rows.SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(read_source(self.options, streaming=False), columns_of(schema))


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        view = ClusterView(self._options)
        try:
            ranges = self._ranges(view)
        finally:
            view.close()
        options = self._options
        cut = split(ranges, min_partitions=options.min_partitions, max_records=options.max_records)
        return [task(options, self._columns, each) for each in cut]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return rows.read(partition)  # type: ignore[arg-type]

    def _ranges(self, view: ClusterView) -> list[OffsetRange]:
        options = self._options
        keys = view.partitions()
        start = view.resolve(
            options.start or Position(EARLIEST), keys, latest_without_match=options.latest_without_match
        )
        end = view.resolve(options.end or Position(LATEST), keys, latest_without_match=True)
        return [OffsetRange(*key, start[key], end[key]) for key in keys]


def task(options: SourceOptions, columns: tuple[str, ...], each: OffsetRange) -> rows.Task:
    return rows.Task(
        range=each,
        bootstrap=options.bootstrap,
        columns=columns,
        isolation=options.isolation,
        timeout_s=options.timeout_s,
        client=options.client,
    )


def columns_of(schema: StructType) -> tuple[str, ...]:
    names = tuple(schema.fieldNames())
    if strange := [name for name in names if name not in rows.COLUMNS]:
        raise OptionError(f"there is no column '{strange[0]}'; there are {', '.join(rows.COLUMNS)}")
    return names


__all__ = ["BatchReader", "InsyncDataSource", "columns_of", "task"]
