"""`insync pipeline health`: the history of every ISR, from the metadata log."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from insync.cli.common import AsJson, console, duration, print_json, print_table
from insync.cli.exits import usage_error
from insync.cli.pipeline import Master, checked, open_session
from insync.cli.pipeline_progress import progress
from insync.pipeline import outputs
from insync.pipeline.health import job as pipeline
from insync.pipeline.health.job import Health, TooEarly
from insync.pipeline.health.metadata_log import NoMetadataLog
from insync.pipeline.health.page import render
from insync.pipeline.health.tables import columns
from insync.pipeline.wording import counted

SHOWN = 10


def health(
    paths: Annotated[list[str], typer.Argument(metavar="DIR...", help="A metadata log, or nodes' directories.")],
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report page here.")] = None,
    out: Annotated[str, typer.Option(metavar="DIR", help="Write events, spans and sums here, as Parquet.")] = "",
    min_isr: Annotated[
        int, typer.Option(min=0, help="min.insync.replicas of the brokers' own settings (0: the log says, else 1).")
    ] = 0,
    until: Annotated[str, typer.Option(metavar="TIME|now", help="End here, not with the last record (UTC).")] = "",
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Who was in sync when, who was not, and why.

    Exit code 1: there was an unclean election, or partitions are not well off at the end.
    """
    end = _end(until)
    with checked():
        _places(html, out)
    try:
        with progress(quiet=as_json) as tell:
            found = pipeline.read(paths, min_isr=min_isr or None, until_ms=end, tell=tell)
    except NoMetadataLog as error:
        raise usage_error(str(error)) from None
    except TooEarly as error:
        raise usage_error(f"--until {until}: {error}") from None
    if html is not None:
        html.write_text(render(found), encoding="utf-8")
    if out:
        with checked():
            _write(found, out, master)
    if as_json:
        print_json(found.summary() | {"sound": found.sound, "verdict": found.verdict})
    else:
        _print(found, html)
    if not found.sound:
        raise typer.Exit(1)


def _places(html: Path | None, out: str) -> None:
    if html is not None:
        outputs.check_page("--html", html)
    if out:
        for name, known in columns().items():
            outputs.check_frame("--out", f"{out}/{name}", known)


def _end(text: str) -> int | None:
    if not text:
        return None
    if text == "now":
        return pipeline.now_ms()
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise usage_error(f"--until {text}: 'now', or a time such as 2026-11-16T08:30:00") from None
    return pipeline.to_ms(when if when.tzinfo else when.replace(tzinfo=UTC))


def _write(found: Health, out: str, master: str | None) -> None:
    spark = open_session(master, "health")
    for name in found.tables._fields:
        outputs.check_store(spark, "--out", f"{out}/{name}")
    for name, frame in pipeline.frames(spark, found).items():
        outputs.write_frame(frame, "--out", f"{out}/{name}")


def _print(found: Health, html: Path | None) -> None:
    totals = found.summary()
    out = console()
    out.print(f"{found.path}: {counted(found.records, 'record')}, {duration(found.seconds)}")
    print_table(
        ("partitions", "under-replicated", "under MinISR", "no leader", "shrinks", "expands", "a minute"),
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
    causes = found.tables.causes.slice(0, SHOWN).to_pylist()
    rows = [(each["kind"].replace("_", " "), each["how"], each["cause"], each["by"], each["times"]) for each in causes]
    if rows:
        print_table(("what", "how", "why", "decided by", "times"), rows)
    if html is not None:
        out.print(f"report: {html}")
    out.print(found.verdict, style="bold green" if found.sound else "bold red")
