"""One task's work: a range of offsets, fetched raw from the leader and turned into Arrow batches of Spark's columns."""

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
from insync.client.settings import ClientSettings
from insync.client.sync_client import StalledError, SyncClient
from insync.columnar.buffers import TYPES, rows_without_columns
from insync.columnar.decode import Decoded, Wanted, decode
from insync.columnar.headers import CODEC, CONTROL, scan
from insync.spark import triage, worker
from insync.spark.cluster_view import ClusterView
from insync.spark.options import CLIENT_ID, EARLIEST, LATEST, SourceOptions
from insync.spark.tasks import Task
from insync.wire.types import ZERO_UUID

FETCH_BYTES = 4 << 20
"""Of one answer: 40,000 records of 100 bytes, which is the size of batch that Spark likes best."""

CLIENTS = 4
"""Of different clusters, in one worker."""
PIECE_BYTES = 1 << 20
"""Of compressed batches that are unpacked together."""

log = logging.getLogger("insync.spark")


PATIENCE_S = 5.0
"""Without anything, before it is asked whether what is waited for is still there."""


class Rewritten(ClientError):  # noqa: N818  says what happened
    """Offsets hold records that are newer than the plan to read them: an unclean election cut the old ones off."""


class CorruptBatch(ClientError):  # noqa: N818  says what happened
    """What the broker sent is not what was written."""


def read(task: Task) -> Iterator[pa.RecordBatch]:
    worker.settle()
    yield from Reading(task, client_of(task.options)).batches()


class Reading:
    """Goes through the range; `at` is the next offset, and `end` is where the range ends, or what is left of it."""

    def __init__(self, task: Task, client: SyncClient) -> None:
        self._task = task
        self._client = client
        self._columns = tuple(name for name in task.columns if name in TYPES)
        self._markers = 0
        self._waiting_since = time.monotonic()
        self.at = task.range.start
        self.end = task.range.end

    def batches(self) -> Iterator[pa.RecordBatch]:
        rows = 0
        if self._task.topic_id:
            self._client.note_leader_epochs([(UUID(self._task.topic_id), self._task.range.partition, self._task.epoch)])
        while self.at < self.end:
            try:
                for decoded in self._decoded(self._topic()):
                    rows += decoded.rows
                    if decoded.rows:
                        yield as_rows(decoded.batch, decoded.rows, self._task)
                    self._waiting_since = time.monotonic()
            except (RefusedError, UnknownTopicError, StalledError, Rewritten) as error:
                self._after(error)
        if not rows and (told := triage.only_markers(self._task.range, self._markers)):
            log.info("%s", told)

    def _topic(self) -> Topic:
        """As it is now; if it is another one of the same name, its offsets are not those that were planned."""
        topic = self._client.call(lambda cluster: topics.describe_one(cluster, self._task.range.topic))
        if self._task.topic_id and topic.id != ZERO_UUID and str(topic.id) != self._task.topic_id:
            raise UnknownTopicError(topic.name)
        return topic

    def _decoded(self, topic: Topic) -> Iterator[Decoded]:
        wanted, options = self._task.range, self._task.options
        answers = self._client.fetch_batches(
            topic,
            {wanted.partition: self.at},
            {wanted.partition: self.end},
            next_offset_of=next_of,
            isolation=int(options.isolation == "read_committed"),
            partition_bytes=FETCH_BYTES,
            timeout_s=PATIENCE_S,
        )
        for fetched in answers:
            if 0 <= self._task.epoch < newest_epoch(fetched.data, self.end):
                raise Rewritten(f"{self._where()} has been written anew from about offset {self.at}")
            for piece in [fetched.data] if fetched.aborted else pieces(fetched.data):
                yield self._decoded_piece(piece, fetched.aborted)

    def _decoded_piece(self, data: bytes | memoryview, aborted: tuple[tuple[int, int], ...]) -> Decoded:
        isolation = self._task.options.isolation
        decoded = decode(data, Wanted(self._columns, self.at, self.end, isolation=isolation, aborted=aborted))
        if decoded.corrupt:
            found = decoded.corrupt[0]
            raise CorruptBatch(f"{self._where()}: the batch at offset {found.base_offset} is damaged: {found.reason}")
        self.at = max(self.at, decoded.next_offset)
        if not decoded.rows:
            self._markers += markers_in(data, self._task.range.start, self._task.range.end)
        return decoded

    def _after(self, error: ClientError) -> None:
        """Sets what is left of the range. Raises if that is to be a failure."""
        if isinstance(error, RefusedError) and error.code is not ErrorCode.offset_out_of_range:
            raise error
        loss = self._loss()
        if loss is not None:
            triage.report((loss,), fail=self._task.options.fail_on_data_loss)
            self._leave_out(loss)
        elif isinstance(error, Rewritten) or self._waited() > self._task.options.timeout_s:
            raise error  # else a leader is being elected, a broker has not heard of the topic, or the machine is slow

    def _leave_out(self, loss: triage.Loss) -> None:
        if loss.cause is triage.Cause.RETENTION:
            self.at = loss.end
        elif loss.cause is triage.Cause.TRUNCATION:
            self.end = max(self.at, loss.first)  # what has come in its place is read by the next batch
        else:
            self.end = self.at

    def _waited(self) -> float:
        return time.monotonic() - self._waiting_since

    def _loss(self) -> triage.Loss | None:
        """Either the log does not have the next offset any more, or it does not reach the end of the range."""
        each = self._task.range
        view = ClusterView(self._task.options, self._client)
        known = view.topics(insist=False)
        here = [each.key] if each.key in view.partitions(known, insist=False) else []
        earliest = view.find(dict.fromkeys(here, EARLIEST), known).get(each.key)
        latest = view.find(dict.fromkeys(here, LATEST), known).get(each.key)
        for start in (self.at, self.end):
            expected = triage.Expected(start, self.end, self._task.epoch, self._task.topic_id)
            loss = triage.examine(view, each.key, expected, topics=known, earliest=earliest, latest=latest)
            if loss is not None:
                return loss
        return None

    def _where(self) -> str:
        return f"{self._task.range.topic}-{self._task.range.partition}"


