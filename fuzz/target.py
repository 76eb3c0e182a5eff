"""What the engine needs of a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`run` returns for every input; an exception that leaves it is a finding."""

    name: str
    about: str
    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    """Valid inputs: most defects are found one change away from them."""
    mutate: Callable[[bytes, Random], bytes]
    short: int = 300
    """The number of inputs of a short run."""
