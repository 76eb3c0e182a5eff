"""One task of a mirror: reads a range of one partition from the source and writes it to the target.

A task that fails says so in its result instead of failing the job: the driver keeps what the others have done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import numpy as np
import pyarrow as pa

from insync.client import topics
from insync.client.client import Client
from insync.client.consumer import FetchedBatches
from insync.client.errors import ClientError
from insync.client.model import Topic
from insync.client.offsets import READ_COMMITTED
from insync.client.sync_client import SyncClient
from insync.columnar.headers import next_offset, scan_headers
from insync.pipeline.fenced_sender import Producer, Sender, Written
from insync.pipeline.mirror.batches import BatchLimits, MirrorBatch, MirrorBatches
from insync.pipeline.mirror.offset_map import Anchor
from insync.pipeline.mirror.resuming import Overlap, find_overlap
from insync.pipeline.mirror.row_digests import concatenate, read_digests
from insync.pipeline.mirror.state import MirrorPosition
from insync.pipeline.rounds import ClusterOptions
from insync.wire.errors import MalformedBatchError

FETCH_BYTES = 4 << 20
CLIENT_ID = "insync-mirror"


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorTask:
    """Pickled to an executor."""

    source: ClusterOptions
    target: ClusterOptions
    topic: str
    topic_id: str
    target_topic: str
    target_id: str
    partition: int
    end: int
    """The source's offset at which the task ends, unless the target has more already."""
    log_end: int
    """Where the source's log ends."""
    leader_epoch: int
    """Of the leader that reported that: leaders of older epochs may lack records, newer batches are other records."""
    position: MirrorPosition
    producer: Producer
    limits: BatchLimits
    is_compacted: bool
    """Whether the target may have removed records of its log."""
    allow_loss: bool

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class MirrorResult:
    position: MirrorPosition | None = None
    anchors: tuple[Anchor, ...] = ()
    rows: int = 0
    """Written by this task."""
    bytes: int = 0
    diverged: int = 0
    """Records that the target has from an earlier attempt and the source has no longer."""
    error: str = ""


def mirror_range(task: MirrorTask) -> MirrorResult:
    try:
        with _connect(task.source) as source, _connect(task.target) as target:
            return _RangeMirror(task, source, target).run()
    except (ClientError, MalformedBatchError, OSError, pa.ArrowException) as error:
        return MirrorResult(error=f"{task.name}: {str(error) or type(error).__name__}")


def _connect(cluster: ClusterOptions) -> SyncClient:
    return SyncClient(
        cluster.bootstrap,
        timeout_s=cluster.timeout_s,
        client_id=CLIENT_ID,
        settings=cluster.client,
        retry_connect=True,
    )


