"""`format("insync")` as a sink, for batch jobs and streams: rows of Spark's Kafka connector into topics.

A stream is fenced by its query's id and the micro-batch's number: a micro-batch that runs again, in whole or in part,
does not double what is stored. A batch job is fenced by an id of its own, so that tasks may be tried again. What that
promises, and what not, is in docs/guides/spark.md and decision 11.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from insync.spark.options import OptionError
from insync.spark.sink_identity import Fence
from insync.spark.sink_options import SinkOptions, check_columns, read_sink

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    if overwrite:
        raise OptionError("a log can only be appended to: use mode('append')")
    found = _checked(options, schema)
    return BatchSink(found, found.fence_id or str(uuid.uuid4()))


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
    found = _checked(options, schema)
    if found.fence_id:
        raise OptionError(f"option 'fenceId' is {found.fence_id!r}: a stream has an id of its own, in its checkpoint")
    return StreamSink(found)


def _checked(options: Mapping[str, str], schema: StructType) -> SinkOptions:
    found = read_sink(options)
    check_columns(schema, found)
    return found


class BatchSink(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions, job: str) -> None:
        self._options = options
        self._job = job

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return _write(iterator, self._options, Fence(self._job), _context().partitionId())


class StreamSink(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = _context()
        query = context.getLocalProperty(_QUERY)
        batch = context.getLocalProperty(_BATCH)
        if not query or batch is None:
            raise OptionError("this is no streaming query: its id and the number of the micro-batch are unknown")
        return _write(iterator, self._options, Fence(query, int(batch)), context.partitionId())


def _write(batches: Iterator[Any], options: SinkOptions, fence: Fence, task: int) -> WriterCommitMessage:
    from insync.spark import sink_task, worker  # in executors only: the encoder is slow to load

    worker.settle()
    return sink_task.write(batches, options, fence, task)


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise OptionError("the sink runs in Spark's tasks only")
    return context
