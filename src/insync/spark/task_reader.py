"""One task of the source: fetches a range of offsets from the leader and decodes it into Arrow batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise
from uuid import UUID

import numpy as np
import pyarrow as pa

from insync.client import topics
from insync.client.consumer import FetchedBatches
from insync.client.errors import ClientError, ErrorCode, RefusedError, UnknownTopicError
from insync.client.model import Partition, Topic
from insync.client.offsets import EARLIEST, LATEST
from insync.client.sync_client import StalledError, SyncClient
from insync.columnar.buffers import TYPES, rows_without_columns
from insync.columnar.decode import Decoded, DecodeOptions, decode
from insync.columnar.headers import CODEC, CONTROL, next_offset, scan_headers
from insync.spark.cluster_view import ClusterView
from insync.spark.data_loss import Cause, Expected, Loss, find_loss, only_markers, report_losses
from insync.spark.read_task import ReadTask
from insync.spark.source_options import CLIENT_ID, READ_COMMITTED, SourceOptions
from insync.spark.worker_clients import get_client
from insync.wire.types import ZERO_UUID

FETCH_BYTES = 4 << 20
"""Of one response: 40,000 records of 100 bytes, the batch size that suits Spark best."""
PIECE_BYTES = 1 << 20
"""Of compressed batches that are decompressed together."""
STALL_TIMEOUT_S = 5.0
"""Without new records for so long, the reader checks whether the range still exists."""

log = logging.getLogger("insync.spark")


class RewrittenError(ClientError):
    """The offsets hold records that are newer than the plan to read them: an unclean election cut the old ones off."""


class CorruptBatchError(ClientError):
    """A broker sent a batch that is damaged."""


RECOVERABLE = (RefusedError, UnknownTopicError, StalledError, RewrittenError)
"""Errors after which a reader looks for what was lost, and goes on if it may."""


def read_task(task: ReadTask) -> Iterator[pa.RecordBatch]:
    yield from TaskReader(task, client_for(task.options)).batches()


class TaskReader:
    """Reads the range of a task. `position` is the next offset; `end` moves down if the end of the range is lost."""

    def __init__(self, task: ReadTask, client: SyncClient) -> None:
        self._task = task
        self._client = client
        self._columns = tuple(name for name in task.columns if name in TYPES)
        self._rows = self._markers = 0
        self._last_progress_s = time.monotonic()
        self.position = task.range.start
        self.end = task.range.end

    @property
    def is_done(self) -> bool:
        return self.position >= self.end

    def batches(self) -> Iterator[pa.RecordBatch]:
        """From `position` on."""
        topic = None if self.is_done else take_planned_topic([self._task], self._client)
        while not self.is_done:
            try:
                for fetched in fetch([self], topic or describe_topic([self._task], self._client), self._client):
                    yield from self.decode_response(fetched)
            except RECOVERABLE as error:
                self._recover(error)
            topic = None
        if not self._rows and self._markers:
            log.info("%s", only_markers(self._task.range, self._markers))

    def decode_response(self, fetched: FetchedBatches) -> Iterator[pa.RecordBatch]:
        if 0 <= self._task.epoch < newest_epoch(fetched.data, self.end):
            raise RewrittenError(
                f"{self._partition_name} was rewritten from about offset {self.position} after planning"
            )
        for piece in [fetched.data] if fetched.aborted else pieces(fetched.data):
            decoded = self._decode(piece, fetched.aborted)
            self._rows += decoded.rows
            if decoded.rows:
                yield to_rows(decoded.batch, decoded.rows, self._task)
            self._last_progress_s = time.monotonic()

    def _decode(self, data: bytes | memoryview, aborted: tuple[tuple[int, int], ...]) -> Decoded:
        isolation = self._task.options.isolation
        decoded = decode(
            data, DecodeOptions(self._columns, self.position, self.end, isolation=isolation, aborted=aborted)
        )
        if decoded.corrupt:
            damage = decoded.corrupt[0]
            raise CorruptBatchError(
                f"{self._partition_name}: the batch at offset {damage.base_offset} is damaged: {damage.reason}"
            )
        self.position = max(self.position, decoded.next_offset)
        if not decoded.rows:
            self._markers += count_markers(data, self._task.range.start, self._task.range.end)
        return decoded

    def _recover(self, error: ClientError) -> None:
        """Skip what is lost, or raise. Without a loss, an election, a broker that does not know the topic yet or a slow
        machine may be the reason: reading is tried again until the timeout."""
        if isinstance(error, RefusedError) and error.code is not ErrorCode.offset_out_of_range:
            raise error
        loss = self._find_loss()
        if loss is not None:
            report_losses((loss,), fail=self._task.options.fail_on_data_loss)
            self._skip(loss)
        elif (
            isinstance(error, RewrittenError) or time.monotonic() - self._last_progress_s > self._task.options.timeout_s
        ):
            raise error

    def _find_loss(self) -> Loss | None:
        """Either the log no longer has the next offset, or it does not reach the end of the range."""
        key = self._task.range.key
        view = ClusterView(self._task.options, self._client)
        topic = view.describe_partition(key)
        described = {} if topic is None else {topic.name: topic}
        keys = [key] if topic is not None and topic.partition(key[1]) is not None else []
        earliest = view.list_offsets_and_epochs(dict.fromkeys(keys, EARLIEST), described).get(key)
        latest = view.list_offsets_and_epochs(dict.fromkeys(keys, LATEST), described).get(key)
        for start in (self.position, self.end):
            expected = Expected(start, self.end, self._task.epoch, self._task.topic_id)
            loss = find_loss(view, key, expected, topics=described, earliest=earliest, latest=latest)
            if loss is not None:
                return loss
        return None

    def _skip(self, loss: Loss) -> None:
        if loss.cause is Cause.RETENTION:
            self.position = loss.end
        elif loss.cause is Cause.TRUNCATION:
            self.end = max(self.position, loss.first)  # the next batch reads what replaced it
        else:
            self.end = self.position

    @property
    def options(self) -> SourceOptions:
        return self._task.options

    @property
    def partition(self) -> int:
        return self._task.range.partition

    @property
    def _partition_name(self) -> str:
        return f"{self._task.range.topic}-{self._task.range.partition}"


def take_planned_topic(parts: Sequence[ReadTask], client: SyncClient) -> Topic | None:
    """The topic of these parts, with their partitions as the driver saw them; None if it did not know a leader."""
    task = parts[0]
    epochs = [(UUID(part.topic_id), part.range.partition, part.epoch) for part in parts if part.topic_id]
    client.note_leader_epochs(epochs)
    leaders = [part.leader for part in parts if part.leader is not None]
    if not task.topic_id or len(leaders) < len(parts):
        return None
    partitions = tuple(
        Partition(index=part.range.partition, leader=leader.broker.id, leader_epoch=leader.epoch, replicas=(), isr=())
        for part, leader in zip(parts, leaders, strict=True)
    )
    topic = Topic(name=task.range.topic, id=UUID(task.topic_id), partitions=partitions)
    return client.learn_topic(topic, [leader.broker for leader in leaders])


def describe_topic(parts: Sequence[ReadTask], client: SyncClient) -> Topic:
    """The topic of these parts, with their partitions as they are now. A recreated one counts as missing: its offsets
    are not those that were planned."""
    task = parts[0]
    indexes = [part.range.partition for part in parts]
    topic = client.call(lambda cluster: topics.describe_partitions(cluster, task.range.topic, indexes))
    if task.topic_id and topic.id != ZERO_UUID and str(topic.id) != task.topic_id:
        raise UnknownTopicError(topic.name)
    return topic


def fetch(readers: Sequence[TaskReader], topic: Topic, client: SyncClient) -> Generator[FetchedBatches, None, None]:
    """What the leaders answer for the readers' partitions, from their positions on."""
    options = readers[0].options
    return client.fetch_batches(
        topic,
        {reader.partition: reader.position for reader in readers},
        {reader.partition: reader.end for reader in readers},
        next_offset_of=next_offset,
        isolation=int(options.isolation == READ_COMMITTED),
        partition_bytes=FETCH_BYTES,
        timeout_s=STALL_TIMEOUT_S,
    )


