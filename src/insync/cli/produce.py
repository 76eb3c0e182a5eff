"""`insync produce`: write values from the command line, or one record per line of files or of standard input."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import typer
from rich.console import Console

from insync.cli import records as texts
from insync.cli.completion import complete_topics
from insync.cli.exits import usage_error
from insync.cli.output import print_json
from insync.cli.parsing import moment, pairs
from insync.cli.produce_input import check_files, read_files, read_stdin, read_values
from insync.cli.record_format import FORMATS, decode_input, unescape
from insync.cli.session import Session
from insync.client import topics
from insync.client.client import Client
from insync.client.producer import Producer, WrittenBatch, partition_for
from insync.wire.batch import NewRecord
from insync.wire.compression import NAMES

ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
BATCH_RECORDS = 500
BATCH_BYTES = 500_000
PROGRESS_INTERVAL_S = 0.2

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
    files: Annotated[
        list[Path] | None,
        typer.Option("--file", "-F", metavar="FILE", help="Read records from this file; repeatable."),
    ] = None,
    delimiter: Annotated[
        str,
        typer.Option(
            "--delimiter",
            "-D",
            metavar="TEXT",
            show_default="\\n",
            help="What separates the records of files and stdin; '' makes each file one record.",
        ),
    ] = "\\n",
    key_format: Annotated[
        str, typer.Option("--key-format", metavar="FORMAT", help=f"How keys are written: {', '.join(FORMATS)}.")
    ] = "text",
    value_format: Annotated[
        str,
        typer.Option(
            "--value-format", metavar="FORMAT", help=f"How values are written: {', '.join(FORMATS)} (checked JSON)."
        ),
    ] = "text",
    empty_is_null: Annotated[
        bool, typer.Option("--null", "-Z", help="Empty keys and values are null, as tombstones need it.")
    ] = False,
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
    for option, kind in (("--key-format", key_format), ("--value-format", value_format)):
        if kind not in FORMATS:
            raise usage_error(f"{option} {kind}: choose one of {', '.join(FORMATS)}")
    if values and files:
        raise usage_error("give values or --file, not both")
    check_files(files or ())
    end = unescape(delimiter)
    split_at = unescape(key_separator)
    headers = tuple((n, os.fsencode(v)) for n, v in pairs(header or [], "header").items())
    stamp = moment(timestamp, _now()) if timestamp else None

    def read(line: bytes) -> Addressed:
        if json_input:
            record, wanted = texts.from_json(line.decode(errors="replace"))
            return record, wanted if partition < 0 else partition
        record_key, value = None if key is None else os.fsencode(key), line
        if split_at and split_at in line:
            record_key, _, value = line.partition(split_at)
        record = NewRecord(_decode(record_key, key_format), _decode(value, value_format), headers, stamp)
        return record, None if partition < 0 else partition

    def _decode(data: bytes | None, kind: str) -> bytes | None:
        return None if data is None or (empty_is_null and not data) else decode_input(data, kind)

    async def work(client: Client) -> list[WrittenBatch]:
        topic = await topics.describe_one(client, name)
        producer = Producer(client, topic, acks=ACKS[acks], compression=compression)
        await producer.start()
        source = read_values(values) if values else read_files(files, end) if files else read_stdin(end)
        with _Progress(quiet=bool(values) or session.as_json) as progress:
            sink = _Batches(producer, session.as_json)
            async for line in source:
                await sink.put(*read(line)) if line is not None else await sink.flush()
                progress.show(sink.records)
            await sink.flush()
        return sink.written

    written = session.run(work)
    if not session.as_json:
        typer.echo(_summary(name, written))


class _Progress:
    """The number of records and their rate, on standard error if that is a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._status = None if quiet or not self._console.is_terminal else self._console.status("")
        self._started = self._shown = time.monotonic()

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, records: int) -> None:
        now = time.monotonic()
        if self._status is not None and now - self._shown >= PROGRESS_INTERVAL_S:
            self._shown = now
            self._status.update(f"{records:,} records, {records / (now - self._started):,.0f}/s")


class _Batches:
    """Collects records by partition; records without a key share a partition until their batch is full."""

    def __init__(self, producer: Producer, as_json: bool) -> None:
        self.producer = producer
        self.as_json = as_json
        self.written: list[WrittenBatch] = []
        self._open: dict[int, list[NewRecord]] = {}
        self._bytes = 0
        self._turn = 0
        self.records = 0
        """Acknowledged ones."""

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
            self.records += written.count
            if self.as_json:
                print_json(_as_dict(self.producer.topic.name, written))


def _as_dict(topic: str, written: WrittenBatch) -> dict[str, Any]:
    return {"topic": topic, "partition": written.partition, "offset": written.offset, "count": written.count}


def _summary(topic: str, written: Sequence[WrittenBatch]) -> str:
    total = sum(batch.count for batch in written)
    if not total:
        return "no records: the input is empty"
    by_partition: dict[int, list[WrittenBatch]] = {}
    for batch in written:
        by_partition.setdefault(batch.partition, []).append(batch)
    places = [_place(topic, index, by_partition[index]) for index in sorted(by_partition)]
    return f"{total:,} {'record' if total == 1 else 'records'} to {', '.join(places)}"


def _place(topic: str, index: int, batches: Sequence[WrittenBatch]) -> str:
    first, last = batches[0], batches[-1]
    if first.offset < 0:
        return f"{topic}-{index} (not acknowledged)"
    end = last.offset + last.count - 1
    return f"{topic}-{index} at offset {first.offset}" + (f" to {end}" if end > first.offset else "")


def _now() -> int:
    return time.time_ns() // 1_000_000
