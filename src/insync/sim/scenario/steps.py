"""How a step of a scenario is declared, and how its words are parsed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from insync.sim.driver import InvalidOperationError
from insync.sim.scenario.context import ScenarioContext

RunStep = Callable[[ScenarioContext, list[str]], None]


@dataclass(frozen=True, slots=True)
class Step:
    usage: str
    min_words: int
    run: RunStep


STEPS: dict[str, Step] = {}


def step(usage: str) -> Callable[[RunStep], RunStep]:
    """Declare a step by its usage line: words in capitals are required, words in brackets optional."""
    name, *words = usage.split()
    min_words = sum(1 for word in words if not word.startswith("[") and not word.endswith("]"))

    def declare(run: RunStep) -> RunStep:
        STEPS[name] = Step(usage, min_words, run)
        return run

    return declare


def perform_step(context: ScenarioContext, text: str) -> None:
    name, *words = text.split()
    declared = STEPS.get(name)
    if declared is None:
        raise InvalidOperationError(f"there is no step '{name}'. Known: {', '.join(sorted(STEPS))}")
    if len(words) < declared.min_words:
        raise InvalidOperationError(f"too few words. Write: {declared.usage}")
    declared.run(context, words)


def parse_options(words: list[str]) -> dict[str, str]:
    for word in words:
        if "=" not in word:
            raise InvalidOperationError(f"'{word}' should be name=value")
    return dict(word.split("=", 1) for word in words)


def split_options(words: list[str], known: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """The plain words, and the options, which have to be known ones."""
    options = parse_options([word for word in words if "=" in word])
    for name in options:
        if name not in known:
            raise InvalidOperationError(f"there is no option '{name}'. Known: {', '.join(known) or 'none'}")
    return [word for word in words if "=" not in word], options


def parse_number(text: str, what: str) -> int:
    if not text.isdigit():
        raise InvalidOperationError(f"{what} should be a whole number, not '{text}'")
    return int(text)


def parse_ids(text: str) -> tuple[int, ...]:
    return tuple(parse_number(part, "each of the brokers, separated by commas,") for part in text.split(","))