def next_of(data: bytes) -> int:
    """One past the last whole batch; -1 if there is none."""
    headers, _, _ = scan(np.frombuffer(data, np.uint8))
    return int(headers.last_offset[-1]) + 1 if len(headers) else -1


def pieces(data: bytes) -> Iterator[memoryview]:
    """An answer in parts that are not too large when they are unpacked. They are cut between batches, and only where no
    transaction was aborted: whether a record counts is told by what is before it."""
    headers, used, _ = scan(np.frombuffer(data, np.uint8))
    if not (headers.attributes & CODEC).any():
        yield memoryview(data)
        return
    cuts = np.flatnonzero(np.diff(headers.position // PIECE_BYTES, prepend=0))
    edges = [0, *headers.position[cuts].tolist(), used]
    for start, end in pairwise(edges):
        if start < end:
            yield memoryview(data)[start:end]


def newest_epoch(data: bytes, end: int) -> int:
    """Of the batches that begin before `end`. Whatever was planned was written in the epoch of the plan, or before."""
    headers, _, _ = scan(np.frombuffer(data, np.uint8))
    return int(headers.leader_epoch[headers.base_offset < end].max(initial=-1))


def markers_in(data: bytes | memoryview, start: int, end: int) -> int:
    headers, _, _ = scan(np.frombuffer(data, np.uint8))
    inside = (headers.base_offset >= start) & (headers.base_offset < end)
    return int(np.count_nonzero(headers.attributes[inside] & CONTROL))


def as_rows(batch: pa.RecordBatch, rows: int, task: Task) -> pa.RecordBatch:
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


def client_of(options: SourceOptions) -> SyncClient:
    """Kept from task to task: a worker reads the same cluster again and again, and connecting takes longer than a small
    task. What became of its connections meanwhile is its own business."""
    key = options.bootstrap, options.timeout_s, options.client
    if key not in _clients:
        while len(_clients) >= CLIENTS:
            _clients.pop(next(iter(_clients))).close()
        _clients[key] = SyncClient(
            options.bootstrap,
            timeout_s=options.timeout_s,
            client_id=CLIENT_ID,
            settings=options.client,
            retry_connect=True,
        )
    return _clients[key]
