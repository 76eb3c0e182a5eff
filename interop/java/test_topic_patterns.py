"""`subscribePattern` finds what Java's regular expressions find, and the table of the unit tests is Java's own.

python -m interop.java.test_topic_patterns      # writes the table anew
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

from insync.spark.java_pattern import JavaPatternError, compile_java_pattern
from interop.java.random_patterns import random_name, random_pattern

PROGRAM = Path(__file__).with_name("Patterns.java")
TABLE = Path(__file__).parents[2] / "tests" / "data" / "java-patterns.jsonl"
PATTERNS, NAMES, SEED = 5_000, 12, 12
INVALID = "invalid"


def ask_java(cases: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    lines = "".join("\t".join((pattern, *names)) + "\n" for pattern, names in cases)
    completed = subprocess.run(["java", str(PROGRAM)], input=lines, capture_output=True, text=True, check=True)
    return completed.stdout.splitlines()


def ask_insync(pattern: str, names: Iterable[str]) -> str | None:
    """As `Patterns.java` prints it; None if the pattern is refused."""
    try:
        compiled = compile_java_pattern(pattern)
    except JavaPatternError:
        return None
    return "".join("1" if compiled.search(name) else "0" for name in names)


def random_cases(random: Random, count: int) -> list[tuple[str, list[str]]]:
    return [(random_pattern(random), [random_name(random) for _ in range(NAMES)]) for _ in range(count)]


def test_random_patterns_select_the_same_names_or_are_refused() -> None:
    cases = random_cases(Random(SEED), PATTERNS)
    answers = list(zip(cases, ask_java(cases), strict=True))
    different = []
    refused = 0
    for (pattern, names), java in answers:
        ours = ask_insync(pattern, names)
        refused += ours is None and java != INVALID
        if ours is not None and java not in (INVALID, ours):
            different.append(pattern)
    assert different == []
    assert refused < PATTERNS // 8


def test_the_table_is_javas() -> None:
    rows = [json.loads(line) for line in TABLE.read_text().splitlines()]
    answers = ask_java([(row["pattern"], row["names"]) for row in rows])
    assert [row["found"] for row in rows] == answers


def write_table() -> None:
    """What the table has by hand is kept; random patterns on which both agree are added."""
    rows = [json.loads(line) for line in TABLE.read_text().splitlines()] if TABLE.exists() else []
    by_hand = [(row["pattern"], row["names"]) for row in rows if not row.get("random")]
    cases = random_cases(Random(SEED), 400)
    answers = ask_java([*by_hand, *cases])
    kept = [(*case, matches, False) for case, matches in zip(by_hand, answers, strict=False)]
    for (pattern, names), matches in zip(cases, answers[len(by_hand) :], strict=True):
        if matches == (ask_insync(pattern, names) or INVALID):
            kept.append((pattern, names, matches, True))
    lines = [
        json.dumps({"pattern": pattern, "names": names, "found": matches} | ({"random": True} if is_random else {}))
        for pattern, names, matches, is_random in kept
    ]
    TABLE.write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    write_table()
