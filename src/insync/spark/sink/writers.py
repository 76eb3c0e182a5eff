"""The sink's writers, as Spark calls them.

A stream is fenced by its query's id and the micro-batch's number: a micro-batch that runs again, in whole or in part,
does not store its rows twice. A batch job is fenced by an id of its own, so that its tasks can be retried.
docs/guides/spark.md says what that guarantees.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from insync.spark.executor import write_rows
from insync.spark.option_values import OptionError
from insync.spark.pyspark_versions import DataSourceStreamArrowWriter
from insync.spark.sink.fence import Fence
from insync.spark.sink.options import SinkOptions, check_columns, read_sink_options

_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's local properties of a streaming task."""


def make_batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    if overwrite:
        raise OptionError("a log can only be appended to: use mode('append')")
    sink_options = _read_checked(options, schema)
    return BatchWriter(sink_options, sink_options.fence_id or str(uuid.uuid4()))


def make_stream_writer(options: Mapping[str, str], schema: StructType) -> StreamWriter:
    sink_options = _read_checked(options, schema)
    if sink_options.fence_id:
        raise OptionError(
            f"option 'fenceId' is {sink_options.fence_id!r}: remove it, a stream is identified by its checkpoint"
        )
    return StreamWriter(sink_options)


def _read_checked(options: Mapping[str, str], schema: StructType) -> SinkOptions:
    sink_options = read_sink_options(options)
    check_columns(schema, sink_options)
    return sink_options


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions, job: str) -> None:
        self.options = options
        self.job = job

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return write_rows(iterator, self.options, Fence(self.job), _task_context().partitionId())


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = _task_context()
        query = context.getLocalProperty(_QUERY_ID)
        batch = context.getLocalProperty(_BATCH_ID)
        if not query or batch is None:
            raise OptionError("the stream writer runs in streaming queries only: Spark gave no query id or batch")
        return write_rows(iterator, self.options, Fence(query, int(batch)), context.partitionId())


def _task_context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise OptionError("the sink runs in Spark tasks only")
    return context
