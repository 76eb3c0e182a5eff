"""How much memory groups may take on one broker, whoever joins them.

Anybody may make up groups and members, and a member says about itself what it likes. So all of it is counted, roughly,
in bytes. When there is no room, newcomers are refused; members of groups have as much again, so that groups that exist
go on. Committed offsets are not counted: they are data that somebody has stored, as records in a topic are.
"""

from __future__ import annotations

GROUP = 2_000
MEMBER = 2_000
MEMBER_ID = 1_000
"""A member id that was given out and not yet joined with."""


class Room:
    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def has_for_newcomer(self, size: int) -> bool:
        return self.used + size <= self.limit

    def has_for_member(self, size: int) -> bool:
        return self.used + size <= 2 * self.limit
