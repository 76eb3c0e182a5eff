"""What happened to each mutation, in a file that a later run continues, and the table of it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from insync.sim.mutation.mutations import Mutation


class Outcome(StrEnum):
    """In the order of the table's columns."""

    UNIT = "unit"
    """A unit test fails."""
    SIM = "sim"
    """A seed of the simulator fails."""
    SURVIVED = "survived"
    EQUIVALENT = "equivalent"
    """No one can observe it."""


@dataclass(frozen=True, slots=True)
class Result:
    key: str
    module: str
    function: str
    operator: str
    line: int
    outcome: Outcome
    by: str
    """The test, the seed and its property, or the reason why it is equivalent."""


def make_result(mutation: Mutation, outcome: Outcome, by: str) -> Result:
    return Result(mutation.key, mutation.module, mutation.function, mutation.operator, mutation.line, outcome, by)


class ResultFile:
    """One JSON object in each line; only ever appended to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text().splitlines() if path.exists() else []
        self.results = {result.key: result for result in (_parse(line) for line in lines)}

    def add(self, result: Result) -> None:
        self.results[result.key] = result
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")


def _parse(line: str) -> Result:
    fields = json.loads(line)
    return Result(**{**fields, "outcome": Outcome(fields["outcome"])})


def read_equivalents(path: Path) -> dict[str, str]:
    """Mutations that change nothing that anyone could observe, each with the reason: `MODULE:FUNCTION OPERATOR:
    REASON`, one per line."""
    reasons = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            place, _, reason = line.partition(": ")
            reasons[place] = reason
    return reasons


def place_in_file(mutation: Mutation | Result) -> str:
    """How the file of equivalents names a mutation: without its line, which changes with every edit above it."""
    return f"{mutation.module}:{mutation.function} {mutation.operator}"


def format_table(results: Iterable[Result], generated: Mapping[str, int]) -> str:
    """Per package; `generated`: how many mutations there are, of which a sample may have been tried."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        counts[result.module.split(".")[1]][result.outcome] += 1
    lines = [
        "| package | mutations | tried | unit tests | simulator | survived | equivalent | killed |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for package, count in sorted(counts.items()):
        lines.append(_row(package, generated.get(package, 0), count))
    lines.append(_row("all", sum(generated.values()), sum(counts.values(), Counter[str]())))
    return "\n".join(lines)


def _row(name: str, generated: int, count: Counter[str]) -> str:
    killed = count[Outcome.UNIT] + count[Outcome.SIM]
    judged = killed + count[Outcome.SURVIVED]
    share = f"{100 * killed / judged:.1f} %" if judged else "-"
    cells = (
        generated,
        sum(count.values()),
        count[Outcome.UNIT],
        count[Outcome.SIM],
        count[Outcome.SURVIVED],
        count[Outcome.EQUIVALENT],
        share,
    )
    return f"| {name} | " + " | ".join(map(str, cells)) + " |"
