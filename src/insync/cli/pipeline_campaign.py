"""`insync pipeline campaign`: the simulator's seeds on Spark."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated, Any

import typer

from insync.cli.common import AsJson, console, print_json, print_table
from insync.cli.exits import usage_error
from insync.cli.pipeline import Master, checked, open_session, resumable
from insync.cli.pipeline_progress import progress
from insync.cli.seeds import seed_range
from insync.pipeline import outputs
from insync.pipeline.campaign.job import Options, Summary, run
from insync.pipeline.campaign.seeds import Work
from insync.pipeline.wording import counted
from insync.sim.checks.probes import PROBES
from insync.sim.mutants.catalogue import MUTANTS

SHOWN = 20
"""Violations that the table names; --json and the files have more."""


def campaign(
    seeds: Annotated[str, typer.Option(metavar="A:B", help="Seeds A up to, not including, B.")] = "0:2000",
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Where results go; seeds that are in it are not run again.")
    ] = "insync-campaign",
    steps: Annotated[int, typer.Option(min=0, help="End fault phases after so many node steps (0: the plan's).")] = 0,
    mutant: Annotated[str, typer.Option(help="Run with this safeguard removed (`insync sim mutants`).")] = "",
    chunk: Annotated[int, typer.Option(min=0, help="Seeds of one task (0: chosen by their number and cores).")] = 0,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Run many seeds with every property checked. Stopped, the same command goes on where it was.

    Exit code 1 if a property is violated.
    """
    wanted = seed_range(seeds)
    if mutant and mutant not in MUTANTS:
        raise usage_error(f"no mutant is called '{mutant}'. Known: {', '.join(MUTANTS)}")
    with checked():
        outputs.check_directory("--out", out)
    options = Options(wanted, out, Work(steps, mutant), chunk)
    with resumable():
        spark = open_session(master, "campaign")
        started = time.perf_counter()
        with progress(quiet=as_json) as tell:
            found = run(spark, options, tell)
    seconds = time.perf_counter() - started
    if as_json:
        print_json(_as_dict(found, seconds))
    else:
        _print(found, seconds)
    if found.violations:
        raise typer.Exit(1)


def _as_dict(found: Summary, seconds: float) -> dict[str, Any]:
    rate = round(found.ran / seconds, 2) if found.ran else None
    return asdict(found) | {"seconds": round(seconds, 1), "seeds_per_s": rate, "never": found.never}


def _print(found: Summary, seconds: float) -> None:
    out = console()
    rate = f"{found.ran} now in {seconds:.1f} s, {found.ran / seconds:.1f} seeds/s" if found.ran else "all were there"
    steps = counted(found.steps, "node step")
    out.print(f"{counted(found.seeds, 'seed')} ({rate}), {steps}, rows in {found.path}")
    out.print(f"{len(PROBES) - len(found.never)} of {len(PROBES)} probes reached")
    if found.never:
        print_table(("never reached", "what it would be"), [(name, PROBES[name]) for name in found.never])
    for failure in found.failures[:SHOWN]:
        out.print(f"VIOLATION seed {failure.seed}  {failure.property}: {failure.detail}", style="bold red")
        out.print(f"  look at it:  {failure.replay}")
    if found.violations > SHOWN:
        out.print(
            f"... {counted(found.violations, 'violation')} in all: column `property` of the rows is not null",
            style="red",
        )
    if not found.violations:
        out.print("no violation", style="bold green")
