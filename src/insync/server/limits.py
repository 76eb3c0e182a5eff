"""Limits for the memory that a server uses for its clients.

A connection is not read while its own limit is reached. The total is bounded by closing connections: if all together
hold more than their budget, the one that holds most is closed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    max_request_bytes: int = 104_857_600
    """socket.request.max.bytes"""
    max_connections: int = 2**31 - 1
    """max.connections; at most half of the files that the process may open."""
    max_connections_per_ip: int = 2**31 - 1
    """max.connections.per.ip"""
    max_connections_per_ip_overrides: tuple[tuple[str, int], ...] = ()
    """By address."""
    max_connection_creation_rate: int = 2**31 - 1
    """New connections per second."""
    idle_ms: int = 600_000
    """connections.max.idle.ms"""
    max_in_flight: int = 64
    """Unanswered requests of one connection; further requests stay in its socket."""
    in_flight_bytes: int = 16 << 20
    """Bytes of these, and of answers that wait for earlier ones. A single request may be larger."""
    slow_request_ms: int = 120_000
    """A connection is closed if a request is still incomplete after this time."""
    slow_reader_ms: int = 30_000
    """A connection is closed if its client leaves answers unread for this time."""
    authentication_ms: int = 10_000
    """A connection is closed if its TLS handshake or its authentication is not complete after this time."""
    failed_authentication_delay_ms: int = 100
    """connection.failed.authentication.delay.ms"""
    max_unauthenticated: int = 1_000
    """Connections whose handshake or authentication is under way."""
    write_buffer_bytes: int = 1 << 20
    """Above this, a connection is not read until its client has read its answers."""
    received_bytes: int = 512 << 20
    """queued.max.request.bytes: incomplete and unanswered requests of all connections together."""
    unread_bytes: int = 512 << 20
    """Answers that clients have not read yet, of all connections together."""


class ConnectionBudget:
    """A number of bytes shared by all connections."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def change(self, before: int, after: int) -> bool:
        """Account for a connection that held `before` and now holds `after`; False if the total exceeds the limit."""
        self.used += after - before
        return after <= before or self.used <= self.limit
