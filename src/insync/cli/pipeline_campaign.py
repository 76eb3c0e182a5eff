"""`insync pipeline campaign`: runs simulator seeds on Spark."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated, Any

import typer

from insync.cli.exits import usage_error
from insync.cli.options import AsJson
from insync.cli.output import console, print_json, print_table
from insync.cli.pipeline import Master, open_session, output_errors_reported, resumable
from insync.cli.pipeline_progress import progress_bars
from insync.cli.seeds import seed_range
from insync.pipeline import outputs
from insync.pipeline.campaign.job import CampaignOptions, CampaignSummary, run
from insync.pipeline.campaign.seeds import RunOptions
from insync.pipeline.text import pluralize
from insync.sim.checks.probes import PROBES
from insync.sim.mutants.catalogue import MUTANTS

SHOWN = 20
"""Violations that are printed; --json and the files have more."""


def campaign(
    seeds: Annotated[str, typer.Option(metavar="A:B", help="Seeds from A up to, but not including, B.")] = "0:2000",
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Directory for the results; seeds in it are not run again.")
    ] = "insync-campaign",
    steps: Annotated[int, typer.Option(min=0, help="Node steps of the fault phase (0: as planned).")] = 0,
    mutant: Annotated[str, typer.Option(help="Run with this safeguard removed (`insync sim mutants`).")] = "",
    chunk: Annotated[int, typer.Option(min=0, help="Seeds per task (0: automatic).")] = 0,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Run many seeds with every property checked. After a stop, the same command continues.

    Exit code 1 if a property is violated.
    """
    chosen = seed_range(seeds)
    if mutant and mutant not in MUTANTS:
        raise usage_error(f"unknown mutant '{mutant}'; known are {', '.join(MUTANTS)}")
    with output_errors_reported():
        outputs.check_directory("--out", out)
    options = CampaignOptions(chosen, out, RunOptions(steps, mutant), chunk)
    with resumable():
        spark = open_session(master, "campaign")
        started = time.perf_counter()
        with progress_bars(quiet=as_json) as on_progress:
            summary = run(spark, options, on_progress)
    seconds = time.perf_counter() - started
    if as_json:
        print_json(_to_dict(summary, seconds))
    else:
        _print(summary, seconds)
    if summary.violations:
        raise typer.Exit(1)


def _to_dict(summary: CampaignSummary, seconds: float) -> dict[str, Any]:
    rate = round(summary.ran / seconds, 2) if summary.ran else None
    return asdict(summary) | {"seconds": round(seconds, 1), "seeds_per_s": rate, "never": summary.never}


def _print(summary: CampaignSummary, seconds: float) -> None:
    out = console()
    rate = (
        f"{summary.ran} now in {seconds:.1f} s, {summary.ran / seconds:.1f} seeds/s"
        if summary.ran
        else "all were run before"
    )
    steps = pluralize(summary.steps, "node step")
    out.print(f"{pluralize(summary.seeds, 'seed')} ({rate}), {steps}, rows in {summary.path}")
    out.print(f"{len(PROBES) - len(summary.never)} of {len(PROBES)} probes reached")
    if summary.never:
        print_table(("never reached", "description"), [(name, PROBES[name]) for name in summary.never])
    for failure in summary.failures[:SHOWN]:
        out.print(f"VIOLATION seed {failure.seed}  {failure.property}: {failure.detail}", style="bold red")
        out.print(f"  reproduce:  {failure.replay}")
    if summary.violations > SHOWN:
        out.print(
            f"... {pluralize(summary.violations, 'violation')} in total: rows whose column `property` is not null",
            style="red",
        )
    if not summary.violations:
        out.print("no violations", style="bold green")
