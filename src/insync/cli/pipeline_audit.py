"""`insync pipeline audit`: replicas' logs and clients' histories, held against the protocol's properties."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from insync.cli.common import AsJson, console, print_json, print_table, size
from insync.cli.exits import failure, usage_error
from insync.cli.pipeline import Master, checked, open_session
from insync.cli.pipeline_progress import progress
from insync.history import verdict
from insync.pipeline import outputs
from insync.pipeline.audit.findings import MEANINGS, Finding
from insync.pipeline.audit.job import Audit, Options, check, frame, node_directories, run
from insync.pipeline.executors import reason
from insync.pipeline.wording import counted
from insync.spark.option_values import OptionError

SHOWN = 40
"""Findings that are told one by one; --json and --out have all."""


def audit(
    logs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DIR]...", help="Log directories of brokers, or the directory of a cluster of ours."),
    ] = None,
    history: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="What clients saw: JSON lines or Parquet. May be given several times."),
    ] = None,
    topics: Annotated[str, typer.Option(metavar="T[,...]", help="Only the logs of these topics.")] = "",
    brokers: Annotated[str, typer.Option(metavar="N[,...]", help="Whose the directories are, in their order.")] = "",
    compacted: Annotated[
        str, typer.Option(metavar="T[,...]", help="These topics are compacted, where no metadata log says so.")
    ] = "",
    out: Annotated[str, typer.Option(metavar="DIR", help="Write the findings here, as Parquet.")] = "",
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Do the replicas agree, is every byte what was written, and did clients see what they were promised?

    Exit code 1: something is not as it should be.
    """
    options = _options(logs or [], history or [], brokers, topics=_names(topics), compacted=_names(compacted))
    with checked():
        if out:
            outputs.check_frame("--out", out, Finding._fields)
    _check(options)
    spark = open_session(master, "audit")
    started = time.perf_counter()
    with checked():
        outputs.check_store(spark, "--out", out)
    found = _run(spark, options, quiet=as_json)
    seconds = time.perf_counter() - started
    if as_json:
        print_json(_as_dict(found, seconds))
    else:
        _print(found, seconds)
    if out:
        with checked():
            outputs.write_frame(frame(spark, found).coalesce(1), "--out", out)
    if found.findings:
        raise typer.Exit(1)


def _check(options: Options) -> None:
    try:
        check(options)
    except (OptionError, ValueError) as error:
        raise usage_error(str(error)) from None
    except OSError as error:
        raise failure(f"{error.filename} cannot be read: {error.strerror}") from None


def _run(spark: SparkSession, options: Options, *, quiet: bool) -> Audit:
    try:
        with progress(quiet=quiet) as tell:
            return run(spark, options, tell)
    except (OptionError, ValueError) as error:
        raise usage_error(str(error)) from None
    except (PySparkException, Py4JError) as error:
        raise failure(f"Spark: {reason(str(error))}") from None


def _names(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


def _options(logs: list[str], history: list[str], brokers: str, **names: tuple[str, ...]) -> Options:
    if not logs and not history:
        raise usage_error("nothing to audit: name log directories, or a history with --history")
    ids = _names(brokers)
    if not all(each.isdecimal() for each in ids):
        raise usage_error(f"--brokers {brokers}: broker ids with commas between them")
    return Options(
        logs=tuple(directory for path in logs for directory in node_directories(path)),
        histories=tuple(history),
        brokers=tuple(map(int, ids)),
        **names,
    )


def _as_dict(found: Audit, seconds: float) -> dict[str, Any]:
    told = found.summary() | {"seconds": round(seconds, 1), "ok": not found.findings}
    return told | {"found": [each._asdict() for each in found.findings]}


def _print(found: Audit, seconds: float) -> None:
    out = console()
    if (logs := found.logs) is not None:
        names = ("replicas", "partitions", "segments", "batches", "records", "bytes", "stretches compared")
        values = (logs.replicas, logs.partitions, logs.segments, logs.batches, logs.records, size(logs.size))
        print_table(names, [(*values, logs.stretches)])
        if logs.unmarked:
            replicas = counted(logs.unmarked, "replica")
            out.print(f"{replicas} not compared: their brokers have written no high watermark down")
        if logs.compacted:
            out.print(f"compacted, so that missing offsets are in order: {', '.join(logs.compacted)}")
        if not logs.policies_known:
            out.print("no metadata log beside the logs: which topics are compacted is not known for sure")
    if (seen := found.history) is not None:
        columns = ("partitions", "events", "sent", "acknowledged", "refused", "judged one by one")
        print_table(columns, [(seen.partitions, seen.events, seen.sent, seen.acked, seen.failed, seen.judged)])
    if found.findings:
        meanings = MEANINGS | verdict.MEANINGS
        rows = [(kind, count, *meanings.get(kind, ("", ""))[::-1]) for kind, count in found.counts.items()]
        print_table(("found", "times", "what it means", "property"), rows)
    for each in found.findings[:SHOWN]:
        out.print(str(each), style="red", markup=False)
    if len(found.findings) > SHOWN:
        out.print(f"... {len(found.findings):,} in all: see --json or --out", style="red")
    good = not found.findings
    text = "nothing is wrong" if good else counted(len(found.findings), "finding")
    out.print(f"{text} ({seconds:.1f} s)", style="bold green" if good else "bold red")
