"""A task with many small ranges: one request to each leader fetches all of them.

Rows come in the order of the plan, whatever the order of the answers: a task that runs again returns the same rows in
the same order, which the sink's fence relies on. So the answers are collected first. If they turn out to be large, or
something unusual happens, the ranges are read to their end one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby

import pyarrow as pa

from insync.client.sync_client import SyncClient
from insync.columnar.buffers import rows_without_columns
from insync.spark.read_task import CombinedTask, ReadTask
from insync.spark.task_reader import (
    RECOVERABLE,
    TaskReader,
    client_for,
    describe_topic,
    fetch,
    take_planned_topic,
)

MAX_COLLECTED_BYTES = 32 << 20
BATCH_ROWS = 40_000


def read_combined(task: CombinedTask) -> Iterator[pa.RecordBatch]:
    client = client_for(task.parts[0].options)
    for _, parts in groupby(task.parts, key=lambda part: part.range.topic):
        yield from _read_topic(list(parts), client)


def _read_topic(parts: Sequence[ReadTask], client: SyncClient) -> Iterator[pa.RecordBatch]:
    readers = [TaskReader(part, client) for part in parts]
    collected = _collect(parts, readers, client)
    rows: list[pa.RecordBatch] = []
    for reader in readers:
        rows += collected[reader.partition]
        if not reader.is_done:
            yield from _join(rows)
            rows = []
            yield from reader.batches()
    yield from _join(rows)


def _collect(
    parts: Sequence[ReadTask], readers: Sequence[TaskReader], client: SyncClient
) -> dict[int, list[pa.RecordBatch]]:
    """Rows by partition, as far as the readers have come."""
    by_partition = {reader.partition: reader for reader in readers}
    collected: dict[int, list[pa.RecordBatch]] = {partition: [] for partition in by_partition}
    size = 0
    try:
        topic = take_planned_topic(parts, client) or describe_topic(parts, client)
        with closing(fetch(readers, topic, client)) as responses:
            for fetched in responses:
                collected[fetched.partition] += by_partition[fetched.partition].decode_response(fetched)
                size += len(fetched.data)
                if size > MAX_COLLECTED_BYTES:
                    break
    except RECOVERABLE:
        pass  # the reader that it concerns meets it again, and reports it
    return collected


def _join(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Few large batches: Spark's work is per batch."""
    if not batches:
        return
    if not batches[0].num_columns:
        yield rows_without_columns(sum(batch.num_rows for batch in batches))
    else:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
