"""A timer that fires late proves nothing about other nodes: what they sent in time may still be in the sockets.

libuv runs due timers before it polls the sockets again. After a long step, or while the machine did not run this
process, a node would conclude that no replica has fetched or answered for all that time, and begin an election. So a
late timer waits for one more poll of the sockets. Only for one: a process that is always late still acts on its
deadlines.
"""

from __future__ import annotations

LATE_MS = 50
SOCKET_POLL_S = 0.001


class Lateness:
    __slots__ = ("_has_polled",)

    def __init__(self) -> None:
        self._has_polled = False

    def should_poll_first(self, due: int, now: int) -> bool:
        """Whether a timer that was due at `due` should be set again, by `SOCKET_POLL_S`."""
        self._has_polled = not self._has_polled and now - due > LATE_MS
        return self._has_polled
