"""What the engine wants to know of a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`run` returns, whatever the input; an exception that leaves it is a finding."""

    name: str
    about: str
    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    """Valid inputs: most of what is worth finding lies one step beside them."""
    mutate: Callable[[bytes, Random], bytes]
    short: int = 300
    """How many inputs a short run tries."""
