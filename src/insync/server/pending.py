"""Connections that have not proved yet whose they are: a TLS handshake or an authentication is under way.

They are limited in number and time, because anyone can open them. Above the limit the oldest is closed if it is slow.
If none is, the newest is refused instead: when many clients come at once, those that came first get in, and the others
try again.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import Protocol

SLOW_NS = 1_000_000_000
"""A connection that takes longer than this makes room for others."""


class Pending(Protocol):
    def give_up(self, reason: str, detail: str) -> None:
        """Close the connection."""


class PendingConnections:
    __slots__ = ("_limit", "_since", "_timeout_ns")

    def __init__(self, limit: int, timeout_ms: int) -> None:
        self._limit = limit
        self._timeout_ns = timeout_ms * 1_000_000
        self._since: dict[Pending, int] = {}  # when it began; the oldest first

    def __len__(self) -> int:
        return len(self._since)

    def add(self, connection: Pending) -> None:
        now = monotonic_ns()
        self._since[connection] = now
        if len(self._since) > self._limit:
            oldest, since = next(iter(self._since.items()))
            victim = oldest if now - since > SLOW_NS else connection
            self._close(victim, "too_many_unauthenticated", f"{self._limit} are allowed")

    def remove(self, connection: Pending) -> None:
        self._since.pop(connection, None)

    def close_overdue(self, now_ns: int) -> None:
        overdue = [connection for connection, since in self._since.items() if now_ns - since > self._timeout_ns]
        for connection in overdue:
            self._close(connection, "slow_authentication", f"not complete in {self._timeout_ns // 1_000_000} ms")

    def _close(self, connection: Pending, reason: str, detail: str) -> None:
        self.remove(connection)
        connection.give_up(reason, detail)
