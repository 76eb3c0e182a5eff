"""`insync pipeline replay`: a lake back to topics."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from insync.cli import client_config
from insync.cli.common import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, console, print_json, print_table, reason
from insync.cli.exits import failure, usage_error
from insync.cli.parsing import moment, numbers
from insync.cli.pipeline import Master, checked, interruptible, need_java, resumable, spark_session, stopped
from insync.cli.pipeline_progress import bar
from insync.client.errors import AddressError, ClientError
from insync.pipeline import outputs
from insync.pipeline.journal import JournalError
from insync.pipeline.lake import LakeError
from insync.pipeline.replay import job as pipeline
from insync.pipeline.replay.job import ReplayError, ReplayOptions, Selection, Summary
from insync.pipeline.replay.plan import FOREVER
from insync.pipeline.wording import counted
from insync.wire import compression

_TIME = "An ISO time, 15m (ago), or milliseconds."


def replay(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC[=TARGET]...", help="Topics of the lake, and where to.")],
    lake: Annotated[Path, typer.Option(help="The lake's directory.")] = Path("lake"),
    from_offset: Annotated[int, typer.Option(min=0, help="The first offset of each partition.")] = 0,
    to_offset: Annotated[int | None, typer.Option(min=0, help="The offset before which to end.")] = None,
    from_time: Annotated[str, typer.Option(metavar="TIME", help=f"No records before it. {_TIME}")] = "",
    to_time: Annotated[str, typer.Option(metavar="TIME", help=f"No records at or after it. {_TIME}")] = "",
    partitions: Annotated[str, typer.Option(metavar="P[,...]", help="Only these partitions.")] = "",
    generation: Annotated[int | None, typer.Option(min=0, help="Of a topic that was made anew: which one.")] = None,
    rate: Annotated[float | None, typer.Option(help="Records a second, all partitions together.")] = None,
    create: Annotated[bool, typer.Option("--create", help="Make target topics that do not exist.")] = False,
    codec: Annotated[str, typer.Option(help=f"Of the batches: {', '.join(compression.NAMES)}.")] = "none",
    state: Annotated[Path | None, typer.Option(help="Where to keep how far it is; else in the lake.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Once more, though it was done before.")] = False,
    timeout: Annotated[float, typer.Option(min=1.0, help="Seconds of patience with brokers.")] = 60.0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """A lake back to topics, with keys, headers, timestamps and partitions."""
    now_ms = time.time_ns() // 1_000_000
    options = ReplayOptions(
        bootstrap=bootstrap,
        lake=str(lake),
        topics=_targets(topics),
        selection=Selection(
            from_offset=from_offset,
            to_offset=FOREVER if to_offset is None else to_offset,
            from_time=moment(from_time, now_ms) if from_time else -FOREVER,
            to_time=moment(to_time, now_ms) if to_time else FOREVER,
        ),
        partitions=tuple(numbers(partitions, "partitions")) if partitions else (),
        generation=generation,
        rate=rate,
        create=create,
        codec=codec,
        state=str(state) if state else "",
        again=again,
        timeout_s=timeout,
        client=client_config.settings(),
    )
    try:
        pipeline.check_options(options)
    except ReplayError as error:
        raise usage_error(str(error)) from None
    if options.state:
        with checked():
            outputs.check_directory("--state", options.state)
    with resumable():
        summary = _replay(options, master, as_json)
    if as_json:
        print_json({"rows": summary.rows, **asdict(summary), "seconds": round(summary.seconds, 3)})
    else:
        _print(summary)
    if not summary.finished:
        raise stopped()


def _targets(topics: list[str]) -> dict[str, str]:
    found = {}
    for text in topics:
        name, equals, target = text.partition("=")
        if not name or (equals and not target):
            raise usage_error(f"'{text}' is not a topic: write TOPIC, or TOPIC=TARGET to write it to another one")
        found[name] = target or name
    return found


def _replay(options: ReplayOptions, master: str | None, as_json: bool) -> Summary:
    need_java()
    try:
        if (over := pipeline.done_before(options)) is not None:
            return over
        pipeline.check_targets(options)
        with spark_session(master, "replay") as spark, interruptible() as stop, bar(quiet=as_json) as progress:
            task = progress.add_task("replay", total=None, told="records")

            def told(done: int, total: int) -> None:
                progress.update(task, completed=done, total=total)

            return pipeline.run(spark, options, on_progress=told, stop=stop)
    except AddressError as error:
        raise usage_error(str(error)) from None
    except (ClientError, LakeError, JournalError, ReplayError) as error:
        raise failure(reason(error)) from None


def _print(summary: Summary) -> None:
    rows = [
        [
            f"{each.topic}-{each.partition}",
            f"{each.target}-{each.partition}",
            *(f"{value:,}" for value in (each.rows, each.resumed, each.first, each.end)),
        ]
        for each in summary.partitions
    ]
    print_table(("from", "to", "records", "of them before", "target's end was", "is"), rows)
    typer.echo()
    for note in summary.notes:
        console().print(note, style="yellow", markup=False)
    rate = summary.rows / summary.seconds if summary.seconds else 0.0
    records = counted(summary.rows, "record")
    typer.echo(f"{records} in {summary.seconds:.1f} s ({rate:,.0f}/s); state in {summary.state}")
