"""A named property of the protocol, and a violation of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Property:
    id: str
    name: str
    statement: str


@dataclass(frozen=True, slots=True)
class Violation:
    """A property that does not hold: its id, what is wrong, the partition if it is about one, and when (ms)."""

    property: str
    detail: str
    partition: str
    time: int

    def __str__(self) -> str:
        where = f" {self.partition}" if self.partition else ""
        return f"{self.property}{where} at {self.time} ms: {self.detail}"
