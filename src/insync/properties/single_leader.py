"""S12: an epoch has one leader."""

from __future__ import annotations

from collections.abc import Hashable

from insync.properties.violation import Property

PROPERTY = Property(
    "S12",
    "One Leader per Epoch",
    "One broker acts as leader of a partition in a leader epoch, one controller is active in a quorum epoch.",
)


class Leaders:
    """Who acted as leader of what, in which epoch."""

    __slots__ = ("_by_epoch",)

    def __init__(self) -> None:
        self._by_epoch: dict[tuple[Hashable, int], int] = {}

    def claim(self, scope: Hashable, epoch: int, leader: int) -> str | None:
        """`leader` acts as leader of `scope` (a partition, or the quorum) in `epoch`."""
        first = self._by_epoch.setdefault((scope, epoch), leader)
        if first == leader:
            return None
        return f"{first} and {leader} both lead in epoch {epoch}"
