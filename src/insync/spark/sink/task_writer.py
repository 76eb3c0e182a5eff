"""One task of the sink: its rows, as Arrow batches, into record batches of the partitions they belong to."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from insync.client import topics
from insync.client.model import Topic
from insync.client.sync_client import SyncClient
from insync.columnar import partitioning
from insync.columnar.columns import Columns, to_columns
from insync.columnar.digest import compute_digests
from insync.columnar.encode import BatchBuilder
from insync.columnar.record_sizes import estimate_record_sizes
from insync.spark.sink.fence import Fence
from insync.spark.sink.options import SinkOptions
from insync.spark.sink.sender import Sender
from insync.spark.sink.stored_rows import StoredRows, list_last_sequences, read_back
from insync.spark.worker_clients import get_client

CLIENT_ID = "insync-spark-sink"
_SEQUENCES = 1 << 31
_log = logging.getLogger("insync.spark.sink")


@dataclass
class WriteReport(WriterCommitMessage):
    """What a task did."""

    rows: int = 0
    already_stored: int = 0
    """Rows that an earlier attempt had stored."""
    batches: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class _Attempt:
    """What the writers of one attempt share."""

    client: SyncClient
    sender: Sender
    options: SinkOptions
    fence: Fence
    task: int


def write(batches: Iterable[pa.RecordBatch], options: SinkOptions, fence: Fence, task: int) -> WriteReport:
    report = WriteReport()
    client = get_client(options.bootstrap, client_id=CLIENT_ID, timeout_s=options.request_s, settings=options.client)
    with Sender(
        client, codec=options.codec, delivery_s=options.delivery_s, buffer_bytes=options.buffer_bytes
    ) as sender:
        attempt = _Attempt(client, sender, options, fence, task)
        writers: dict[str, _TopicWriter] = {}
        for rows in batches:
            report.rows += len(rows)
            for name, topic_rows in split_by_topic(rows, options.topic):
                if name not in writers:
                    writers[name] = _TopicWriter(name, attempt)
                writers[name].add(topic_rows)
        for writer in writers.values():
            writer.finish()
            report.already_stored += writer.already_stored
        sender.drain()
        report.batches, report.bytes = sender.batches, sender.bytes
    return report


def split_by_topic(rows: pa.RecordBatch, topic: str | None) -> list[tuple[str, pa.RecordBatch]]:
    """`topic`, the option, wins over the column."""
    if topic is not None:
        return [(topic, rows)]
    column = rows.column("topic")
    if column.null_count:
        raise ValueError("column 'topic' is null in a row, and option 'topic' is not set")
    encoded = column.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    if len(names) == 1:
        return [(names[0], rows)]
    indexes = encoded.indices.to_numpy()
    return [(name, rows.take(pa.array(np.flatnonzero(indexes == i)))) for i, name in enumerate(names)]


class _TopicWriter:
    def __init__(self, name: str, attempt: _Attempt) -> None:
        self.topic: Topic = attempt.client.call(lambda cluster: topics.describe_one(cluster, name))
        self._attempt = attempt
        self._keyless = 0
        """Rows without a key so far: they take the partitions in turn."""
        self._partitions: dict[int, _PartitionWriter] = {}

    @property
    def already_stored(self) -> int:
        return sum(writer.already_stored for writer in self._partitions.values())

    def add(self, rows: pa.RecordBatch) -> None:
        names = rows.schema.names
        key = rows.column("key") if "key" in names else None
        headers = rows.column("headers") if "headers" in names else None
        times = rows.column("timestamp") if self._attempt.options.timestamps else None
        prepared = to_columns(rows.column("value"), key, headers, times)
        self._check_sizes(prepared)
        now_ms = time.time_ns() // 1_000_000
        count = len(self.topic.partitions)
        chosen, self._keyless = partitioning.choose_partitions(
            prepared.keys, self._given_partitions(rows), count, self._attempt.task, self._keyless
        )
        groups = partitioning.group_by_partition(chosen, count)
        self._open_partitions([index for index, _ in groups if index not in self._partitions])
        for index, indexes in groups:
            self._partitions[index].add(prepared, indexes, now_ms)

    def _open_partitions(self, indexes: list[int]) -> None:
        """Ask for what an earlier attempt stored in these partitions, and only in these: the topic may have thousands
        of them."""
        attempt = self._attempt
        if not indexes:
            return
        producer = attempt.fence.producer_id(attempt.task, 0), attempt.fence.epoch
        last = list_last_sequences(attempt.client, self.topic.name, indexes, *producer, known=self.topic)
        for index in indexes:
            self._partitions[index] = _PartitionWriter(self.topic, index, last.get(index, -1), attempt)

    def _check_sizes(self, prepared: Columns) -> None:
        limit = self._attempt.options.max_record_bytes
        if limit is not None and (largest := int(estimate_record_sizes(prepared).max(initial=0))) > limit:
            raise ValueError(
                f"a record for topic '{self.topic.name}' has {largest} bytes, more than option "
                f"'kafka.max.request.size' allows ({limit})"
            )

    def _given_partitions(self, rows: pa.RecordBatch) -> Any:
        """Column `partition`; -1 for rows without one."""
        if "partition" not in rows.schema.names:
            return np.full(len(rows), -1, np.int32)
        column, count = rows.column("partition"), len(self.topic.partitions)
        given = column.fill_null(-1).to_numpy(zero_copy_only=False)
        is_given = column.is_valid().to_numpy(zero_copy_only=False)
        invalid = given[is_given & ((given < 0) | (given >= count))]
        if len(invalid):
            existing = f"topic '{self.topic.name}' has partitions 0 to {count - 1}"
            raise ValueError(f"column 'partition' is {invalid[0]}: {existing}")
        return given

    def finish(self) -> None:
        for writer in self._partitions.values():
            writer.finish()


class _PartitionWriter:
    """The rows for one partition. A row's sequence is the number of rows before it."""

    def __init__(self, topic: Topic, index: int, last: int, attempt: _Attempt) -> None:
        self._topic = topic
        self._index = index
        self._attempt = attempt
        self._level = 0
        self._builder = BatchBuilder(attempt.options.codec, attempt.options.batch_bytes)
        self._next = 0
        self._stored = self._read_back(last)
        self.already_stored = 0

    @property
    def _producer_id(self) -> int:
        return self._attempt.fence.producer_id(self._attempt.task, self._level)

    @property
    def _name(self) -> str:
        return f"{self._topic.name}-{self._index}"

    def add(self, prepared: Columns, indexes: Any, now_ms: int) -> None:
        first = self._skip_stored(prepared, indexes)
        while first < len(indexes):
            taken = self._builder.add(prepared, indexes, first, now_ms)
            if not taken:
                self._send()
            first += taken
            self._next += taken

    def finish(self) -> None:
        if self._builder.count:
            self._send()
        if self._stored is not None:
            _log.warning("an earlier attempt wrote more rows to %s: the query is not deterministic", self._name)

    def _send(self) -> None:
        sequence = (self._next - self._builder.count) % _SEQUENCES
        data = self._builder.finish(self._producer_id, self._attempt.fence.epoch, sequence)
        self._attempt.sender.put(self._topic, self._index, data)

    # --- what an earlier attempt has stored --------------------------------------------------------------------------

    def _skip_stored(self, prepared: Columns, indexes: Any) -> int:
        """How many of the rows are stored already."""
        while self._stored is not None:
            count = min(len(indexes), self._stored.end - self._next)
            if self._stored.matches(self._next, compute_digests(prepared, indexes[:count])):
                self._next += count
                self.already_stored += count
                if self._next == self._stored.end:
                    self._stored = None
                return count
            _log.warning("rows that an earlier attempt wrote to %s differ: some may be stored twice", self._name)
            self._level += 1
            self._next = 0
            self._stored = self._read_back(self._last_sequence())
        return 0

    def _last_sequence(self) -> int:
        producer = (self._producer_id, self._attempt.fence.epoch)
        last = list_last_sequences(self._attempt.client, self._topic.name, [self._index], *producer)
        return last.get(self._index, -1)

    def _read_back(self, last: int) -> StoredRows | None:
        if last < 0:
            return None
        producer = (self._producer_id, self._attempt.fence.epoch)
        return read_back(self._attempt.client, self._topic.name, self._index, *producer, last)
