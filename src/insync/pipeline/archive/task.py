"""What an executor does for the archive: a range of offsets, fetched raw, decoded, written. Only facts go back.

A task that fails says so in its answer instead of failing the job: the driver keeps what the others have done.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from insync.client import topics
from insync.client.errors import ClientError
from insync.client.settings import DEFAULT_SETTINGS, ClientSettings
from insync.client.sync_client import SyncClient
from insync.columnar.decode import Decoded, DecodeOptions, decode
from insync.columnar.headers import next_offset, scan_headers
from insync.pipeline.lake_writer import DECODED, RangeWriter
from insync.pipeline.ledger import File, Range

FETCH_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Pickled to an executor."""

    range: Range
    """Without rows and files yet."""
    leader_epoch: int
    """Of the leader that told how far the log goes: an older one need not have it."""
    bootstrap: str
    lake: str
    round: int
    isolation: str
    codec: str
    timeout_s: float
    client: ClientSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class Answer:
    files: tuple[File, ...] = ()
    epoch: int = -1
    seen: int = -1
    error: str = ""


def parsed(found: Mapping[str, Any]) -> Answer:
    return Answer(**{**found, "files": tuple(File(**file) for file in found["files"])})


def execute(task: Task) -> Answer:
    wanted = task.range
    writer = RangeWriter(
        Path(task.lake),
        topic=wanted.topic,
        partition=wanted.partition,
        start=wanted.start,
        end=wanted.end,
        attempt=f"{uuid.uuid4().hex[:12]}-{task.round}",  # Spark may run a task twice, even at the same time
        codec=task.codec,
    )
    try:
        epoch, seen = _fill(writer, task)
        return Answer(tuple(writer.close()), epoch, seen)
    except (ClientError, OSError) as error:
        writer.abandon()
        return Answer(error=str(error) or type(error).__name__)


def _fill(writer: RangeWriter, task: Task) -> tuple[int, int]:
    """Returns the leader epoch of the last batch, and how far it reached."""
    last = -1, -1
    with SyncClient(
        task.bootstrap, timeout_s=task.timeout_s, client_id="insync-archive", settings=task.client, retry_connect=True
    ) as client:
        client.note_leader_epochs([(UUID(task.range.topic_id), task.range.partition, task.leader_epoch)])
        _same_topic(client, task.range)
        for decoded, epoch, seen in _decoded(client, task):
            if decoded.rows:
                writer.add(decoded.batch)
            last = (epoch, seen) if seen > last[1] else last
        _same_topic(client, task.range)  # ids never come back: what was read between was of this topic
    return last


def _decoded(client: SyncClient, task: Task) -> Iterator[tuple[Decoded, int, int]]:
    wanted = task.range
    topic = client.call(lambda cluster: topics.describe_one(cluster, wanted.topic))
    answers = client.fetch_batches(
        topic,
        {wanted.partition: wanted.start},
        {wanted.partition: wanted.end},
        next_offset_of=next_offset,
        isolation=int(task.isolation == "read_committed"),
        partition_bytes=FETCH_BYTES,
    )
    at = wanted.start
    for fetched in answers:
        part = DecodeOptions(DECODED, at, wanted.end, isolation=task.isolation, aborted=fetched.aborted)
        decoded = decode(fetched.data, part)
        if decoded.corrupt:
            found = decoded.corrupt[0]
            raise ClientError(f"{wanted.topic}-{wanted.partition} at offset {found.base_offset}: {found.reason}")
        at = max(at, decoded.next_offset)
        yield decoded, *_reach(fetched.data, wanted.end)


def _reach(data: bytes, end: int) -> tuple[int, int]:
    """Leader epoch of the last batch that begins before `end`, and one past its last offset, `end` at most."""
    headers, _, _ = scan_headers(np.frombuffer(data, np.uint8))
    inside = np.flatnonzero(headers.base_offset < end)
    if not len(inside):
        return -1, -1
    return int(headers.leader_epoch[inside[-1]]), min(int(headers.last_offset[inside[-1]]) + 1, end)


def _same_topic(client: SyncClient, wanted: Range) -> None:
    found: Any = client.call(lambda cluster: topics.describe_one(cluster, wanted.topic)).id
    if str(found) != wanted.topic_id:
        raise ClientError(f"topic '{wanted.topic}' was made anew: its id is {found} instead of {wanted.topic_id}")
