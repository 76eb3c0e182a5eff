"""`insync sim`: run seeds, replay or shrink one, hunt mutants, play scenarios."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from insync.cli import sim_demo
from insync.cli.exits import file_problem, usage_error
from insync.cli.output import console, print_table
from insync.cli.seeds import one_seed, over_processes, seed_range
from insync.sim import shrinking
from insync.sim.checks.probes import PROBES
from insync.sim.mutants.catalogue import MUTANTS, apply_mutant
from insync.sim.mutants.hunt import HuntResult, hunt_mutants, markdown_table
from insync.sim.mutants.mutant import Mutant
from insync.sim.narration.narrator import TextNarrator
from insync.sim.plans.swarm import draw_plan
from insync.sim.run import Outcome, run_plan, run_seed
from insync.sim.scenario import library, player

app = typer.Typer(help="The deterministic simulator: the code of the nodes, under faults.", no_args_is_help=True)
app.command(name="demo")(sim_demo.demo)

JOBS = os.cpu_count() or 1


@app.command()
def run(
    seeds: str = typer.Option("0:200", help="Seeds to run: A:B runs A to B-1, N runs one."),
    steps: int = typer.Option(
        0, help="End the fault phase of each run after about this many node steps (0: as planned)."
    ),
    jobs: int = typer.Option(JOBS, min=1, help="Number of processes."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object and no progress bar."),
) -> None:
    """Run many seeds and check every property. Exit code 1 if one is violated."""
    seed_numbers = seed_range(seeds)
    work = partial(run_seed, max_steps=steps)
    started = time.perf_counter()
    outcomes = []
    with _progress(quiet=as_json) as progress:
        bar = progress.add_task("seeds", total=len(seed_numbers))
        for outcome in over_processes(work, seed_numbers, jobs):
            outcomes.append(outcome)
            progress.advance(bar)
            if outcome.violation is not None and not as_json:
                progress.console.print(f"seed {outcome.seed}: {outcome.violation}")
    outcomes.sort(key=lambda outcome: outcome.seed)
    summary = _summary(outcomes, time.perf_counter() - started)
    if as_json:
        typer.echo(json.dumps(summary))
    else:
        _print_summary(summary)
    if summary["violations"]:
        raise typer.Exit(1)


def _summary(outcomes: list[Outcome], seconds: float) -> dict[str, Any]:
    probes: Counter[str] = Counter()
    for outcome in outcomes:
        probes.update(outcome.probes.keys())  # seeds that reached it, not how often
    steps = sum(outcome.steps for outcome in outcomes)
    cpu = sum(outcome.cpu_seconds for outcome in outcomes)
    return {
        "seeds": len(outcomes),
        "violations": sum(outcome.violation is not None for outcome in outcomes),
        "steps": steps,
        "steps_per_s": round(steps / cpu) if cpu else 0,
        "seeds_per_s": round(len(outcomes) / seconds, 2),
        "seconds": round(seconds, 1),
        "probes": {name: probes.get(name, 0) for name in PROBES},
        "failures": [
            {"seed": o.seed, "property": o.violation.property, "detail": o.violation.detail}
            for o in outcomes
            if o.violation is not None
        ],
    }


def _print_summary(summary: dict[str, Any]) -> None:
    out = console()
    out.print(
        f"{summary['seeds']} seeds, {summary['steps']:,} node steps in {summary['seconds']} s: "
        f"{summary['seeds_per_s']} seeds/s, {summary['steps_per_s']:,} steps/s per core"
    )
    reached = [name for name, count in summary["probes"].items() if count]
    out.print(f"{len(reached)} of {len(PROBES)} probes reached")
    never = [name for name in PROBES if name not in reached]
    if never:
        print_table(("never reached", "meaning"), [(name, PROBES[name]) for name in never])
    for failure in summary["failures"]:
        out.print(f"VIOLATION seed {failure['seed']}  {failure['property']}: {failure['detail']}", style="bold red")
        out.print(f"  to make it readable:  insync sim shrink {failure['seed']}")
    if not summary["failures"]:
        out.print("no violation", style="bold green")


@app.command()
def replay(
    seed: str = typer.Argument(help="The seed to run again."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Print every event, not only the notable ones."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object with the trace hash."),
) -> None:
    """Run one seed again and print what happens."""
    number = one_seed(seed)
    story = None if as_json else TextNarrator(typer.echo, verbose=verbose)
    outcome = run_plan(draw_plan(number), narrator=story)
    if as_json:
        typer.echo(json.dumps(_as_json(outcome)))
    else:
        typer.echo(f"{outcome.steps:,} steps, {outcome.sim_seconds:.1f} simulated seconds, trace {outcome.trace_hash}")
        typer.echo(str(outcome.violation or "no violation"))
    if outcome.violation is not None:
        raise typer.Exit(1)


def _as_json(outcome: Outcome) -> dict[str, Any]:
    violation = outcome.violation
    return {
        "seed": outcome.seed,
        "trace_hash": outcome.trace_hash,
        "steps": outcome.steps,
        "sim_seconds": outcome.sim_seconds,
        "probes": dict(outcome.probes),
        "violation": None if violation is None else {"property": violation.property, "detail": violation.detail},
    }


@app.command()
def shrink(
    seed: str = typer.Argument(help="A seed that fails."),
    mutant: str = typer.Option("", help="Remove this safeguard first."),
    seconds: int = typer.Option(120, min=1, help="Stop shrinking after this time."),
) -> None:
    """Shrink the plan of a failing seed, and print what happens in the smaller run."""
    number = one_seed(seed)
    chosen = _mutants([mutant])[0] if mutant else None
    with apply_mutant(chosen):
        plan = draw_plan(number)
        first = run_plan(plan)
        if first.violation is None:
            raise usage_error(
                f"seed {number} does not fail{f' with {mutant} removed' if mutant else ''}: there is nothing to shrink"
            )
        typer.echo(f"seed {number} fails: {first.violation}")
        shrinker = shrinking.Shrinker(first.violation.property, time.monotonic() + seconds, time.monotonic)
        small = shrinker.shrink(plan)
        typer.echo(shrinking.describe_shrunk_plan(plan, small))
        run_plan(small, narrator=TextNarrator(typer.echo, numbered=True))
    raise typer.Exit(1)


@app.command()
def mutants(
    names: Annotated[list[str] | None, typer.Argument(help="Names of mutants (default: all).")] = None,
    seeds: str = typer.Option("0:2000", help="Seeds to try on each mutant, in order."),
    jobs: int = typer.Option(JOBS, min=1, help="Number of processes."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object and no progress bar."),
    markdown: bool = typer.Option(False, help="Print the table of docs/mutants.md."),
) -> None:
    """Remove one safeguard at a time and run seeds until a property fails. Exit code 1 if none fails."""
    chosen = _mutants(names or [])
    seed_numbers = seed_range(seeds)
    rows = []
    with _progress(quiet=as_json or markdown) as progress:
        bar = progress.add_task("mutants", total=len(chosen))
        for caught in hunt_mutants(chosen, seed_numbers, jobs):
            rows.append(caught)
            progress.advance(bar)
    rows.sort(key=lambda row: [m.name for m in chosen].index(row.name))
    if as_json:
        typer.echo(json.dumps({"mutants": [row.as_dict() for row in rows]}))
    elif markdown:
        typer.echo(markdown_table(rows))
    else:
        _print_mutants(rows)
    if any(not row.caught for row in rows):
        raise typer.Exit(1)


def _mutants(names: list[str]) -> list[Mutant]:
    for name in names:
        if name not in MUTANTS:
            known = ", ".join(MUTANTS)
            raise usage_error(f"there is no mutant '{name}'. Known: {known}")
    return [MUTANTS[name] for name in names or MUTANTS]


def _print_mutants(rows: list[HuntResult]) -> None:
    print_table(
        ("mutant", "safeguard removed", "caught by", "seed"),
        [(row.name, row.removes, row.property or "NOT CAUGHT", row.seed if row.caught else None) for row in rows],
    )
    console().print(f"{sum(row.caught for row in rows)} of {len(rows)} caught")


@app.command(name="scenario")
def play(
    scenarios: Annotated[
        list[str] | None, typer.Argument(help="Names of scenarios that ship with insync, or scenario files.")
    ] = None,
    list_names: bool = typer.Option(False, "--list", help="List the scenarios that ship with insync."),
) -> None:
    """Play scripted scenarios and print what happens. Exit code 1 if an expectation fails."""
    if list_names:
        for name in library.list_scenarios():
            typer.echo(f"{name}: {library.read_scenario(name).splitlines()[0].lstrip('# ')}")
        return
    if not scenarios:
        raise usage_error("no scenario given: name a file, or one of those that --list prints")
    failed = False
    for scenario in scenarios:
        try:
            played = player.play(_read_scenario(scenario), name=Path(scenario).name)
        except player.ScenarioError as error:
            raise usage_error(str(error)) from None
        typer.echo(played.text)
        failed = failed or not played.ok
    if failed:
        raise typer.Exit(1)


def _read_scenario(name: str) -> str:
    """A file of that name comes before a scenario of the library."""
    if os.path.exists(name):
        try:
            text = Path(name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise usage_error(f"{name} is not a scenario: it is not a text file") from None
        except OSError as error:
            raise usage_error(file_problem(error, name)) from None
        if not any(line.strip() and not line.strip().startswith("#") for line in text.splitlines()):
            raise usage_error(f"{name} is not a scenario: it has no steps. `insync sim scenario --list` shows some")
        return text
    try:
        return library.read_scenario(name)
    except KeyError:
        known = ", ".join(library.list_scenarios())
        raise usage_error(
            f"no scenario file at {name}, and no scenario of that name ships with insync: {known}"
        ) from None


def _progress(*, quiet: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=quiet,
    )
