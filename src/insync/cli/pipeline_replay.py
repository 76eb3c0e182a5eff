"""`insync pipeline replay`: writes a lake back to topics."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated, Any

import typer

from insync.cli import client_config
from insync.cli.exits import usage_error
from insync.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from insync.cli.output import print_table
from insync.cli.parsing import moment, numbers
from insync.cli.pipeline import Master, check_java, job_errors_reported, output_errors_reported, resumable
from insync.cli.pipeline_jobs import parse_targets, print_notes, report_job, running_job
from insync.lake.reader import NO_LIMIT, Selection
from insync.pipeline import outputs
from insync.pipeline.replay import job
from insync.pipeline.replay.job import ReplayOptions, ReplaySummary
from insync.pipeline.replay.plan import ReplayError
from insync.pipeline.text import pluralize
from insync.wire import compression

_TIME = "An ISO time, 15m (ago), or milliseconds."


def replay(
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC[=TARGET]...", help="Topics of the lake, and their targets.")
    ],
    lake: Annotated[str, typer.Option(metavar="PATH", help="Directory of the lake, or s3://bucket/path.")] = "lake",
    from_offset: Annotated[int, typer.Option(min=0, help="First offset of each partition.")] = 0,
    to_offset: Annotated[int | None, typer.Option(min=0, help="Stop before this offset.")] = None,
    from_time: Annotated[str, typer.Option(metavar="TIME", help=f"Only records from this time on. {_TIME}")] = "",
    to_time: Annotated[str, typer.Option(metavar="TIME", help=f"Only records before this time. {_TIME}")] = "",
    partitions: Annotated[str, typer.Option(metavar="P[,...]", help="Only these partitions.")] = "",
    generation: Annotated[
        int | None, typer.Option(min=0, help="Generation of a recreated topic; by default the newest.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Records per second, all partitions together.")] = None,
    create: Annotated[bool, typer.Option("--create", help="Create missing target topics.")] = False,
    codec: Annotated[str, typer.Option(help=f"Compression of the batches: {', '.join(compression.NAMES)}.")] = "none",
    state: Annotated[
        str, typer.Option(metavar="PATH", help="Directory or s3:// URL for the state; by default in the lake.")
    ] = "",
    again: Annotated[bool, typer.Option("--again", help="Repeat a finished replay.")] = False,
    timeout: Annotated[float, typer.Option(min=1.0, help="Seconds to wait for brokers.")] = 60.0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Write a lake back to topics, with keys, headers, timestamps and partitions."""
    now_ms = time.time_ns() // 1_000_000
    options = ReplayOptions(
        bootstrap=bootstrap,
        lake=lake,
        topics=parse_targets(topics),
        selection=Selection(
            from_offset=from_offset,
            to_offset=NO_LIMIT if to_offset is None else to_offset,
            from_time=moment(from_time, now_ms) if from_time else -NO_LIMIT,
            to_time=moment(to_time, now_ms) if to_time else NO_LIMIT,
        ),
        partitions=tuple(numbers(partitions, "partitions")) if partitions else (),
        generation=generation,
        rate=rate,
        create=create,
        codec=codec,
        state=state,
        again=again,
        timeout_s=timeout,
        client=client_config.current_settings(),
    )
    try:
        job.check_options(options)
    except ReplayError as error:
        raise usage_error(str(error)) from None
    if options.state:
        with output_errors_reported():
            outputs.check_directory("--state", options.state)
    with resumable():
        summary = _replay(options, master, as_json)
    report_job(summary, _to_dict, _print, as_json=as_json)


def _replay(options: ReplayOptions, master: str | None, as_json: bool) -> ReplaySummary:
    check_java()
    with job_errors_reported(ReplayError):
        if (finished := job.find_finished(options)) is not None:
            return finished
        job.check_targets(options)
        with running_job("replay", master, "records", quiet=as_json) as running:
            return job.run(running.spark, options, on_progress=running.show, stop=running.stop)


def _to_dict(summary: ReplaySummary) -> dict[str, Any]:
    return {"rows": summary.rows, **asdict(summary), "seconds": round(summary.seconds, 3)}


def _print(summary: ReplaySummary) -> None:
    rows = [
        [
            f"{replayed.topic}-{replayed.partition}",
            f"{replayed.target}-{replayed.partition}",
            *(f"{value:,}" for value in (replayed.rows, replayed.resumed, replayed.first, replayed.end)),
        ]
        for replayed in summary.partitions
    ]
    print_table(("from", "to", "records", "written before", "target end before", "now"), rows)
    typer.echo()
    print_notes(summary.notes)
    rate = summary.rows / summary.seconds if summary.seconds else 0.0
    records = pluralize(summary.rows, "record")
    typer.echo(f"{records} in {summary.seconds:.1f} s ({rate:,.0f}/s); state in {summary.state}")
