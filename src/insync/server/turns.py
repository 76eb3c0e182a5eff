"""Turns: which connection's requests are served next, and for how long.

The event loop serves everything: clients, other nodes, timers, finished disk work. libuv reads up to 8 MB from one
socket before it turns to the next, and 8 MB of small requests take seconds. So a connection serves requests only during
its turn. When the turn is over and requests remain, the connection stops reading its socket and joins a queue.

Connections wait in two classes, nodes before clients, and each class has its slice of every iteration of the loop:
timers, finished disk work and new input get their chance after at most one slice of either. The classes are bounded
alike, because any client may call itself a node.

Within a class the order is that of fq_codel (RFC 8290). A connection that was idle is served before those whose turn
ran out, so that a client that asks now and then hardly notices one that floods. A connection that had such an early
turn waits with the others once, before it may be early again: many connections that send a little cannot starve the
rest. Turns get shorter as more connections wait, so that a round through all of them stays short. Connections that were
never served wait apart, and alternate with the others one by one: many that open at once delay existing connections
by one request each time, not by all of theirs.

A request that takes longer than a turn cannot be interrupted, so the time is paid back: a connection that overran is
passed over until rounds, or its idle time, have made up for it. Connections with expensive requests therefore cannot
make a round long for the others.

While a class has time left in this iteration and no connection waits, requests are served at once, in the callback that
read them: a node that is not overloaded has no queue.

TLS handshakes are a third class with a slice of its own. Many clients that connect at once wait for each other, not
established connections for them. Records of TLS that take long to decrypt for the data in them wait there too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic_ns
from typing import Protocol

MS = 1_000_000
CLIENT_SLICE_NS = 5 * MS
NODE_SLICE_NS = 10 * MS
TLS_SLICE_NS = 2 * MS
"""The time that each class may use in one iteration of the loop."""
ROUND_NS = 40 * MS
"""The target duration of a round through all waiting connections."""
ALLOWED_OVERRUN_NS = MS
"""A turn may overrun by this much: requests are served as a whole."""
MIN_TURN_NS = MS // 2
"""The shortest turn: records that are written in one turn reach followers together."""


class Schedulable(Protocol):
    """A connection or its TLS, as the scheduler sees it."""

    is_queued: bool
    debt_ns: int
    """The time that it used beyond its turns."""
    served_ns: int
    """When it was last served; 0 if never. The scheduler sets all three."""

    def serve(self, until_ns: int) -> bool:
        """Serve requests until then, at least one; True if more can be served at once."""
        ...


class SchedulableConnection(Schedulable, Protocol):
    def is_node(self) -> bool:
        """Whether it is in the class of nodes."""
        ...


class TurnQueue:
    """The connections of one class that wait for a turn."""

    __slots__ = ("_early", "_late", "_new", "_new_is_next", "slice_ns", "used_ns")

    def __init__(self, slice_ns: int) -> None:
        self.slice_ns = slice_ns
        self.used_ns = 0  # in this iteration of the loop
        self._early: deque[Schedulable] = deque()
        self._new: deque[Schedulable] = deque()
        self._late: deque[Schedulable] = deque()
        self._new_is_next = True

    def __len__(self) -> int:
        return len(self._early) + len(self._new) + len(self._late)

    @property
    def has_time(self) -> bool:
        return self.used_ns < self.slice_ns

    @property
    def turn_ns(self) -> int:
        return max(MIN_TURN_NS, min(self.slice_ns, ROUND_NS // (len(self) + 1)))

    def add(self, connection: Schedulable, now_ns: int) -> None:
        if connection.debt_ns and now_ns - connection.served_ns >= connection.debt_ns:
            connection.debt_ns = 0
        connection.is_queued = True
        queue = self._late if connection.debt_ns else self._early if connection.served_ns else self._new
        queue.append(connection)

    def add_late(self, connection: Schedulable) -> None:
        connection.is_queued = True
        self._late.append(connection)

    def serve_next(self, clock: Callable[[], int]) -> None:
        is_late, passed_over = False, 0
        if self._early:
            connection = self._early.popleft()
        elif self._new and (self._new_is_next or not self._late):
            connection = self._new.popleft()
            self._new_is_next = False
        else:
            connection, passed_over = self._next_late()
            is_late = self._new_is_next = True
        connection.is_queued = False
        used_before_ns = self.used_ns
        has_more = self.serve(connection, clock)
        for _ in range(passed_over):
            self._late[-1].debt_ns = max(0, self._late[-1].debt_ns - (self.used_ns - used_before_ns))
            self._late.rotate()
        self._late.rotate(-passed_over)
        if has_more or (not is_late and self._late):
            self.add_late(connection)

    def _next_late(self) -> tuple[Schedulable, int]:
        """The first connection without debt, and the number of those that were passed over and now end the
        queue; their debt is reduced by what it uses. If all are in debt, the one with the least debt."""
        late = self._late
        for passed_over in range(len(late)):
            connection = late.popleft()
            if not connection.debt_ns:
                return connection, passed_over
            late.append(connection)
        connection = min(late, key=lambda waiting: waiting.debt_ns)
        late.remove(connection)
        return connection, 0

    def serve(self, connection: Schedulable, clock: Callable[[], int]) -> bool:
        began = clock()
        turn_ns = min(self.turn_ns, self.slice_ns - self.used_ns)
        try:
            return connection.serve(began + turn_ns)
        finally:
            connection.served_ns = now = clock()
            used_ns = now - began
            self.used_ns += used_ns
            if used_ns > turn_ns + ALLOWED_OVERRUN_NS:
                connection.debt_ns += used_ns - turn_ns


class Turns:
    """`call_soon` runs a callback in the loop's next iteration."""

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], clock: Callable[[], int] = monotonic_ns
    ) -> None:
        self._call_soon = call_soon
        self._clock = clock
        self._nodes = TurnQueue(NODE_SLICE_NS)
        self._clients = TurnQueue(CLIENT_SLICE_NS)
        self._tls = TurnQueue(TLS_SLICE_NS)
        self._is_scheduled = False
        self._is_serving = False

    @property
    def waiting(self) -> int:
        return len(self._nodes) + len(self._clients) + len(self._tls)

    def ready(self, connection: SchedulableConnection) -> None:
        """Requests have arrived: serve them now if there is time and the queue is empty, else in a later turn."""
        if not connection.is_queued:
            self._serve_or_add(self._nodes if connection.is_node() else self._clients, connection)

    def ready_later(self, connection: SchedulableConnection) -> None:
        """The connection can continue, after the current callback."""
        if not connection.is_queued:
            self._add(self._nodes if connection.is_node() else self._clients, connection)

    def tls_ready(self, tls: Schedulable) -> None:
        """Bytes of a handshake have arrived, or records that take a turn: like `ready`."""
        if not tls.is_queued:
            self._serve_or_add(self._tls, tls)

    def tls_ready_later(self, tls: Schedulable) -> None:
        if not tls.is_queued:
            self._add(self._tls, tls)

    def _serve_or_add(self, queue: TurnQueue, connection: Schedulable) -> None:
        if self._is_serving or len(queue) or not queue.has_time:
            self._add(queue, connection)
            return
        self._is_serving = True
        try:
            has_more = queue.serve(connection, self._clock)
        finally:
            self._is_serving = False
        if has_more and not connection.is_queued:
            queue.add_late(connection)
        if len(queue) or not queue.has_time:
            self._schedule()

    def _add(self, queue: TurnQueue, connection: Schedulable) -> None:
        queue.add(connection, self._clock())
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        self._is_serving = True
        try:
            for queue in (self._nodes, self._clients, self._tls):
                queue.used_ns = 0
                while len(queue) and queue.has_time:
                    queue.serve_next(self._clock)
        finally:
            self._is_serving = False
        if self.waiting:
            self._schedule()
