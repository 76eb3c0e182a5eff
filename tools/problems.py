"""How the checks of `make check` end: they print what is wrong, and the exit code says whether anything is."""

from __future__ import annotations

from collections.abc import Sequence


def report(problems: Sequence[object]) -> int:
    """The exit code."""
    for problem in problems:
        print(problem)
    return 1 if problems else 0
