"""The arithmetic of the high watermark (H1, H2, F5): a record is committed once every electable replica holds it.

The leader does not know for certain which replicas the controller may elect: a proposed ISR may have been accepted
while the response is still on its way. It therefore counts the maximal ISR, every replica that might be in the
controller's ISR, and commits only what all of these hold. Offsets are exclusive ends.
"""

from __future__ import annotations

from collections.abc import Iterable

UNKNOWN = -1
"""The LEO of a follower that has not fetched."""


def advance(current: int, leader_leo: int, follower_leos: Iterable[int]) -> int:
    """H1: the lowest LEO of the leader and these followers; H2: it never goes back within a leader epoch."""
    lowest = leader_leo
    for leo in follower_leos:
        if leo < lowest:
            lowest = leo
    return lowest if lowest > current else current


def follower_hwm(leader_hwm: int, own_leo: int) -> int:
    """F5: the leader's high watermark, but never more than this log holds. It may go down after an election."""
    return leader_hwm if leader_hwm < own_leo else own_leo
