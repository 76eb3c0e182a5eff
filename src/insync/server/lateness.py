"""A timer that fires late tells of this process and not of others: what they sent in time waits in the sockets.

libuv runs the timers that are due before it looks at the sockets again. After a step that took long, or a while in
which the machine did not run this process, a node would conclude that nobody has fetched or answered for all that time,
and begin an election. So a late timer waits for one more look at the sockets. Only for one: a process that is always
late still acts on its deadlines.
"""

from __future__ import annotations

LATE_MS = 50
LOOK_S = 0.001


class Lateness:
    __slots__ = ("_excused",)

    def __init__(self) -> None:
        self._excused = False

    def look_first(self, due: int, now: int) -> bool:
        """Whether a timer that was due at `due` should come back after `LOOK_S`."""
        self._excused = not self._excused and now - due > LATE_MS
        return self._excused
