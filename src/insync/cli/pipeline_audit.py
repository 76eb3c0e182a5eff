"""`insync pipeline audit`: checks replicas' logs and clients' histories against the protocol's properties."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from pyspark.sql import SparkSession

from insync.cli.exits import usage_error
from insync.cli.options import AsJson
from insync.cli.output import console, print_json, print_table, size
from insync.cli.pipeline import Master, open_session, output_errors_reported
from insync.cli.pipeline_log_errors import log_options_checked, spark_failures_reported
from insync.cli.pipeline_progress import progress_bars
from insync.findings import CRITICAL
from insync.pipeline import outputs
from insync.pipeline.audit.findings import MEANINGS, Finding, condense
from insync.pipeline.audit.job import Audit, AuditOptions, check_options, run, to_frame
from insync.pipeline.log_directories import list_log_directories
from insync.pipeline.text import pluralize
from insync.spark.option_values import OptionError

SHOWN = 40
"""Lines of findings: if there are more causes, those of one kind share lines; --json and --out have all."""


def audit(
    logs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DIR]...", help="Log directories of brokers, or the directory of an insync cluster."),
    ] = None,
    history: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="A history that clients recorded, JSON lines or Parquet; repeatable."),
    ] = None,
    topics: Annotated[str, typer.Option(metavar="T[,...]", help="Only the logs of these topics.")] = "",
    brokers: Annotated[str, typer.Option(metavar="N[,...]", help="Broker ids of the directories, in order.")] = "",
    compacted: Annotated[
        str, typer.Option(metavar="T[,...]", help="Topics to treat as compacted, if no metadata log says so.")
    ] = "",
    out: Annotated[str, typer.Option(metavar="DIR", help="Write the findings to DIR, as Parquet.")] = "",
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Do the replicas agree, is every byte what was written, and did clients see what they were promised?

    Exit code 1 if there are findings.
    """
    options = _options(logs or [], history or [], brokers, topics=_names(topics), compacted=_names(compacted))
    with output_errors_reported():
        if out:
            outputs.check_frame("--out", out, Finding._fields)
    _check(options)
    spark = open_session(master, "audit")
    started = time.perf_counter()
    with output_errors_reported():
        outputs.check_store(spark, "--out", out)
    audited = _run(spark, options, quiet=as_json)
    seconds = time.perf_counter() - started
    if as_json:
        print_json(_to_dict(audited, seconds))
    else:
        _print(audited, seconds)
    if out:
        with output_errors_reported():
            outputs.write_frame(to_frame(spark, audited).coalesce(1), "--out", out)
    if audited.findings:
        raise typer.Exit(1)


def _check(options: AuditOptions) -> None:
    with log_options_checked():
        check_options(options)


def _run(spark: SparkSession, options: AuditOptions, *, quiet: bool) -> Audit:
    try:
        with spark_failures_reported(), progress_bars(quiet=quiet) as on_progress:
            return run(spark, options, on_progress)
    except (OptionError, ValueError) as error:
        raise usage_error(str(error)) from None


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _options(logs: list[str], history: list[str], brokers: str, **names: tuple[str, ...]) -> AuditOptions:
    if not logs and not history:
        raise usage_error("nothing to audit: name log directories, or a history with --history")
    ids = _names(brokers)
    if not all(broker.isdecimal() for broker in ids):
        raise usage_error(f"--brokers {brokers}: broker ids with commas between them")
    return AuditOptions(
        logs=tuple(directory for path in logs for directory in list_log_directories(path)),
        histories=tuple(history),
        brokers=tuple(map(int, ids)),
        **names,
    )


def _to_dict(audited: Audit, seconds: float) -> dict[str, Any]:
    summary = audited.summary() | {"seconds": round(seconds, 1), "ok": not audited.findings}
    causes = [cause.to_dict() for cause in audited.causes]
    return summary | {"causes": causes, "found": [finding._asdict() for finding in audited.findings]}


def _print(audited: Audit, seconds: float) -> None:
    out = console()
    if (logs := audited.logs) is not None:
        names = ("replicas", "partitions", "segments", "batches", "records", "bytes", "stretches compared")
        values = (logs.replicas, logs.partitions, logs.segments, logs.batches, logs.records, size(logs.size))
        print_table(names, [(*values, logs.stretches)])
        if logs.unmarked:
            replicas = pluralize(logs.unmarked, "replica")
            out.print(f"{replicas} not compared: their brokers have not checkpointed a high watermark")
        if logs.compacted:
            out.print(f"compacted, where missing offsets are normal: {', '.join(logs.compacted)}")
        if not logs.policies_known:
            out.print("there is no metadata log beside the logs: compacted topics may be missed")
    if (history := audited.history) is not None:
        columns = ("partitions", "events", "sent", "acknowledged", "refused", "checked one by one")
        print_table(
            columns,
            [(history.partitions, history.events, history.sent, history.acked, history.failed, history.checked)],
        )
    if audited.findings:
        counts = audited.counts
        kinds = dict.fromkeys(cause.kind for cause in audited.causes)
        rows = [(kind, counts[kind], MEANINGS[kind].text, MEANINGS[kind].property) for kind in kinds]
        print_table(("found", "times", "what it means", "property"), rows)
    for cause in condense(audited.causes, SHOWN):
        out.print(str(cause), style="red" if cause.severity == CRITICAL else "yellow", markup=False)
    good = not audited.findings
    places = sum(audited.counts.values())
    text = "no findings" if good else pluralize(len(audited.causes), "finding")
    if places > len(audited.causes):
        text += f" in {places:,} places: --json and --out list them"
    out.print(f"{text} ({seconds:.1f} s)", style="bold green" if good else "bold red")
