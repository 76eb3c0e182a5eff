"""One task of the sink: its rows, as Arrow batches, to record batches of the partitions they belong to."""

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
from insync.columnar.columns import Columns, columns
from insync.columnar.digest import digests
from insync.columnar.encode import Builder
from insync.spark import sink_fence
from insync.spark.sink_fence import Stored
from insync.spark.sink_identity import Fence
from insync.spark.sink_options import SinkOptions
from insync.spark.sink_sender import Sender

_SEQUENCES = 1 << 31
_log = logging.getLogger("insync.spark.sink")


@dataclass
class Report(WriterCommitMessage):
    """What a task did. Rows that an earlier attempt had stored already are counted in `found`."""

    rows: int = 0
    found: int = 0
    batches: int = 0
    bytes: int = 0


def write(batches: Iterable[pa.RecordBatch], options: SinkOptions, fence: Fence, task: int) -> Report:
    report = Report()
    with (
        SyncClient(
            options.bootstrap,
            timeout_s=options.request_s,
            client_id="insync-spark-sink",
            settings=options.client,
            retry_connect=True,
        ) as client,
        Sender(client, codec=options.codec, delivery_s=options.delivery_s, memory=options.memory) as sender,
    ):
        writers: dict[str, _TopicWriter] = {}
        for rows in batches:
            report.rows += len(rows)
            for name, chosen in by_topic(rows, options.topic):
                if name not in writers:
                    writers[name] = _TopicWriter(name, client, sender, options, fence, task)
                writers[name].add(chosen)
        for writer in writers.values():
            writer.finish()
            report.found += writer.found
        sender.drain()
        report.batches, report.bytes = sender.batches, sender.bytes
    return report


def by_topic(rows: pa.RecordBatch, topic: str | None) -> list[tuple[str, pa.RecordBatch]]:
    """The option wins over the column."""
    if topic is not None:
        return [(topic, rows)]
    names = rows.column("topic")
    if names.null_count:
        raise ValueError("column 'topic' is null in a row, and there is no option 'topic'")
    encoded = names.dictionary_encode()
    found = encoded.dictionary.to_pylist()
    if len(found) == 1:
        return [(found[0], rows)]
    indexes = encoded.indices.to_numpy()
    return [(name, rows.take(pa.array(np.flatnonzero(indexes == i)))) for i, name in enumerate(found)]


class _TopicWriter:
    def __init__(
        self, name: str, client: SyncClient, sender: Sender, options: SinkOptions, fence: Fence, task: int
    ) -> None:
        self.topic: Topic = client.call(lambda cluster: topics.describe_one(cluster, name))
        self._options = options
        self._task = task
        self._keyless = 0
        self._common = (self.topic, client, sender, options, fence, task)
        every = [partition.index for partition in self.topic.partitions]
        self._last = sink_fence.last_sequences(client, name, every, fence.producer_id(task, 0), fence.epoch)
        self._partitions: dict[int, _PartitionWriter] = {}

    @property
    def found(self) -> int:
        return sum(each.found for each in self._partitions.values())

    def add(self, rows: pa.RecordBatch) -> None:
        names = rows.schema.names
        key = rows.column("key") if "key" in names else None
        headers = rows.column("headers") if "headers" in names else None
        times = rows.column("timestamp") if self._options.timestamps else None
        prepared = columns(rows.column("value"), key, headers, times)
        now_ms = time.time_ns() // 1_000_000
        chosen, self._keyless = partitioning.choose(
            prepared.keys, self._given(rows), len(self.topic.partitions), self._task, self._keyless
        )
        for index, mine in partitioning.grouped(chosen, len(self.topic.partitions)):
            if index not in self._partitions:
                self._partitions[index] = _PartitionWriter(index, self._last.get(index, -1), *self._common)
            self._partitions[index].add(prepared, mine, now_ms)

    def _given(self, rows: pa.RecordBatch) -> Any:
        if "partition" not in rows.schema.names:
            return np.full(len(rows), -1, np.int32)
        column, count = rows.column("partition"), len(self.topic.partitions)
        given = column.fill_null(-1).to_numpy(zero_copy_only=False)
        known = column.is_valid().to_numpy(zero_copy_only=False)
        wrong = given[known & ((given < 0) | (given >= count))]
        if len(wrong):
            where = f"topic '{self.topic.name}' has partitions 0 to {count - 1}"
            raise ValueError(f"column 'partition' is {wrong[0]}: {where}")
        return given

    def finish(self) -> None:
        for each in self._partitions.values():
            each.finish()


class _PartitionWriter:
    """The rows for one partition, numbered: the sequence of a row is how many went there before it."""

    def __init__(
        self,
        index: int,
        last: int,
        topic: Topic,
        client: SyncClient,
        sender: Sender,
        options: SinkOptions,
        fence: Fence,
        task: int,
    ) -> None:
        self._index = index
        self._topic = topic
        self._client = client
        self._sender = sender
        self._fence = fence
        self._task = task
        self._level = 0
        self._builder = Builder(options.codec, options.batch_bytes)
        self._next = 0
        self._stored = self._read_back(last)
        self.found = 0

    @property
    def _producer_id(self) -> int:
        return self._fence.producer_id(self._task, self._level)

    def add(self, prepared: Columns, mine: Any, now_ms: int) -> None:
        first = self._pass_over(prepared, mine)
        while first < len(mine):
            taken = self._builder.add(prepared, mine, first, now_ms)
            if not taken:
                self._send()
            first += taken
            self._next += taken

    def finish(self) -> None:
        if self._builder.count:
            self._send()
        if self._stored is not None:
            _log.warning("an earlier attempt wrote more rows to %s: the query is not deterministic", self._name)

    @property
    def _name(self) -> str:
        return f"{self._topic.name}-{self._index}"

    def _send(self) -> None:
        sequence = (self._next - self._builder.count) % _SEQUENCES
        data = self._builder.finish(self._producer_id, self._fence.epoch, sequence)
        self._sender.put(self._topic, self._index, data)

    # --- what an earlier attempt has stored --------------------------------------------------------------------------

    def _pass_over(self, prepared: Columns, mine: Any) -> int:
        """How many rows are there already."""
        while self._stored is not None:
            count = min(len(mine), self._stored.end - self._next)
            if self._stored.same(self._next, digests(prepared, mine[:count])):
                self._next += count
                self.found += count
                if self._next == self._stored.end:
                    self._stored = None
                return count
            _log.warning("what an earlier attempt wrote to %s differs: rows may be there twice", self._name)
            self._level += 1
            self._next = 0
            self._stored = self._read_back(self._last())
        return 0

    def _last(self) -> int:
        asked = (self._topic.name, [self._index], self._producer_id, self._fence.epoch)
        return sink_fence.last_sequences(self._client, *asked).get(self._index, -1)

    def _read_back(self, last: int) -> Stored | None:
        if last < 0:
            return None
        asked = (self._topic.name, self._index, self._producer_id, self._fence.epoch)
        return sink_fence.read_back(self._client, *asked, last)
