"""What happened to each mutation, in a file that a later run continues, and the table of it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from insync.sim.mutation.mutations import Mutation

UNIT = "unit"
SIM = "sim"
SURVIVED = "survived"
EQUIVALENT = "equivalent"


@dataclass(frozen=True, slots=True)
class Result:
    key: str
    module: str
    function: str
    operator: str
    line: int
    outcome: str
    """UNIT or SIM: what noticed it; SURVIVED; EQUIVALENT."""
    by: str
    """The test, the seed and its property, or the reason why it is equivalent."""


def make_result(mutation: Mutation, outcome: str, by: str) -> Result:
    return Result(mutation.key, mutation.module, mutation.function, mutation.operator, mutation.line, outcome, by)


class ResultFile:
    """One JSON object in each line; only ever appended to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text().splitlines() if path.exists() else []
        self.results = {result.key: result for result in (Result(**json.loads(line)) for line in lines)}

    def add(self, result: Result) -> None:
        self.results[result.key] = result
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")


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
    killed = count[UNIT] + count[SIM]
    judged = killed + count[SURVIVED]
    share = f"{100 * killed / judged:.1f} %" if judged else "-"
    cells = (generated, sum(count.values()), count[UNIT], count[SIM], count[SURVIVED], count[EQUIVALENT], share)
    return f"| {name} | " + " | ".join(map(str, cells)) + " |"
