"""`format("insync")`: topics as a source and a sink, for batch queries and streams.

Rows have the columns of Spark's Kafka connector. With a user schema of fewer columns, only those are decoded. Options
such as `valueFormat` turn keys and values into columns of their own types (`typed_options`).
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
from insync.spark.option_values import OptionError, OptionValues
from insync.spark.read_task import COLUMNS, HEADERS
from insync.spark.schemas import select_columns
from insync.spark.sink.writers import make_batch_writer, make_stream_writer
from insync.spark.source_options import read_source_options, read_topics
from insync.spark.stream_reader import RejectedStreamReader, make_stream_reader
from insync.spark.typed_options import TYPED_NAMES, TypedColumns, add_typed_columns, read_typed_options


class InsyncDataSource(DataSource):
    """Kafka topics, of insync or any other Kafka cluster."""

    @classmethod
    def name(cls) -> str:
        return "insync"

    _typed: TypedColumns | None = None
    """What keys and values are decoded to, once Spark has asked for the schema: a query keeps it."""

    def schema(self) -> StructType:
        options = {name.lower(): value for name, value in self.options.items()}
        with_headers = options.get("includeheaders", "false").lower() == "true"
        self._typed = self._read_typed(None)
        columns = {name: kind for name, kind in COLUMNS.items() if with_headers or name != HEADERS}
        return add_typed_columns(columns, self._typed)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_source_options(self.options, streaming=False)
        return make_batch_reader(options, *self._select_columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        try:
            options = read_source_options(self.options, streaming=True)
            return make_stream_reader(options, *self._select_columns(schema))
        except OptionError as error:
            return RejectedStreamReader(error)

    def _select_columns(self, schema: StructType) -> tuple[tuple[str, ...], TypedColumns | None]:
        return select_columns(schema, COLUMNS, self._typed or self._read_typed(schema))

    def _read_typed(self, schema: StructType | None) -> TypedColumns | None:
        values = OptionValues(self.options, TYPED_NAMES)
        return read_typed_options(values, lambda: read_topics(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return make_batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  Spark's name
        return make_stream_writer(self.options, schema)
