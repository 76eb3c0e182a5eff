"""What an executor does for a replay: rows of one partition from the lake, as record batches to the log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from insync.client.client import Client
from insync.client.errors import ClientError
from insync.client.settings import DEFAULT_SETTINGS, ClientSettings
from insync.columnar.columns import Columns, to_columns
from insync.columnar.encode import BatchBuilder
from insync.pipeline.replay.lake_reader import pieces
from insync.pipeline.replay.plan import Selection, Unit
from insync.pipeline.replay.sender import SEQUENCES, Landed, Producer, Sender
from insync.wire import compression


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a partition's replay is."""

    rows: int = 0
    source: int = 0
    """Offset in the lake at which it goes on after those rows."""
    target: int = 0
    """Offset in the log before which those rows are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Pickled to an executor."""

    lake: str
    bootstrap: str
    topic: str
    topic_id: str
    partition: int
    producer: Producer
    units: tuple[Unit, ...]
    selection: Selection
    position: Position
    most: int
    codec: str
    batch_bytes: int
    timeout_s: float
    client: ClientSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class Answer:
    position: Position | None = None
    error: str = ""


def parsed(found: Mapping[str, Any]) -> Answer:
    return Answer(None if found["position"] is None else Position(**found["position"]), found["error"])


def execute(task: Task) -> Answer:
    try:
        return Answer(asyncio.run(_replay(task)))
    except (ClientError, OSError, pa.ArrowException) as error:
        return Answer(error=f"{task.topic}-{task.partition}: {str(error) or type(error).__name__}")


async def _replay(task: Task) -> Position:
    async with Client.connect(
        task.bootstrap, timeout_s=task.timeout_s, client_id="insync-replay", settings=task.client, retry_connect=True
    ) as cluster:
        landed = Landed(task.position.rows, task.position.target)
        sender = Sender(cluster, (task.topic, task.partition), task.topic_id, task.producer, landed)
        await sender.start()
        batches = Batches(task, sender.landed.rows - task.position.rows)
        for data, position, count in batches.made():
            await sender.put(data, position, count)
        await sender.drain()
    further = sender.landed.rows > batches.position  # than this task goes: the next one will look again
    target = task.position.target if further else sender.landed.target
    return Position(rows=batches.position, source=batches.source, target=target)


class Batches:
    """The task's rows as record batches, without the first `skip` rows, which have landed already."""

    def __init__(self, task: Task, skip: int) -> None:
        self._task = task
        self._skip = skip
        self._builder = BatchBuilder(compression.NAMES.index(task.codec), task.batch_bytes)
        self._now_ms = time.time_ns() // 1_000_000
        self.position = task.position.rows
        """Of the first record after those that were made."""
        self.source = task.position.source

    def made(self) -> Iterator[tuple[bytes, int, int]]:
        """(batch, position of its first record, records); afterwards `source` is where the lake goes on."""
        task, left = self._task, self._task.most
        for table in pieces(Path(task.lake), task.units, task.selection, task.position.source):
            for batch in table.slice(0, left).to_batches():
                left -= batch.num_rows
                self.source = batch.column("offset")[-1].as_py() + 1
                yield from self._of(batch)
            if left <= 0:
                break
        else:
            self.source = task.units[-1].end
        if self._builder.count:
            yield self._finished()

    def _of(self, batch: pa.RecordBatch) -> Iterator[tuple[bytes, int, int]]:
        made, rows = _columns(batch), np.arange(batch.num_rows)
        done = min(self._skip, batch.num_rows)
        self._skip -= done
        self.position += done
        while done < batch.num_rows:
            done += self._builder.add(made, rows, done, self._now_ms)
            if done < batch.num_rows:  # it is full
                yield self._finished()

    def _finished(self) -> tuple[bytes, int, int]:
        producer, position, count = self._task.producer, self.position, self._builder.count
        self.position += count
        return self._builder.finish(producer.id, producer.epoch, position % SEQUENCES), position, count


def _columns(batch: pa.RecordBatch) -> Columns:
    return to_columns(
        batch.column("value"),
        keys=batch.column("key"),
        headers=batch.column("headers"),
        times=batch.column("timestamp"),
    )
