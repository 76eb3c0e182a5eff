"""The faults of one node: which peers it is cut off from, and what is wrong with its disk.

They are always sent as a whole, one line of JSON. A node that starts during a fault begins with it, and a line that
arrives late is superseded by the next one. The node acknowledges each line with its number.
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
    """(path, start, end): bytes of the file that is at this path now that cannot be read."""

    @property
    def cut_from(self) -> frozenset[int]:
        """Nodes with which no new connection can be opened: that takes both directions."""
        return self.deaf_to | self.mute_to


def to_line(number: int, faults: Faults) -> bytes:
    values = {
        "number": number,
        "deaf_to": sorted(faults.deaf_to),
        "mute_to": sorted(faults.mute_to),
        "disk_full": faults.disk_full,
        "fsync_ms": faults.fsync_ms,
        "bad_sectors": faults.bad_sectors,
    }
    return json.dumps(values).encode() + b"\n"


def from_line(line: bytes) -> tuple[int, Faults]:
    values = json.loads(line)
    faults = Faults(
        deaf_to=frozenset(values["deaf_to"]),
        mute_to=frozenset(values["mute_to"]),
        disk_full=values["disk_full"],
        fsync_ms=values["fsync_ms"],
        bad_sectors=tuple((path, start, end) for path, start, end in values["bad_sectors"]),
    )
    return values["number"], faults
