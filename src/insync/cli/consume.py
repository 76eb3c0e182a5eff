"""`insync consume`: read records from given offsets or times, up to the current end or indefinitely."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from insync.cli import records as texts
from insync.cli.completion import complete_topics
from insync.cli.exits import usage_error
from insync.cli.output import print_json
from insync.cli.parsing import moment, numbers
from insync.cli.session import Session
from insync.client import offsets, topics
from insync.client.client import Client
from insync.client.consumer import Reader
from insync.client.errors import ClientError
from insync.client.model import Offset, Topic, TopicPartition


def consume(
    name: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)],
    partition: Annotated[str, typer.Option("--partition", "-p", metavar="0,1", help="Partitions; default: all.")] = "",
    start: Annotated[
        str, typer.Option("--from", metavar="OFFSET", help="Start at: beginning, end, an offset, or -N for the last N.")
    ] = "beginning",
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Start at a time: ISO 8601, 15m (ago), or ms since 1970.")
    ] = "",
    limit: Annotated[int, typer.Option("--max", "-n", min=0, metavar="N", help="Stop after N records.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more records instead of stopping.")] = False,
    keys: Annotated[bool, typer.Option("--keys", help="Print keys.")] = False,
    headers: Annotated[bool, typer.Option("--headers", help="Print headers.")] = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Print timestamps.")] = False,
    show_offsets: Annotated[bool, typer.Option("--offsets", help="Print partition and offset.")] = False,
    separator: Annotated[str, typer.Option("--separator", help="Separator between the parts of a line.")] = "\t",
    committed: Annotated[
        bool, typer.Option("--read-committed", help="Hide records of aborted and open transactions.")
    ] = False,
    *,
    session: Session,
) -> None:
    """Read a topic from the beginning, an offset or a time. With --json, prints one object per line."""
    wanted = numbers(partition, "partitions") if partition else []
    if since and start != "beginning":
        raise usage_error("--from and --since exclude each other: use one of them")
    if start not in ("beginning", "end") and not start.removeprefix("-").isdecimal():
        raise usage_error(f"--from {start}: write beginning, end, an offset, or -N for the last N records")
    since_ms = moment(since, time.time_ns() // 1_000_000) if since else None
    isolation = offsets.READ_COMMITTED if committed else offsets.READ_UNCOMMITTED

    async def work(client: Client) -> None:
        topic = _select_partitions(await topics.describe_one(client, name), wanted)
        ends = await _list_offsets(client, topic, offsets.LATEST, isolation)
        begin = await _start_offsets(client, topic, start, since_ms, ends)
        stops = None if follow else {index: end.offset for (_, index), end in ends.items()}
        reader = Reader(client, topic, begin, stops, isolation=isolation)
        shown = 0
        async for consumed in reader.records():
            if session.as_json:
                print_json(texts.to_json(name, consumed.partition, consumed.record))
            else:
                typer.echo(
                    texts.to_line(
                        consumed.partition, consumed.record, keys=keys, headers=headers, timestamps=timestamps,
                        offsets=show_offsets, separator=separator, terminal=sys.stdout.isatty(),
                    )
                )  # fmt: skip
            shown += 1
            if limit and shown >= limit:
                return

    session.run(work)


def _select_partitions(topic: Topic, wanted: list[int]) -> Topic:
    for index in wanted:
        if topic.partition(index) is None:
            last = len(topic.partitions) - 1
            raise ClientError(f"topic '{topic.name}' has no partition {index}, only 0 to {last}")
    partitions = tuple(p for p in topic.partitions if not wanted or p.index in wanted)
    return Topic(name=topic.name, id=topic.id, internal=topic.internal, partitions=partitions)


async def _start_offsets(
    client: Client, topic: Topic, start: str, since_ms: int | None, ends: dict[TopicPartition, Offset]
) -> dict[int, int]:
    if since_ms is not None:
        listed = await _list_offsets(client, topic, since_ms)
        # -1: all records are older, so start at the end
        return {key[1]: listed[key].offset if listed[key].offset >= 0 else ends[key].offset for key in listed}
    if start == "end":
        return {index: end.offset for (_, index), end in ends.items()}
    first = await _list_offsets(client, topic, offsets.EARLIEST)
    if start == "beginning":
        return {index: earliest.offset for (_, index), earliest in first.items()}
    number = int(start)
    if number < 0:
        return {key[1]: max(first[key].offset, ends[key].offset + number) for key in ends}
    for (_, index), earliest in first.items():
        if number < earliest.offset:
            raise ClientError(
                f"{topic.name}-{index} starts at offset {earliest.offset}: offset {number} is deleted. "
                f"Use --from beginning or a later offset"
            )
    return dict.fromkeys((index for _, index in ends), number)


async def _list_offsets(
    client: Client, topic: Topic, timestamp: int, isolation: int = offsets.READ_UNCOMMITTED
) -> dict[TopicPartition, Offset]:
    wanted = {(topic.name, p.index): timestamp for p in topic.partitions}
    return await offsets.list_offsets_with_retry(client, wanted, known=[topic], isolation=isolation)
