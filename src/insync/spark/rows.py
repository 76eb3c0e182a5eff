"""One task's work: a range of offsets, fetched raw from the leader and turned into Arrow batches of Spark's columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from insync.client import topics
from insync.client.blocking import Blocking
from insync.client.errors import ClientError
from insync.columnar.decode import TYPES, Wanted, decode
from insync.columnar.headers import scan
from insync.spark.planning import OffsetRange

SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
HEADERS = "headers array<struct<key: string, value: binary>>"
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
FETCH_BYTES = 4 << 20
"""Of one answer: 40,000 records of 100 bytes, which is the size of batch that Spark likes best."""


class CorruptBatch(ClientError):  # noqa: N818  says what happened
    """What the broker sent is not what was written."""


@dataclass
class Task(InputPartition):
    """Pickled to an executor."""

    range: OffsetRange
    bootstrap: str
    columns: tuple[str, ...]
    isolation: str
    timeout_s: float
    client: Mapping[str, str]


def read(task: Task) -> Iterator[pa.RecordBatch]:
    wanted_range = task.range
    decoded_columns = tuple(name for name in task.columns if name in TYPES)
    with Blocking(task.bootstrap, timeout=task.timeout_s, client_id="insync-spark") as client:
        topic = client.call(lambda cluster: topics.describe_one(cluster, wanted_range.topic))
        answers = client.raw(
            topic,
            {wanted_range.partition: wanted_range.start},
            {wanted_range.partition: wanted_range.end},
            next_of=next_of,
            isolation=int(task.isolation == "read_committed"),
            partition_bytes=FETCH_BYTES,
        )
        at = wanted_range.start
        for fetched in answers:
            decoded = decode(
                fetched.data,
                Wanted(decoded_columns, at, wanted_range.end, isolation=task.isolation, aborted=fetched.aborted),
            )
            if decoded.corrupt:
                found = decoded.corrupt[0]
                where = f"{wanted_range.topic}-{wanted_range.partition} offset {found.base_offset}"
                raise CorruptBatch(f"the batch at {where} is damaged: {found.reason}")
            at = max(at, decoded.next_offset)
            if decoded.rows:
                yield _as_rows(decoded.batch, decoded.rows, task)


def next_of(data: bytes) -> int:
    """One past the last whole batch; -1 if there is none."""
    headers, _, _ = scan(np.frombuffer(data, np.uint8))
    return int(headers.last_offset[-1]) + 1 if len(headers) else -1


def _as_rows(batch: pa.RecordBatch, rows: int, task: Task) -> pa.RecordBatch:
    arrays = [
        pa.repeat(task.range.topic, rows)
        if name == "topic"
        else pa.repeat(pa.scalar(task.range.partition, pa.int32()), rows)
        if name == "partition"
        else batch.column(name)
        for name in task.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, list(task.columns))
