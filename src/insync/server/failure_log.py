"""Lines in the log for what strangers cause, so few that they cannot fill the disk with them."""

from __future__ import annotations

import logging
from time import monotonic

from insync.escaping import log_value

log = logging.getLogger("insync.server")

LINES = 20
WINDOW_S = 10.0


class FailureLog:
    """At most `LINES` lines of one event per listener in `WINDOW_S`; then how many were left out."""

    __slots__ = ("_count", "_event", "_listener", "_window_ends", "total")

    def __init__(self, event: str, listener: str) -> None:
        self._event = event
        self._listener = listener
        self._count = 0
        self._window_ends = 0.0
        self.total = 0
        """Since the start."""

    def record(self, address: tuple[str, int] | None, reason: str, **fields: str) -> None:
        self.total += 1
        now = monotonic()
        if now >= self._window_ends:
            if self._count > LINES:
                log.info(
                    "event=%s listener=%s not_logged=%d", self._event, log_value(self._listener), self._count - LINES
                )
            self._window_ends, self._count = now + WINDOW_S, 0
        self._count += 1
        if self._count <= LINES:
            client = f"{address[0]}:{address[1]}" if address else "unknown"
            more = "".join(f" {name}={log_value(value)}" for name, value in fields.items())
            log.info(
                "event=%s listener=%s client=%s%s reason=%s",
                self._event,
                log_value(self._listener),
                client,
                more,
                log_value(reason),
            )
