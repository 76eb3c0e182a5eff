"""S12: an epoch has one leader, and a controller without a majority of voters does not stay active.

The second half limits how long a deposed controller lives: it answers heartbeats and serves its old log, so brokers
that reach it stay with it, and miss what its successor decides.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from insync.properties.violation import Property

PROPERTY = Property(
    "S12",
    "One Leader per Epoch",
    "One broker acts as leader of a partition in a leader epoch, one controller is active in a quorum epoch, and only "
    "for as long as a majority of voters follows it.",
)


class Leaders:
    """Which node led what, in which epoch."""

    __slots__ = ("_by_epoch",)

    def __init__(self) -> None:
        self._by_epoch: dict[tuple[Hashable, int], int] = {}

    def claim(self, scope: Hashable, epoch: int, leader: int) -> str | None:
        """`leader` acts as leader of `scope` (a partition, or the quorum) in `epoch`."""
        first = self._by_epoch.setdefault((scope, epoch), leader)
        if first == leader:
            return None
        return f"{first} and {leader} both lead in epoch {epoch}"


def check_followed(
    leader: int, epoch: int, heard: Sequence[int], majority: int, now: int, timeout_ms: int
) -> str | None:
    """`heard`: when each other voter last fetched from `leader`; `now` is the leader's own time."""
    if majority == 1:
        return None
    since = sorted(heard, reverse=True)[majority - 2]
    if now < since + timeout_ms:
        return None
    return f"controller {leader} of epoch {epoch} has not heard from a majority for {now - since} ms and still leads"
