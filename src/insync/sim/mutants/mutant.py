"""What a mutant is: a name, the rule whose safeguard it removes, and the patches that remove it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Patch = tuple[str, Callable[[Any], Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    name: str
    removes: str
    rule: str
    patches: tuple[Patch, ...]


def make_mutant(name: str, rule: str, removes: str, *patches: Patch) -> Mutant:
    return Mutant(name=name, rule=rule, removes=removes, patches=patches)
