"""Connections that have not proved yet whose they are: a TLS handshake or an authentication is under way.

They are limited in number and time, because anyone can open them. Above the limit the oldest is closed if it is slow.
If none is, one of the address that has most is closed, so that a flood from one host does not keep others out. Among
addresses with equally many the newest is refused: when many clients come at once, those that came first get in, and the
others try again.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import Protocol

SLOW_NS = 1_000_000_000
"""A connection that takes longer than this makes room for others."""


class Pending(Protocol):
    @property
    def address(self) -> str:
        """The client's IP address."""

    def give_up(self, reason: str, detail: str) -> None:
        """Close the connection."""


class PendingConnections:
    __slots__ = ("_by_address", "_limit", "_since", "_timeout_ns")

    def __init__(self, limit: int, timeout_ms: int) -> None:
        self._limit = limit
        self._timeout_ns = timeout_ms * 1_000_000
        self._since: dict[Pending, int] = {}  # when it began; the oldest first
        self._by_address: dict[str, dict[Pending, None]] = {}

    def __len__(self) -> int:
        return len(self._since)

    def add(self, connection: Pending) -> None:
        now = monotonic_ns()
        self._since[connection] = now
        self._by_address.setdefault(connection.address, {})[connection] = None
        if len(self._since) > self._limit:
            oldest, since = next(iter(self._since.items()))
            victim = oldest if now - since > SLOW_NS else self._choose_crowded(connection)
            self._close(victim, "too_many_unauthenticated", f"{self._limit} are allowed")

    def _choose_crowded(self, newest: Pending) -> Pending:
        most = max(self._by_address.values(), key=len)
        return newest if len(most) == len(self._by_address[newest.address]) else next(iter(most))

    def remove(self, connection: Pending) -> None:
        if self._since.pop(connection, None) is None:
            return
        same_address = self._by_address[connection.address]
        del same_address[connection]
        if not same_address:
            del self._by_address[connection.address]

    def close_overdue(self, now_ns: int) -> None:
        overdue = [connection for connection, since in self._since.items() if now_ns - since > self._timeout_ns]
        for connection in overdue:
            self._close(connection, "slow_authentication", f"not complete in {self._timeout_ns // 1_000_000} ms")

    def _close(self, connection: Pending, reason: str, detail: str) -> None:
        self.remove(connection)
        connection.give_up(reason, detail)
