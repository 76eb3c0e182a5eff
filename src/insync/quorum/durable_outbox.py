"""Messages of a replica wait until the election state that they speak of is on disk (Q4).

The quorum changes its election state in memory at once. The file is written off the event loop, and every request and
answer that the quorum makes from then on is held back until it is synced: to the others it is as if the change had
happened only then. Notes and disk work are not held back, because no other node sees them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from insync.sansio import FlushJob, Message, OnDone, OnResponse, Outbox, Sync


class DurableOutbox:
    """The `Outbox` of one node, as its quorum uses it."""

    __slots__ = ("_held", "_out", "_required")

    def __init__(self, out: Outbox) -> None:
        self._out = out
        self._held: deque[tuple[int, Callable[[], None]]] = deque()
        self._required = 0  # the version of the state that must be on disk before a message leaves; 0: none

    def require(self, version: int) -> None:
        self._required = version

    def release(self, version: int) -> None:
        """Everything up to this version of the state is on disk."""
        while self._held and self._held[0][0] <= version:
            self._held.popleft()[1]()
        if version >= self._required:
            self._required = 0

    def has_left(self, job: FlushJob) -> bool:
        """Whether the driver may already be running this job."""
        return not any(isinstance(effect, Sync) and effect.job is job for effect in self._out.effects)

    def send(self, peer: int, channel: str, request: Message, on_response: OnResponse, timeout_ms: int) -> None:
        self._run_or_hold(lambda: self._out.send(peer, channel, request, on_response, timeout_ms))

    def reply(self, token: int, response: Message | None) -> None:
        self._run_or_hold(lambda: self._out.reply(token, response))

    def sync(self, job: FlushJob, on_done: OnDone) -> None:
        self._out.sync(job, on_done)

    def note(self, kind: str, **fields: Any) -> None:
        self._out.note(kind, **fields)

    def _run_or_hold(self, action: Callable[[], None]) -> None:
        if self._required:
            self._held.append((self._required, action))
        else:
            action()
