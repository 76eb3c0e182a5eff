"""What is wrong with one node now: whom it does not hear, whom it cannot reach, whether its disk is full.

It is told as a whole, one line of JSON, so that a node that starts in the middle of a fault begins in it, and a line
that comes late changes nothing that a later one does not say again. The node answers each line with its number.
"""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    deaf_to: frozenset[int] = frozenset()
    """Nodes whose bytes do not arrive here."""
    mute_to: frozenset[int] = frozenset()
    """Nodes that this node's bytes do not reach."""
    disk_full: bool = False
    fsync_ms: int = 0
    """How much longer every sync takes."""
    bad_sectors: tuple[tuple[str, int, int], ...] = ()
    """(path, start, end): bytes of a file, as it is now, that cannot be read."""

    @property
    def cut_from(self) -> frozenset[int]:
        """Nodes with which no new connection comes about: that takes both directions."""
        return self.deaf_to | self.mute_to


def to_line(number: int, faults: Faults) -> bytes:
    told = {
        "number": number,
        "deaf_to": sorted(faults.deaf_to),
        "mute_to": sorted(faults.mute_to),
        "disk_full": faults.disk_full,
        "fsync_ms": faults.fsync_ms,
        "bad_sectors": faults.bad_sectors,
    }
    return json.dumps(told).encode() + b"\n"


def from_line(line: bytes) -> tuple[int, Faults]:
    told = json.loads(line)
    faults = Faults(
        deaf_to=frozenset(told["deaf_to"]),
        mute_to=frozenset(told["mute_to"]),
        disk_full=told["disk_full"],
        fsync_ms=told["fsync_ms"],
        bad_sectors=tuple((path, start, end) for path, start, end in told["bad_sectors"]),
    )
    return told["number"], faults
