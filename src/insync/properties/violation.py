"""A named property of the protocol, and a witness that it does not hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Property:
    id: str
    name: str
    statement: str


@dataclass(frozen=True, slots=True)
class Violation:
    property: str
    detail: str
    partition: str
    time: int

    def __str__(self) -> str:
        where = f" {self.partition}" if self.partition else ""
        return f"{self.property}{where} at {self.time} ms: {self.detail}"
