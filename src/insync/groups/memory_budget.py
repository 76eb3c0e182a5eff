"""How much memory the groups of one broker may take.

Any client may create groups and members, and send metadata of any size. So all of it is counted, roughly, in bytes.
Above the limit new members are refused; existing members may use as much again, so that existing groups continue.
Committed offsets are not counted: they are stored data, like records in a topic.
"""

from __future__ import annotations

GROUP_BYTES = 2_000
MEMBER_BYTES = 2_000
MEMBER_ID_BYTES = 1_000
"""A member id that was assigned and not yet joined with."""


class MemoryBudget:
    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def has_space_for_new_member(self, size: int) -> bool:
        return self.used + size <= self.limit

    def has_space_for_member(self, size: int) -> bool:
        return self.used + size <= 2 * self.limit
