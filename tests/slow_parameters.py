"""Parameters of a test of which `make unit` takes only some; `make test` takes all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def first_quick(values: Sequence[Any], quick: int = 1) -> list[Any]:
    """All values; those after the first `quick` are marked slow."""
    return [*values[:quick], *(_slow(value) for value in values[quick:])]


def last_quick(values: Sequence[Any], quick: int = 1) -> list[Any]:
    """All values; those before the last `quick` are marked slow."""
    return [*(_slow(value) for value in values[:-quick]), *values[-quick:]]


def _slow(value: Any) -> Any:
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.slow)
