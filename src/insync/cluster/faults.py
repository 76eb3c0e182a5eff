"""The faults of one node: what is wrong with its network, its disk and its clock.

They are always sent as a whole, one line of JSON. A node that starts during a fault begins with it, and a line that
arrives late is superseded by the next one. The node acknowledges each line with its number.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

CLIENTS = -1
"""Stands for all clients where nodes are listed by id."""


@dataclass(frozen=True, slots=True, order=True)
class Delay:
    """How bytes in one direction are delayed."""

    latency_ms: float = 0.0
    bytes_per_s: int = 0
    """0: no limit."""
    loss: float = 0.0
    """The share of packets that are lost. TCP sends them again, so a loss is a delay too."""

    def plus(self, other: Delay) -> Delay:
        """Both delays, one after the other."""
        limits = [limit for limit in (self.bytes_per_s, other.bytes_per_s) if limit]
        loss = 1 - (1 - self.loss) * (1 - other.loss)
        return Delay(self.latency_ms + other.latency_ms, min(limits, default=0), loss)


NO_DELAY = Delay()


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    deaf_to: frozenset[int] = frozenset()
    """Nodes whose bytes do not arrive here."""
    mute_to: frozenset[int] = frozenset()
    """Nodes that this node's bytes do not reach."""
    delay_to: tuple[tuple[int, Delay], ...] = ()
    """Nodes that this node's bytes reach late."""
    delay_from_clients: Delay = NO_DELAY
    disk_full: bool = False
    fsync_ms: int = 0
    """How much longer every sync takes."""
    bad_sectors: tuple[tuple[str, int, int], ...] = ()
    """(path, start, end): bytes of the file that is at this path now that cannot be read."""
    clock_ahead_ms: int = 0
    """How much its clock is ahead, or behind if negative. A node reads the clock once, when it starts."""

    @property
    def cut_from(self) -> frozenset[int]:
        """Nodes with which no new connection can be opened: that takes both directions."""
        return (self.deaf_to | self.mute_to) - {CLIENTS}


def to_line(number: int, faults: Faults) -> bytes:
    values = asdict(faults)
    values |= {"number": number, "deaf_to": sorted(faults.deaf_to), "mute_to": sorted(faults.mute_to)}
    return json.dumps(values).encode() + b"\n"


def from_line(line: bytes) -> tuple[int, Faults]:
    values = json.loads(line)
    number = values.pop("number")
    faults = Faults(
        deaf_to=frozenset(values.pop("deaf_to")),
        mute_to=frozenset(values.pop("mute_to")),
        delay_to=tuple((peer, Delay(**delay)) for peer, delay in values.pop("delay_to")),
        delay_from_clients=Delay(**values.pop("delay_from_clients")),
        bad_sectors=tuple((path, start, end) for path, start, end in values.pop("bad_sectors")),
        **values,
    )
    return number, faults
