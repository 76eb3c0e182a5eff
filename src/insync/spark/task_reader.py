"""One task of the source: fetches a range of offsets from the leader and decodes it into Arrow batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from itertools import pairwise
from uuid import UUID

import numpy as np
import pyarrow as pa

from insync.client import topics
from insync.client.errors import ClientError, ErrorCode, RefusedError, UnknownTopicError
from insync.client.model import Topic
from insync.client.offsets import EARLIEST, LATEST
from insync.client.settings import ClientSettings
from insync.client.sync_client import StalledError, SyncClient
from insync.columnar.buffers import TYPES, rows_without_columns
from insync.columnar.decode import Decoded, DecodeOptions, decode
from insync.columnar.headers import CODEC, CONTROL, next_offset, scan_headers
from insync.spark.cluster_view import ClusterView
from insync.spark.data_loss import Cause, Expected, Loss, find_loss, only_markers, report_losses
from insync.spark.read_task import ReadTask
from insync.spark.source_options import CLIENT_ID, READ_COMMITTED, SourceOptions
from insync.wire.types import ZERO_UUID

FETCH_BYTES = 4 << 20
"""Of one response: 40,000 records of 100 bytes, the batch size that suits Spark best."""
PIECE_BYTES = 1 << 20
"""Of compressed batches that are decompressed together."""
STALL_TIMEOUT_S = 5.0
"""Without new records for so long, the reader checks whether the range still exists."""
MAX_CLIENTS = 4
"""In one worker, for different clusters."""

log = logging.getLogger("insync.spark")


class RewrittenError(ClientError):
    """The offsets hold records that are newer than the plan to read them: an unclean election cut the old ones off."""


class CorruptBatchError(ClientError):
    """A broker sent a batch that is damaged."""


def read_task(task: ReadTask) -> Iterator[pa.RecordBatch]:
    yield from TaskReader(task, client_for(task.options)).batches()


class TaskReader:
    """Reads the range of a task. `position` is the next offset; `end` moves down if the end of the range is lost."""

    def __init__(self, task: ReadTask, client: SyncClient) -> None:
        self._task = task
        self._client = client
        self._columns = tuple(name for name in task.columns if name in TYPES)
        self._markers = 0
        self._last_progress_s = time.monotonic()
        self.position = task.range.start
        self.end = task.range.end

    def batches(self) -> Iterator[pa.RecordBatch]:
        rows = 0
        if self._task.topic_id:
            self._client.note_leader_epochs([(UUID(self._task.topic_id), self._task.range.partition, self._task.epoch)])
        while self.position < self.end:
            try:
                for decoded in self._fetch(self._describe_topic()):
                    rows += decoded.rows
                    if decoded.rows:
                        yield to_rows(decoded.batch, decoded.rows, self._task)
                    self._last_progress_s = time.monotonic()
            except (RefusedError, UnknownTopicError, StalledError, RewrittenError) as error:
                self._recover(error)
        if not rows and self._markers:
            log.info("%s", only_markers(self._task.range, self._markers))

    def _describe_topic(self) -> Topic:
        """The topic as it is now. A recreated one counts as missing: its offsets are not those that were planned."""
        topic = self._client.call(lambda cluster: topics.describe_one(cluster, self._task.range.topic))
        if self._task.topic_id and topic.id != ZERO_UUID and str(topic.id) != self._task.topic_id:
            raise UnknownTopicError(topic.name)
        return topic

    def _fetch(self, topic: Topic) -> Iterator[Decoded]:
        partition = self._task.range.partition
        responses = self._client.fetch_batches(
            topic,
            {partition: self.position},
            {partition: self.end},
            next_offset_of=next_offset,
            isolation=int(self._task.options.isolation == READ_COMMITTED),
            partition_bytes=FETCH_BYTES,
            timeout_s=STALL_TIMEOUT_S,
        )
        for fetched in responses:
            if 0 <= self._task.epoch < newest_epoch(fetched.data, self.end):
                raise RewrittenError(
                    f"{self._partition_name} was rewritten from about offset {self.position} after planning"
                )
            for piece in [fetched.data] if fetched.aborted else pieces(fetched.data):
                yield self._decode(piece, fetched.aborted)

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
        described = view.describe_topics(must_exist=False)
        keys = [key] if key in view.list_partitions(described) else []
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
    def _partition_name(self) -> str:
        return f"{self._task.range.topic}-{self._task.range.partition}"


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


_clients: dict[tuple[str, float, ClientSettings], SyncClient] = {}


def client_for(options: SourceOptions) -> SyncClient:
    """Kept from task to task: a worker reads the same cluster again and again, and connecting takes longer than a small
    task. The client replaces lost connections itself."""
    key = options.bootstrap, options.timeout_s, options.client
    if key not in _clients:
        while len(_clients) >= MAX_CLIENTS:
            _clients.pop(next(iter(_clients))).close()
        _clients[key] = SyncClient(
            options.bootstrap,
            timeout_s=options.timeout_s,
            client_id=CLIENT_ID,
            settings=options.client,
            retry_connect=True,
        )
    return _clients[key]
