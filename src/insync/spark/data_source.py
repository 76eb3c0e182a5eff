"""`format("insync")`: topics as a source and a sink, for batch queries and streams.

Rows have the columns of Spark's Kafka connector. With a user schema of fewer columns, only those are decoded.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from insync.spark.batch_reader import make_batch_reader
from insync.spark.option_values import OptionError
from insync.spark.read_task import COLUMNS, HEADERS
from insync.spark.schemas import select_columns, to_ddl
from insync.spark.sink.writers import make_batch_writer, make_stream_writer
from insync.spark.source_options import read_source_options
from insync.spark.stream_reader import RejectedStreamReader, make_stream_reader


class InsyncDataSource(DataSource):
    """Kafka topics, of insync or any other Kafka cluster."""

    @classmethod
    def name(cls) -> str:
        return "insync"

    def schema(self) -> str:
        options = {name.lower(): value for name, value in self.options.items()}
        with_headers = options.get("includeheaders", "false").lower() == "true"
        return to_ddl({name: kind for name, kind in COLUMNS.items() if with_headers or name != HEADERS})

    def reader(self, schema: StructType) -> DataSourceReader:
        return make_batch_reader(read_source_options(self.options, streaming=False), select_columns(schema, COLUMNS))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        try:
            return make_stream_reader(
                read_source_options(self.options, streaming=True), select_columns(schema, COLUMNS)
            )
        except OptionError as error:
            return RejectedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return make_batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  Spark's name
        return make_stream_writer(self.options, schema)
