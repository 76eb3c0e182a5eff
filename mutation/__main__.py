"""The command `python -m mutation`: unit tests judge each mutation first, the simulator those that survive."""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from insync.sim.mutation.hunt import find_catch
from insync.sim.mutation.mutations import DECISION_PACKAGES, Mutation, list_modules, list_mutations, module_file
from mutation.forks import run_forked
from mutation.results import Outcome, ResultFile, format_table, make_result, place_in_file, read_equivalents
from mutation.unit_stage import PASSED, UnitStage

OUTPUT = Path("build/mutation")
EQUIVALENTS = Path(__file__).with_name("equivalent.txt")
SEED_LIMIT_S = 60.0
"""A seed takes a fraction of a second; with a mutation it may go on for ever."""


def main() -> int:
    options = _options()
    every = list(list_mutations(list_modules(options.package or DECISION_PACKAGES)))
    generated = Counter(mutation.package for mutation in every)
    chosen = _sample(every, options.sample, options.seed)
    file = ResultFile(OUTPUT / ("simulator.jsonl" if options.simulator_only else "results.jsonl"))
    reasons = read_equivalents(EQUIVALENTS)
    for mutation in chosen:
        if place_in_file(mutation) in reasons:
            file.add(make_result(mutation, Outcome.EQUIVALENT, reasons[place_in_file(mutation)]))
    if not options.report:
        _judge(chosen, file, options)
    results = [file.results[mutation.key] for mutation in chosen if mutation.key in file.results]
    print(format_table(results, generated))
    for result in results:
        if result.outcome == Outcome.SURVIVED:
            print(f"survived: {result.module}:{result.line} {result.function}: {result.operator}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("--package", action="append", help="below insync; may be repeated (default: decisions)")
    parser.add_argument("--sample", type=int, default=0, help="this many, drawn from all (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=60, help="simulator seeds for each mutation")
    parser.add_argument("--simulator-only", action="store_true", help="without the unit tests")
    parser.add_argument("--unit-only", action="store_true", help="without the simulator")
    parser.add_argument("--report", action="store_true", help="only print what earlier runs found")
    return parser.parse_args()


def _sample(every: Sequence[Mutation], count: int, seed: int) -> list[Mutation]:
    """The first ones of a shuffled list: a larger sample with the same seed contains the smaller one."""
    shuffled = list(every)
    random.Random(seed).shuffle(shuffled)
    return shuffled[:count] if count else shuffled


def _judge(chosen: Sequence[Mutation], file: ResultFile, options: argparse.Namespace) -> None:
    left = [mutation for mutation in chosen if mutation.key not in file.results]
    if not options.simulator_only:
        left = _judge_by_unit_tests(left, file, options)
    if not options.unit_only:
        _judge_by_simulator(left, file, options)


def _judge_by_unit_tests(
    mutations: Sequence[Mutation], file: ResultFile, options: argparse.Namespace
) -> list[Mutation]:
    survivors: list[Mutation] = []

    def report(mutation: Mutation, said: str) -> None:
        if said == PASSED:
            survivors.append(mutation)
        else:
            file.add(make_result(mutation, Outcome.UNIT, said))
        print(f"{'survives' if said == PASSED else 'killed'}: {mutation}  {said}", flush=True)

    stage = UnitStage(
        mutations,
        {module_file(module): module for module in list_modules(options.package or DECISION_PACKAGES)},
        jobs=options.jobs,
        cache=OUTPUT / "callers.json",
        report=report,
    )
    arguments = ["-p", "no:xdist", "-p", "no:cacheprovider", "-p", "no:terminal", "-m", "unit and not slow"]
    pytest.main([*arguments, "-o", "addopts=", "tests"], plugins=[stage])
    return survivors


def _judge_by_simulator(mutations: Sequence[Mutation], file: ResultFile, options: argparse.Namespace) -> None:
    seeds = range(options.seeds)

    def task(mutation: Mutation) -> str:
        catch = find_catch(mutation, seeds)
        return PASSED if catch is None else f"seed {catch.seed}: {catch.property}"

    limit_s = SEED_LIMIT_S + 3.0 * options.seeds
    for mutation, said in run_forked(mutations, task, jobs=options.jobs, limit_s=lambda _: limit_s):
        outcome = Outcome.SURVIVED if said == PASSED else Outcome.SIM
        file.add(make_result(mutation, outcome, "" if said == PASSED else said))
        print(f"{outcome}: {mutation}  {said}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
