"""One task of a replay: reads rows of one partition from the lake and writes them as record batches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from insync.client.client import Client
from insync.client.errors import ClientError
from insync.columnar.columns import Columns, to_columns
from insync.columnar.encode import BatchBuilder
from insync.lake.location import Location, open_store
from insync.lake.reader import Selection, Unit, read_rows
from insync.pipeline.fenced_sender import SEQUENCES, Producer, Sender, Written
from insync.pipeline.rounds import ClusterOptions
from insync.wire import compression


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far the replay of a partition is."""

    rows: int = 0
    """Written so far."""
    source: int = 0
    """Offset in the lake at which it continues."""
    target: int = 0
    """Offset in the target below which those rows are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTask(ClusterOptions):
    """Pickled to an executor."""

    lake: Location
    topic: str
    topic_id: str
    partition: int
    producer: Producer
    units: tuple[Unit, ...]
    selection: Selection
    position: Position
    max_rows: int
    codec: str
    batch_bytes: int


@dataclass(frozen=True, slots=True)
class ReplayResult:
    position: Position | None = None
    error: str = ""


def replay_units(task: ReplayTask) -> ReplayResult:
    """A failure is reported in the result, so that the other tasks' work counts."""
    try:
        return ReplayResult(asyncio.run(_replay(task)))
    except (ClientError, OSError, pa.ArrowException) as error:
        return ReplayResult(error=f"{task.topic}-{task.partition}: {str(error) or type(error).__name__}")


async def _replay(task: ReplayTask) -> Position:
    async with Client.connect(
        task.bootstrap, timeout_s=task.timeout_s, client_id="insync-replay", settings=task.client, retry_connect=True
    ) as client:
        written = Written(task.position.rows, task.position.target)
        sender = Sender(client, (task.topic, task.partition), task.topic_id, task.producer, written)
        await sender.start()
        batches = ReplayBatches(task, sender.written.rows - task.position.rows)
        for data, position, count in batches.build():
            await sender.put(data, position, count)
        await sender.drain()
    beyond = sender.written.rows > batches.position  # an earlier attempt wrote more: the next task looks again
    target = task.position.target if beyond else sender.written.target
    return Position(rows=batches.position, source=batches.source, target=target)


class ReplayBatches:
    """The task's rows as record batches, without the first `skip` rows, which are written already."""

    def __init__(self, task: ReplayTask, skip: int) -> None:
        self._task = task
        self._skip = skip
        self._builder = BatchBuilder(compression.NAMES.index(task.codec), task.batch_bytes)
        self._now_ms = time.time_ns() // 1_000_000
        self.position = task.position.rows
        """Of the next record."""
        self.source = task.position.source

    def build(self) -> Iterator[tuple[bytes, int, int]]:
        """(batch, position of its first record, number of records). Then `source` is where the lake continues."""
        task, left = self._task, self._task.max_rows
        for table in read_rows(open_store(task.lake), task.units, task.selection, task.position.source):
            for batch in table.slice(0, left).to_batches():
                left -= batch.num_rows
                self.source = batch.column("offset")[-1].as_py() + 1
                yield from self._add(batch)
            if left <= 0:
                break
        else:
            self.source = task.units[-1].end
        if self._builder.count:
            yield self._finish_batch()

    def _add(self, batch: pa.RecordBatch) -> Iterator[tuple[bytes, int, int]]:
        prepared, rows = _columns(batch), np.arange(batch.num_rows)
        done = min(self._skip, batch.num_rows)
        self._skip -= done
        self.position += done
        while done < batch.num_rows:
            done += self._builder.add(prepared, rows, done, self._now_ms)
            if done < batch.num_rows:  # the batch is full
                yield self._finish_batch()

    def _finish_batch(self) -> tuple[bytes, int, int]:
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
