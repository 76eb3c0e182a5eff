"""`insync produce`: write values from the command line, or one record per line of standard input."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

import typer

from insync.cli import records as texts
from insync.cli.completion import complete_topics
from insync.cli.exits import usage_error
from insync.cli.output import print_json
from insync.cli.parsing import moment, pairs
from insync.cli.session import Session
from insync.client import topics
from insync.client.client import Client
from insync.client.producer import Producer, WrittenBatch, partition_for
from insync.wire.batch import NewRecord
from insync.wire.compression import NAMES

ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
BATCH_RECORDS = 500
BATCH_BYTES = 500_000
LINGER_S = 0.1
READ_AHEAD = 10_000

Addressed = tuple[NewRecord, int | None]


def produce(
    name: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="VALUE", help="Values; default: the lines of stdin.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Key of every record.")] = None,
    key_separator: Annotated[
        str, typer.Option("--key-separator", "-K", metavar="TEXT", help="Split each value into key and value here.")
    ] = "",
    header: Annotated[list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE")] = None,
    partition: Annotated[
        int, typer.Option("--partition", "-p", min=-1, help="Partition; -1: by key, or round-robin.")
    ] = -1,
    timestamp: Annotated[
        str, typer.Option("--timestamp", "-t", metavar="TIME", help="Timestamp: ISO 8601, 5m (ago), or ms since 1970.")
    ] = "",
    acks: Annotated[str, typer.Option("--acks", help="all, 1 or 0.")] = "all",
    compression: Annotated[str, typer.Option("--compression", "-z", help=", ".join(NAMES))] = "none",
    json_input: Annotated[
        bool, typer.Option("--json-input", help="Each value is a JSON object as `insync consume --json` prints it.")
    ] = False,
    *,
    session: Session,
) -> None:
    """Write records to a topic, idempotently with acks=all, and print their offsets."""
    if acks not in ACKS:
        raise usage_error(f"--acks {acks}: choose all, 1 or 0")
    if compression not in NAMES:
        raise usage_error(f"--compression {compression}: choose one of {', '.join(NAMES)}")
    headers = tuple((n, v.encode()) for n, v in pairs(header or [], "header").items())
    stamp = moment(timestamp, _now()) if timestamp else None

    def read(line: str) -> Addressed:
        if json_input:
            record, wanted = texts.from_json(line)
            return record, wanted if partition < 0 else partition
        record_key, value = key, line
        if key_separator and key_separator in line:
            record_key, _, value = line.partition(key_separator)
        record = NewRecord(None if record_key is None else record_key.encode(), value.encode(), headers, stamp)
        return record, None if partition < 0 else partition

    async def work(client: Client) -> list[WrittenBatch]:
        topic = await topics.describe_one(client, name)
        producer = Producer(client, topic, acks=ACKS[acks], compression=compression)
        await producer.start()
        sink = _Batches(producer, session.as_json)
        async for line in _as_lines(values) if values else _stdin_lines():
            await sink.put(*read(line)) if line is not None else await sink.flush()
        await sink.flush()
        return sink.written

    written = session.run(work)
    if not session.as_json:
        typer.echo(_summary(name, written))


class _Batches:
    """Collects records by partition; records without a key share a partition until their batch is full."""

    def __init__(self, producer: Producer, as_json: bool) -> None:
        self.producer = producer
        self.as_json = as_json
        self.written: list[WrittenBatch] = []
        self._open: dict[int, list[NewRecord]] = {}
        self._bytes = 0
        self._turn = 0

    async def put(self, record: NewRecord, partition: int | None) -> None:
        self._open.setdefault(self._partition(record, partition), []).append(record)
        self._bytes += len(record.key or b"") + len(record.value or b"") + 20
        if self._bytes >= BATCH_BYTES or sum(map(len, self._open.values())) >= BATCH_RECORDS:
            await self.flush()

    def _partition(self, record: NewRecord, wanted: int | None) -> int:
        count = max(1, len(self.producer.topic.partitions))
        if wanted is not None:
            return wanted
        return self._turn % count if record.key is None else partition_for(record.key, count)

    async def flush(self) -> None:
        batches, self._open, self._bytes = self._open, {}, 0
        self._turn += 1
        sends = (self.producer.send(partition, records, _now()) for partition, records in batches.items())
        for written in await asyncio.gather(*sends):
            self.written.append(written)
            if self.as_json:
                print_json(_as_dict(self.producer.topic.name, written))


def _as_dict(topic: str, written: WrittenBatch) -> dict[str, Any]:
    return {"topic": topic, "partition": written.partition, "offset": written.offset, "count": written.count}


def _summary(topic: str, written: Sequence[WrittenBatch]) -> str:
    total = sum(batch.count for batch in written)
    if not total:
        return "no records: standard input is empty"
    by_partition: dict[int, list[WrittenBatch]] = {}
    for batch in written:
        by_partition.setdefault(batch.partition, []).append(batch)
    places = [_place(topic, index, by_partition[index]) for index in sorted(by_partition)]
    return f"{total} {'record' if total == 1 else 'records'} to {', '.join(places)}"


def _place(topic: str, index: int, batches: Sequence[WrittenBatch]) -> str:
    first, last = batches[0], batches[-1]
    if first.offset < 0:
        return f"{topic}-{index} (not acknowledged)"
    end = last.offset + last.count - 1
    return f"{topic}-{index} at offset {first.offset}" + (f" to {end}" if end > first.offset else "")


async def _as_lines(values: list[str]) -> AsyncIterator[str | None]:
    for value in values:
        yield value


async def _stdin_lines() -> AsyncIterator[str | None]:
    """Lines as they arrive; None after a pause, so that records from a slow pipe are sent.

    They are read in a daemon thread, which does not keep the process alive.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[str] = asyncio.Queue()
    room = threading.Semaphore(READ_AHEAD)
    stream = sys.stdin

    def read() -> None:
        for line in stream:
            room.acquire()
            loop.call_soon_threadsafe(queue.put_nowait, line)
        loop.call_soon_threadsafe(queue.put_nowait, "")

    threading.Thread(target=read, daemon=True, name="stdin").start()
    while True:
        try:
            async with asyncio.timeout(LINGER_S):
                line = await queue.get()
        except TimeoutError:
            yield None
            continue
        room.release()
        if not line:
            return
        yield line.removesuffix("\n")


def _now() -> int:
    return time.time_ns() // 1_000_000
