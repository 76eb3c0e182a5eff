"""What a server holds for its clients, and how much of it is too much.

A connection is not read while it has no room for more. Memory as a whole is bounded by closing connections, not by
trusting them: when all together hold more than their budget, the one that holds most is closed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    max_request_bytes: int = 104_857_600
    """socket.request.max.bytes"""
    max_connections: int = 2**31 - 1
    """max.connections; at most half of the files that the process may open."""
    idle_ms: int = 600_000
    """connections.max.idle.ms"""
    max_in_flight: int = 64
    """Requests of one connection that are under way; more are left in its socket."""
    in_flight_bytes: int = 16 << 20
    """Of these, and of their answers as long as earlier ones hold them up; one request may be larger."""
    slow_request_ms: int = 120_000
    """A request that has not come whole after this long closes its connection."""
    slow_reader_ms: int = 30_000
    """A client that leaves its answers unread for this long is closed."""
    write_buffer_bytes: int = 1 << 20
    """Above this, nothing more is read from a connection until its client has taken its answers."""
    received_bytes: int = 512 << 20
    """Of requests that have not come whole or are not answered, all connections together (queued.max.request.bytes)."""
    unread_bytes: int = 512 << 20
    """Of answers that clients have not taken yet, all connections together."""


class Budget:
    """A number of bytes shared by all connections."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def change(self, before: int, after: int) -> bool:
        """Account for a holder that had `before` and now has `after`; False if that is too much for all together."""
        self.used += after - before
        return after <= before or self.used <= self.limit
