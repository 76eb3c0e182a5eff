"""`insync consume`: read records from given offsets or times, up to the current end or indefinitely.

With a group, reading starts at its committed offsets, and what was printed is committed. The command is no member of
the group: it reads all partitions, and refuses a group that has members.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from typing import Annotated

import typer

from insync.cli import records as texts
from insync.cli.completion import complete_groups, complete_topics
from insync.cli.exits import usage_error
from insync.cli.output import print_json
from insync.cli.parsing import MAX_DIGITS, moment, numbers, pairs
from insync.cli.record_format import FIELDS, parse_format
from insync.cli.session import Session
from insync.client import groups, offsets, topics
from insync.client.client import Client
from insync.client.consumer import Reader
from insync.client.errors import ClientError, ErrorCode, RefusedError
from insync.client.model import Offset, Topic, TopicPartition
from insync.escaping import printable
from insync.wire.batch import Record

COMMIT_INTERVAL_S = 1.0


def consume(
    name: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)],
    partition: Annotated[str, typer.Option("--partition", "-p", metavar="0,1", help="Partitions; default: all.")] = "",
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="OFFSET",
            show_default="beginning",
            help="Start at: beginning, end, an offset, or -N for the last N.",
        ),
    ] = "",
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Start at a time: ISO 8601, 15m (ago), or ms since 1970.")
    ] = "",
    group: Annotated[
        str,
        typer.Option(
            "--group",
            "-g",
            metavar="GROUP",
            help="Start at the committed offsets of this group, and commit what was printed.",
            autocompletion=complete_groups,
        ),
    ] = "",
    limit: Annotated[int, typer.Option("--max", "-n", min=0, metavar="N", help="Stop after N records.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more records instead of stopping.")] = False,
    keys: Annotated[bool, typer.Option("--keys", help="Print keys.")] = False,
    headers: Annotated[bool, typer.Option("--headers", help="Print headers.")] = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Print timestamps.")] = False,
    show_offsets: Annotated[bool, typer.Option("--offsets", help="Print partition and offset.")] = False,
    separator: Annotated[str, typer.Option("--separator", help="Separator between the parts of a line.")] = "\t",
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help=f"Print records by a format string: {FIELDS}; \\n.")
    ] = "",
    pretty: Annotated[bool, typer.Option("--pretty", help="Indent values that are JSON.")] = False,
    key: Annotated[str | None, typer.Option("--key", "-k", metavar="TEXT", help="Only records with this key.")] = None,
    pattern: Annotated[
        str, typer.Option("--grep", metavar="REGEX", help="Only records whose value matches this expression.")
    ] = "",
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="Only records with this header.")
    ] = None,
    committed: Annotated[
        bool, typer.Option("--read-committed", help="Hide records of aborted and open transactions.")
    ] = False,
    *,
    session: Session,
) -> None:
    """Read a topic from the beginning, an offset or a time. With --json, prints one object per line."""
    wanted = numbers(partition, "partitions") if partition else []
    if since and start:
        raise usage_error("--from and --since exclude each other: use one of them")
    if start not in ("", "beginning", "end") and not (start.removeprefix("-").isdecimal() and len(start) < MAX_DIGITS):
        raise usage_error(f"--from {start}: write beginning, end, an offset, or -N for the last N records")
    if form and session.as_json:
        raise usage_error("--format and --json exclude each other: use one of them")
    since_ms = moment(since, time.time_ns() // 1_000_000) if since else None
    isolation = offsets.READ_COMMITTED if committed else offsets.READ_UNCOMMITTED
    is_wanted = _make_filter(key, pattern, pairs(header or [], "header"))
    in_terminal = sys.stdout.isatty()
    render = parse_format(form) if form else None

    def show(number: int, record: Record) -> None:
        if session.as_json:
            print_json(texts.to_json(name, number, record), pretty=pretty)
        elif render is not None:
            _write(render(name, number, record), in_terminal)
        else:
            typer.echo(
                texts.to_line(
                    number, record, keys=keys, headers=headers, timestamps=timestamps,
                    offsets=show_offsets, separator=separator, terminal=in_terminal, pretty=pretty,
                )
            )  # fmt: skip

    async def work(client: Client) -> int:
        topic = _select_partitions(await topics.describe_one(client, name), wanted)
        ends = await _list_offsets(client, topic, offsets.LATEST, isolation)
        begin = await _start_offsets(client, topic, start or "beginning", since_ms, ends)
        if group:
            begin = await _group_offsets(client, group, name, begin, keep_start=bool(start or since))
        begin = _within_log(topic, begin, ends)
        stops = None if follow else {index: end.offset for (_, index), end in ends.items() if index in begin}
        shown_partitions = Topic(
            name=topic.name,
            id=topic.id,
            internal=topic.internal,
            partitions=tuple(p for p in topic.partitions if p.index in begin),
        )
        reader = Reader(client, shown_partitions, begin, stops, isolation=isolation)
        commits = _Commits(client, group, name)
        shown = 0
        try:
            async for consumed in reader.records():
                if is_wanted(consumed.record):
                    show(consumed.partition, consumed.record)
                    shown += 1
                await commits.note(consumed.partition, consumed.record.offset + 1)
                if limit and shown >= limit:
                    break
        finally:
            await commits.flush()
        return shown

    if not session.run(work) and not session.as_json and not form:
        typer.echo("no records", err=True)


class _Commits:
    """Commits the offsets after the records that were printed, at most once a second, if there is a group."""

    def __init__(self, client: Client, group: str, topic: str) -> None:
        self._client = client
        self._group = group
        self._topic = topic
        self._next: dict[TopicPartition, int] = {}
        self._at = time.monotonic()

    async def note(self, partition: int, offset: int) -> None:
        self._next[self._topic, partition] = offset
        if time.monotonic() - self._at >= COMMIT_INTERVAL_S:
            await self.flush()

    async def flush(self) -> None:
        self._at = time.monotonic()
        offsets_to_commit, self._next = self._next, {}
        if self._group and offsets_to_commit:
            await groups.commit_offsets(self._client, self._group, offsets_to_commit)


def _make_filter(key: str | None, pattern: str, headers: dict[str, str]) -> Callable[[Record], bool]:
    try:
        expression = re.compile(os.fsencode(pattern)) if pattern else None
    except re.error as error:
        raise usage_error(f"--grep {pattern}: {error}") from None
    wanted_key = None if key is None else os.fsencode(key)
    wanted_headers = {(name, os.fsencode(value)) for name, value in headers.items()}

    def is_wanted(record: Record) -> bool:
        return (
            (wanted_key is None or record.key == wanted_key)
            and (expression is None or expression.search(record.value or b"") is not None)
            and wanted_headers <= set(record.headers)
        )

    return is_wanted


def _write(data: bytes, in_terminal: bool) -> None:
    """As it is, except in a terminal, where control characters are escaped."""
    if in_terminal:
        typer.echo(printable(data.decode(errors="backslashreplace"), keep="\n\t"), nl=False)
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


async def _group_offsets(
    client: Client, group: str, topic: str, begin: dict[int, int], *, keep_start: bool
) -> dict[int, int]:
    """The offsets that the group has committed, where it has, unless a start was asked for."""
    try:
        described = await groups.describe(client, group)
    except RefusedError as error:
        if error.code is not ErrorCode.group_id_not_found:
            raise
        return begin
    if described.members:
        raise ClientError(f"group '{group}' has members, which read its partitions. Stop its consumers first")
    if keep_start:
        return begin
    committed = await groups.list_committed_offsets(client, group)
    return {index: max(first, committed.get((topic, index), first)) for index, first in begin.items()}


def _within_log(topic: Topic, begin: dict[int, int], ends: dict[TopicPartition, Offset]) -> dict[int, int]:
    """Without partitions that end before the start, which are named; an error if none is left."""
    beyond = {index: ends[topic.name, index].offset for index, start in begin.items()}
    beyond = {index: end for index, end in beyond.items() if begin[index] > end}
    notes = [f"{topic.name}-{index} ends at offset {end}" for index, end in sorted(beyond.items())]
    if beyond and len(beyond) == len(begin):
        start = begin[min(beyond)]
        raise ClientError(f"offset {start} is beyond the end: {', '.join(notes)}. Use a lower --from, or --from end")
    for note in notes:
        typer.echo(f"insync: {note}, before the start; it is not read", err=True)
    return {index: start for index, start in begin.items() if index not in beyond}


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