class _RangeMirror:
    def __init__(self, task: MirrorTask, source: SyncClient, target: SyncClient) -> None:
        self._task = task
        self._source = source
        self._target = target
        self._sources: dict[int, int] = {}
        """Source offsets of batches that were sent, by position."""
        self._anchors: list[Anchor] = []
        self._last_batch = (task.position.epoch, task.position.seen)
        self._end = task.end

    def run(self) -> MirrorResult:
        task = self._task
        self._source.note_leader_epochs([(UUID(task.topic_id), task.partition, task.leader_epoch)])
        topic = self._check_topic_id()
        sender = self._start_sender()
        overlap = self._find_overlap(sender.written)
        if overlap.diverged and not task.allow_loss:
            raise ClientError(
                f"the target has {overlap.diverged} records from offset {task.position.target} on that the source no "
                "longer has: it was truncated after they were mirrored. --allow-loss keeps them and continues"
            )
        batches = MirrorBatches(
            task.name,
            task.position.source,
            self._end,
            position=sender.written.rows - overlap.skip,
            skip=overlap.skip,
            producer=task.producer,
            limits=task.limits,
        )
        rows, sent_bytes = sender.written.rows, 0
        for batch in self._build(batches, topic):
            self._sources[batch.position] = batch.source
            sent_bytes += len(batch.data)
            self._target.submit(partial(_put, sender, batch)).result()
        self._target.submit(lambda _: sender.drain()).result()
        self._check_topic_id()  # ids are never reused: all that was read belongs to this topic
        if sender.written.rows != batches.position:
            raise ClientError(f"another mirror with the same state writes to {task.target_topic}-{task.partition}")
        epoch, seen = self._last_batch
        position = MirrorPosition(
            rows=batches.position, source=batches.source, target=sender.written.target, epoch=epoch, seen=seen
        )
        anchors = (*self._anchors, Anchor(position.source, position.rows, position.target))
        return MirrorResult(position, anchors, position.rows - rows, sent_bytes, overlap.diverged)

    def _check_topic_id(self) -> Topic:
        task = self._task
        topic = self._source.call(lambda cluster: topics.describe_one(cluster, task.topic))
        if str(topic.id) != task.topic_id:
            raise ClientError(f"topic '{task.topic}' was recreated: its id is {topic.id} instead of {task.topic_id}")
        return topic

    def _start_sender(self) -> Sender:
        task = self._task

        async def start(client: Client) -> Sender:
            sender = Sender(
                client,
                (task.target_topic, task.partition),
                task.target_id,
                task.producer,
                Written(task.position.rows, task.position.target),
                self._on_stored,
            )
            await sender.start()
            return sender

        return self._target.submit(start).result()

    def _on_stored(self, position: int, offset: int) -> None:
        if position in self._sources:
            self._anchors.append(Anchor(self._sources.pop(position), position, offset))

    def _find_overlap(self, written: Written) -> Overlap:
        task, position = self._task, self._task.position
        extra = written.rows - position.rows
        if extra == 0:
            return Overlap(0)
        key = task.target_topic, task.partition
        target = concatenate(list(read_digests(self._target, *key, position.target, written.target, task.producer)))
        if len(target) < extra and not task.is_compacted:
            raise ClientError(f"{key[0]}-{key[1]} lacks some of the {extra} records from offset {position.target} on")
        parts, count = [], 0
        for part in read_digests(self._source, task.topic, task.partition, position.source, task.log_end):
            parts.append(part.select(slice(extra - count)))
            count += len(parts[-1])
            if count == extra:
                break
        source = concatenate(parts)
        overlap = find_overlap(position.rows, extra, target, source, start=position.source, trimmed=position.trimmed)
        if overlap.skip:  # an old state: the target may have more than a round
            self._end = max(self._end, int(source.offsets[overlap.skip - 1]) + 1)
        return overlap

    def _build(self, batches: MirrorBatches, topic: Topic) -> Iterator[MirrorBatch]:
        for fetched in self._fetch(topic):
            yield from batches.add(fetched.data, fetched.aborted)
        yield from batches.finish()

    def _fetch(self, topic: Topic) -> Iterator[FetchedBatches]:
        task = self._task
        responses = self._source.fetch_batches(
            topic,
            {task.partition: task.position.source},
            {task.partition: self._end},
            next_offset_of=next_offset,
            isolation=READ_COMMITTED,
            partition_bytes=FETCH_BYTES,
        )
        for fetched in responses:
            self._check_epochs(fetched.data)
            yield fetched

    def _check_epochs(self, data: bytes | memoryview) -> None:
        """Records below the planned end that are newer than the plan replaced those that were planned."""
        headers, _, _ = scan_headers(np.frombuffer(data, np.uint8))
        inside = headers.select(headers.base_offset < self._end)
        if not len(inside):
            return
        if 0 <= self._task.leader_epoch < int(inside.leader_epoch.max()):
            raise ClientError(
                f"records from offset {int(inside.base_offset[0])} on were replaced after they were planned: an "
                "unclean election truncated the source"
            )
        reach = min(int(inside.last_offset[-1]) + 1, self._end)
        if reach > self._last_batch[1]:
            self._last_batch = int(inside.leader_epoch[-1]), reach


async def _put(sender: Sender, batch: MirrorBatch, _client: Client) -> None:
    await sender.put(batch.data, batch.position, batch.count)
