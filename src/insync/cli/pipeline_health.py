"""`insync pipeline health`: reconstructs the history of every ISR from the metadata log."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from insync.cli.exits import usage_error
from insync.cli.options import AsJson
from insync.cli.output import console, duration, print_json, print_table
from insync.cli.pipeline import Master, open_session, output_errors_reported
from insync.cli.pipeline_progress import progress_bars
from insync.pipeline import outputs
from insync.pipeline.health.job import EmptyPeriodError, Health, now_ms, read_health, to_frames, to_ms
from insync.pipeline.health.metadata_log import MetadataLogError
from insync.pipeline.health.page import render_page
from insync.pipeline.health.tables import table_columns
from insync.pipeline.text import pluralize

SHOWN = 10


def health(
    paths: Annotated[list[str], typer.Argument(metavar="DIR...", help="A metadata log, or data directories of nodes.")],
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a report page to FILE.")] = None,
    out: Annotated[str, typer.Option(metavar="DIR", help="Write events, spans and totals to DIR, as Parquet.")] = "",
    min_isr: Annotated[
        int, typer.Option(min=0, help="min.insync.replicas in the brokers' static settings (0: not set).")
    ] = 0,
    until: Annotated[
        str, typer.Option(metavar="TIME|now", help="End of the period (UTC); by default the last record.")
    ] = "",
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Show when each replica was in or out of sync, and why.

    Exit code 1 after an unclean election, or if a partition is under-replicated or offline at the end.
    """
    end = _parse_end(until)
    with output_errors_reported():
        _check_outputs(html, out)
    try:
        with progress_bars(quiet=as_json) as on_progress:
            report = read_health(paths, min_isr=min_isr or None, until_ms=end, on_progress=on_progress)
    except MetadataLogError as error:
        raise usage_error(str(error)) from None
    except EmptyPeriodError as error:
        raise usage_error(f"--until {until}: {error}") from None
    if html is not None:
        html.write_text(render_page(report), encoding="utf-8")
    if out:
        with output_errors_reported():
            _write(report, out, master)
    if as_json:
        print_json(report.summary() | {"sound": report.is_sound, "verdict": report.verdict})
    else:
        _print(report, html)
    if not report.is_sound:
        raise typer.Exit(1)


def _check_outputs(html: Path | None, out: str) -> None:
    if html is not None:
        outputs.check_page("--html", html)
    if out:
        for name, columns in table_columns().items():
            outputs.check_frame("--out", f"{out}/{name}", columns)


def _parse_end(text: str) -> int | None:
    if not text:
        return None
    if text == "now":
        return now_ms()
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise usage_error(f"--until {text}: use 'now', or a time such as 2026-11-16T08:30:00") from None
    return to_ms(when if when.tzinfo else when.replace(tzinfo=UTC))


def _write(report: Health, out: str, master: str | None) -> None:
    spark = open_session(master, "health")
    for name in report.tables._fields:
        outputs.check_store(spark, "--out", f"{out}/{name}")
    for name, frame in to_frames(spark, report).items():
        outputs.write_frame(frame, "--out", f"{out}/{name}")


def _print(report: Health, html: Path | None) -> None:
    totals = report.summary()
    out = console()
    out.print(f"{report.path}: {pluralize(report.records, 'record')}, {duration(report.seconds)}")
    print_table(
        ("partitions", "under-replicated", "under MinISR", "no leader", "shrinks", "expands", "per minute"),
        [
            (
                totals["partitions"],
                f"{totals['under_replicated_s']} s",
                f"{totals['under_min_isr_s']} s",
                f"{totals['offline_s']} s",
                totals["isr_shrinks"],
                totals["isr_expands"],
                totals["isr_changes_per_minute"],
            )
        ],
    )
    names = ("elections", "unclean_elections", "fencings", "controlled_shutdowns", "controller_elections")
    print_table([name.replace("_", " ") for name in names], [[totals[name] for name in names]])
    causes = report.tables.causes.slice(0, SHOWN).to_pylist()
    rows = [
        (cause["kind"].replace("_", " "), cause["how"], cause["cause"], cause["by"], cause["times"]) for cause in causes
    ]
    if rows:
        print_table(("change", "how", "cause", "decided by", "times"), rows)
    if html is not None:
        out.print(f"report: {html}")
    out.print(report.verdict, style="bold green" if report.is_sound else "bold red")
