"""One task of the archive: fetches a range of offsets, decodes it and writes its files.

A task that fails says so in its result instead of failing the job: the driver keeps what the others have done.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from insync.client import topics
from insync.client.errors import ClientError
from insync.client.sync_client import SyncClient
from insync.columnar.decode import Decoded, DecodeOptions, decode
from insync.columnar.headers import next_offset, scan_headers
from insync.lake.ledger import File, Range
from insync.lake.location import Location
from insync.lake.writer import DECODED, RangeWriter
from insync.pipeline.rounds import ClusterOptions
from insync.spark.source_options import READ_COMMITTED

FETCH_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveTask(ClusterOptions):
    """Pickled to an executor."""

    range: Range
    """Without rows and files."""
    leader_epoch: int
    """Of the leader that reported the log's end; leaders of older epochs may not have the records."""
    lake: Location
    round: int
    isolation: str
    codec: str
    roll_bytes: int


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    files: tuple[File, ...] = ()
    epoch: int = -1
    seen: int = -1
    """`epoch` and `seen` as in `Range`."""
    error: str = ""


def archive_range(task: ArchiveTask) -> ArchiveResult:
    writer = RangeWriter(
        task.lake,
        topic=task.range.topic,
        partition=task.range.partition,
        start=task.range.start,
        end=task.range.end,
        attempt=f"{uuid.uuid4().hex[:12]}-{task.round}",  # Spark may run a task twice, even at the same time
        codec=task.codec,
        roll_bytes=task.roll_bytes,
    )
    try:
        epoch, seen = _write_rows(writer, task)
        return ArchiveResult(tuple(writer.close()), epoch, seen)
    except (ClientError, OSError) as error:
        writer.abandon()
        return ArchiveResult(error=str(error) or type(error).__name__)


def _write_rows(writer: RangeWriter, task: ArchiveTask) -> tuple[int, int]:
    """Returns the last batch's leader epoch, and how far it reached."""
    last = -1, -1
    with SyncClient(
        task.bootstrap, timeout_s=task.timeout_s, client_id="insync-archive", settings=task.client, retry_connect=True
    ) as client:
        client.note_leader_epochs([(UUID(task.range.topic_id), task.range.partition, task.leader_epoch)])
        _check_topic_id(client, task.range)
        for decoded, epoch, seen in _fetch(client, task):
            if decoded.rows:
                writer.add(decoded.batch)
            last = (epoch, seen) if seen > last[1] else last
        _check_topic_id(client, task.range)  # ids are never reused: all that was read belongs to this topic
    return last


def _fetch(client: SyncClient, task: ArchiveTask) -> Iterator[tuple[Decoded, int, int]]:
    planned = task.range
    topic = client.call(lambda cluster: topics.describe_partitions(cluster, planned.topic, [planned.partition]))
    responses = client.fetch_batches(
        topic,
        {planned.partition: planned.start},
        {planned.partition: planned.end},
        next_offset_of=next_offset,
        isolation=int(task.isolation == READ_COMMITTED),
        partition_bytes=FETCH_BYTES,
    )
    position = planned.start
    for fetched in responses:
        wanted = DecodeOptions(DECODED, position, planned.end, isolation=task.isolation, aborted=fetched.aborted)
        decoded = decode(fetched.data, wanted)
        if decoded.corrupt:
            damage = decoded.corrupt[0]
            raise ClientError(f"{planned.topic}-{planned.partition} at offset {damage.base_offset}: {damage.reason}")
        position = max(position, decoded.next_offset)
        yield decoded, *_find_reach(fetched.data, planned.end)


def _find_reach(data: bytes | memoryview, end: int) -> tuple[int, int]:
    """The leader epoch of the last batch that begins before `end`, and one past its last offset, at most `end`."""
    headers, _, _ = scan_headers(np.frombuffer(data, np.uint8))
    inside = np.flatnonzero(headers.base_offset < end)
    if not len(inside):
        return -1, -1
    return int(headers.leader_epoch[inside[-1]]), min(int(headers.last_offset[inside[-1]]) + 1, end)


def _check_topic_id(client: SyncClient, planned: Range) -> None:
    topic = client.call(lambda cluster: topics.describe_partitions(cluster, planned.topic, [planned.partition]))
    if str(topic.id) != planned.topic_id:
        raise ClientError(f"topic '{planned.topic}' was recreated: its id is {topic.id} instead of {planned.topic_id}")