def pieces(data: bytes | memoryview) -> Iterator[memoryview]:
    """A response in parts that are not too large when decompressed, cut between batches. Not for a response with
    aborted transactions: whether a record counts depends on what precedes it."""
    headers, used, _ = scan_headers(np.frombuffer(data, np.uint8))
    if not (headers.attributes & CODEC).any():
        yield memoryview(data)
        return
    cuts = np.flatnonzero(np.diff(headers.position // PIECE_BYTES, prepend=0))
    edges = [0, *headers.position[cuts].tolist(), used]
    for start, end in pairwise(edges):
        if start < end:
            yield memoryview(data)[start:end]


def newest_epoch(data: bytes | memoryview, end: int) -> int:
    """Of the batches that begin before `end`. What was planned was written in the plan's epoch or an older one."""
    headers, _, _ = scan_headers(np.frombuffer(data, np.uint8))
    return int(headers.leader_epoch[headers.base_offset < end].max(initial=-1))


def count_markers(data: bytes | memoryview, start: int, end: int) -> int:
    headers, _, _ = scan_headers(np.frombuffer(data, np.uint8))
    inside = (headers.base_offset >= start) & (headers.base_offset < end)
    return int(np.count_nonzero(headers.attributes[inside] & CONTROL))


def to_rows(batch: pa.RecordBatch, rows: int, task: ReadTask) -> pa.RecordBatch:
    arrays = [
        pa.repeat(task.range.topic, rows)
        if name == "topic"
        else pa.repeat(pa.scalar(task.range.partition, pa.int32()), rows)
        if name == "partition"
        else batch.column(name)
        for name in task.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, list(task.columns)) if arrays else rows_without_columns(rows)


def client_for(options: SourceOptions) -> SyncClient:
    return get_client(options.bootstrap, client_id=CLIENT_ID, timeout_s=options.timeout_s, settings=options.client)
