"""How a step of a scenario is declared and how its words are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from insync.sim.scenario.stage import Stage, StepError

Run = Callable[[Stage, list[str]], None]


@dataclass(frozen=True, slots=True)
class Step:
    usage: str
    least: int
    run: Run


STEPS: dict[str, Step] = {}


def step(usage: str) -> Callable[[Run], Run]:
    """Declares a step by an example of its line: words in capitals have to be given, those in brackets may be."""
    name, *words = usage.split("  ")[0].split()
    least = sum(1 for word in words if not word.startswith("[") and not word.endswith("]"))

    def declare(run: Run) -> Run:
        STEPS[name] = Step(usage, least, run)
        return run

    return declare


def perform(stage: Stage, text: str) -> None:
    name, *words = text.split()
    declared = STEPS.get(name)
    if declared is None:
        raise StepError(f"there is no step '{name}'. Known: {', '.join(sorted(STEPS))}")
    if len(words) < declared.least:
        raise StepError(f"too few words. Write: {declared.usage}")
    declared.run(stage, words)


def options(words: list[str]) -> dict[str, str]:
    for word in words:
        if "=" not in word:
            raise StepError(f"'{word}' should be name=value")
    return dict(word.split("=", 1) for word in words)


def split_options(words: list[str], known: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """The plain words, and the options among those that are known."""
    given = options([word for word in words if "=" in word])
    for name in given:
        if name not in known:
            raise StepError(f"there is no option '{name}'. Known: {', '.join(known) or 'none'}")
    return [word for word in words if "=" not in word], given


def whole_number(text: str, what: str) -> int:
    if not text.isdigit():
        raise StepError(f"{what} should be a whole number, not '{text}'")
    return int(text)


def ids(text: str) -> tuple[int, ...]:
    return tuple(whole_number(part, "each of the brokers, separated by commas,") for part in text.split(","))
