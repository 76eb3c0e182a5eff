"""The simulated network: connections that behave like TCP.

There is one connection per (source, destination, channel); each direction delivers in order. A blocked link holds bytes
back, and delivers them if it opens before the request times out (TCP retransmits). A reset loses what is in flight in
both directions, with the exception that real sockets have: a request that had reached the receiver's socket is still
read and carried out, later, and its response is lost. So a retry over a new connection may overtake, or follow, the
first copy.

A request that is not answered in time resets its connection. A dead process refuses connections; a machine without
power does not answer.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

from insync.sansio import Message, Send
from insync.sim.engine.connection import Connection, Endpoint
from insync.sim.engine.engine import Engine
from insync.sim.plans.plan import Latency

__all__ = ["Connection", "Endpoint", "Latency", "Link", "Network"]

Link = tuple[int, int] | tuple[int, int, str]
"""(source, destination), or (source, destination, channel) for one channel. Links have a direction."""

ORPHAN_LIFE_US = 2_000_000
ORPHAN_RETRY_US = 30_000
FALSE_DEATH_PROBABILITY = 0.2
"""The probability that a reset is taken for the death of the other process."""


class Network:
    """All connections, and the faults of the links."""

    def __init__(
        self, engine: Engine, rng: random.Random, latency: Latency | None = None, max_timeout_ms: int = 30_000
    ) -> None:
        self.engine = engine
        self.endpoints: dict[int, Endpoint] = {}
        self.stats: Counter[str] = Counter()
        self._rng = rng
        self._latency = latency or Latency()
        self._max_timeout_ms = max_timeout_ms
        self._connections: dict[tuple[int, int, str], Connection] = {}
        self._held: dict[Connection, None] = {}
        self._blocked: dict[Link, int] = {}
        self._slow: dict[tuple[int, int], int] = {}
        self._rules: dict[int, tuple[tuple[Link, ...], int]] = {}

    def attach(self, endpoint: Endpoint) -> None:
        self.endpoints[endpoint.id] = endpoint

    # --- sending and answering ---------------------------------------------------------------------------------------

    def send(self, src: int, send: Send, *, one_way: bool = False) -> None:
        """Send a request. Exactly one `on_response` follows, unless the source dies or it is `one_way`."""
        key = (src, send.peer, send.channel)
        connection = self._connections.get(key)
        if connection is None:
            if send.peer not in self.endpoints:
                self.engine.call_later(
                    self._latency.base_us, self._answer, src, self.endpoints[src].generation, send, None
                )
                return
            connection = self._connect(key)
        connection.next_correlation = correlation = connection.next_correlation + 1
        if not one_way:
            deadline = self.engine.now + min(send.timeout_ms, self._max_timeout_ms) * 1_000
            connection.outstanding[correlation] = (deadline, send)
            if not connection.timeout_check_at or deadline < connection.timeout_check_at:
                connection.timeout_check_at = deadline
                self.engine.call_at(deadline, self._check_timeouts, connection)
        connection.forward.append((correlation, send.request))
        connection.last_forward = at = max(self.engine.now + self._delay(src, send.peer), connection.last_forward + 1)
        self.engine.call_at(at, self._arrive_forward, connection)

    def reply(self, connection: Connection, correlation: int, response: Message) -> None:
        """Answer a request that came over `connection`; the response is lost if that was reset."""
        if not connection.open:
            self.stats["reply_lost"] += 1
            return
        connection.backward.append((correlation, response))
        delay = self._delay(connection.dst, connection.src)
        connection.last_backward = at = max(self.engine.now + delay, connection.last_backward + 1)
        self.engine.call_at(at, self._arrive_backward, connection)

    def refuse_to_reply(self, connection: Connection, correlation: int) -> None:
        """The server closes the connection of a request that it does not serve; acks=0 expects no response."""
        if correlation in connection.outstanding:
            self._refuse(connection)

    def _connect(self, key: tuple[int, int, str]) -> Connection:
        src, dst, channel = key
        ready_at = self.engine.now + self._delay(src, dst)
        connection = Connection(src, dst, channel, self.endpoints[src].generation, ready_at)
        self._connections[key] = connection
        self.stats["connections"] += 1
        return connection

    def _delay(self, src: int, dst: int) -> int:
        latency = self._latency
        if src == dst:
            return latency.local_us
        r = self._rng.random()
        delay = latency.base_us + int(r * r * r * latency.jitter_us)
        if latency.spike_every and int(r * 1_000_003) % latency.spike_every == 0:
            delay += latency.spike_us
        if self._slow:
            delay += self._slow.get((src, dst), 0)
        return delay

    # --- arriving ----------------------------------------------------------------------------------------------------

    def _arrive_forward(self, connection: Connection) -> None:
        if not connection.open or not connection.forward:
            return
        if self._blocked and self._is_blocked(connection.src, connection.dst, connection.channel):
            connection.held_forward += 1
            self._held[connection] = None
            return
        correlation, request = connection.forward.popleft()
        receiver = self.endpoints[connection.dst]
        if connection.dst_generation == -1 and receiver.alive:
            connection.dst_generation = receiver.generation
        if not receiver.alive or receiver.generation != connection.dst_generation:
            if not receiver.powered_off:
                self._refuse(connection)
            return
        receiver.on_request(connection, correlation, request)

    def _arrive_backward(self, connection: Connection) -> None:
        if not connection.open or not connection.backward:
            return
        if self._blocked and self._is_blocked(connection.dst, connection.src, connection.channel):
            connection.held_backward += 1
            self._held[connection] = None
            return
        correlation, response = connection.backward.popleft()
        waiting = connection.outstanding.pop(correlation, None)
        if waiting is not None:
            self._answer(connection.src, connection.src_generation, waiting[1], response)

    def _arrive_orphan(self, connection: Connection, generation: int, correlation: int, request: Any) -> None:
        """Deliver a request that outlived its connection in a socket buffer; retry if the link is blocked."""
        receiver = self.endpoints[connection.dst]
        if not receiver.alive or receiver.generation != generation:
            return
        if self._is_blocked(connection.src, connection.dst, connection.channel):
            if self.engine.now < connection.last_forward + ORPHAN_LIFE_US:
                self.engine.call_later(
                    ORPHAN_RETRY_US, self._arrive_orphan, connection, generation, correlation, request
                )
            return
        self.stats["orphan_processed"] += 1
        receiver.on_request(connection, correlation, request)

    def _answer(self, src: int, generation: int, send: Send, response: Message | None) -> None:
        endpoint = self.endpoints[src]
        if endpoint.alive and endpoint.generation == generation:
            endpoint.on_response(send, response)

    def _refuse(self, connection: Connection) -> None:
        self.engine.call_later(self._delay(connection.dst, connection.src), self._refused, connection)

    def _refused(self, connection: Connection) -> None:
        if connection.open and not self._is_blocked(connection.dst, connection.src, connection.channel):
            self.reset(connection)

    def _check_timeouts(self, connection: Connection) -> None:
        """Reset the connection when the earliest deadline of its requests has passed."""
        connection.timeout_check_at = 0
        if not connection.open or not connection.outstanding:
            return
        deadline = min(entry[0] for entry in connection.outstanding.values())
        if deadline <= self.engine.now:
            self.stats["request_timeout"] += 1
            self.reset(connection)
        else:
            connection.timeout_check_at = deadline
            self.engine.call_at(deadline, self._check_timeouts, connection)

    # --- resets ------------------------------------------------------------------------------------------------------

    def reset(self, connection: Connection) -> None:
        """Both ends lose the connection; the source gets None as the response to each outstanding request."""
        if not connection.open:
            return
        self.stats["reset"] += 1
        self._close(connection)
        for _, send in connection.outstanding.values():
            self._answer(connection.src, connection.src_generation, send, None)
        connection.outstanding.clear()
        if self._rng.random() < FALSE_DEATH_PROBABILITY:
            self._report_loss(connection.dst, (connection.src,))
            self._report_loss(connection.src, (connection.dst,))

    def reset_all_of(self, node: int) -> None:
        for connection in self._connections_of(node):
            self.reset(connection)

    def _close(self, connection: Connection) -> None:
        connection.open = False
        self._connections.pop((connection.src, connection.dst, connection.channel), None)
        self._held.pop(connection, None)
        self._orphan(connection)

    def _orphan(self, connection: Connection) -> None:
        """A random prefix of what was in flight still arrives, in order, soon or much later; its responses are lost."""
        receiver = self.endpoints[connection.dst]
        if not connection.forward or connection.dst_generation not in (-1, receiver.generation):
            return
        at = self.engine.now
        if self._rng.random() < 0.2:
            at += self._rng.randrange(ORPHAN_LIFE_US)
        for _ in range(self._rng.randint(0, len(connection.forward))):
            correlation, request = connection.forward.popleft()
            at += self._rng.randint(1, 40_000)
            self.engine.call_at(at, self._arrive_orphan, connection, receiver.generation, correlation, request)

    def process_died(self, node: int) -> None:
        """Its own connections close at once; peers get a reset, or no response at all if the machine has no power."""
        powered_off = self.endpoints[node].powered_off
        peers: dict[int, None] = {}
        for connection in self._connections_of(node):
            if connection.src == node:
                self._close(connection)
                connection.outstanding.clear()
                peers[connection.dst] = None
            else:
                peers[connection.src] = None
                if not powered_off:
                    after_last = connection.last_backward + 1
                    delay = self._delay(connection.dst, connection.src)
                    self.engine.call_at(max(after_last, self.engine.now + delay), self._refused, connection)
        if not powered_off:
            self._report_loss(node, peers)

    def _report_loss(self, node: int, peers: Iterable[int]) -> None:
        for peer in peers:
            if min(node, peer) >= 0 and peer != node and self._rng.random() < 0.5:
                self.engine.call_later(self._delay(node, peer), self._deliver_loss, node, peer)

    def _deliver_loss(self, node: int, peer: int) -> None:
        if self.endpoints[peer].alive and not self._is_blocked(node, peer, ""):
            self.endpoints[peer].on_peer_lost(node)

    def _connections_of(self, node: int) -> list[Connection]:
        return [c for c in self._connections.values() if node in (c.src, c.dst)]

    # --- faults of links ---------------------------------------------------------------------------------------------

    def block(self, rule: int, links: Iterable[Link]) -> None:
        """Hold back all traffic of those links until `lift(rule)`."""
        kept = tuple(links)
        self._rules[rule] = (kept, 0)
        for link in kept:
            self._blocked[link] = self._blocked.get(link, 0) + 1

    def slow(self, rule: int, links: Iterable[tuple[int, int]], extra_us: int) -> None:
        kept = tuple(links)
        self._rules[rule] = (kept, extra_us)
        for link in kept:
            self._slow[link] = self._slow.get(link, 0) + extra_us

    def lift(self, rule: int) -> None:
        links, extra_us = self._rules.pop(rule, ((), 0))
        table: dict[Any, int] = self._slow if extra_us else self._blocked
        for link in links:
            table[link] -= extra_us or 1
            if not table[link]:
                del table[link]
        if not extra_us:
            self._release()

    def lift_all(self) -> None:
        for rule in list(self._rules):
            self.lift(rule)

    def _release(self) -> None:
        """Send on, in order, what links held back that are open now."""
        for connection in list(self._held):
            src, dst, channel = connection.src, connection.dst, connection.channel
            if connection.held_forward and not self._is_blocked(src, dst, channel):
                self._resend(connection, connection.held_forward, self._arrive_forward, self._delay(src, dst))
                connection.held_forward = 0
            if connection.held_backward and not self._is_blocked(dst, src, channel):
                self._resend(connection, connection.held_backward, self._arrive_backward, self._delay(dst, src))
                connection.held_backward = 0
            if not connection.held_forward and not connection.held_backward:
                del self._held[connection]

    def _resend(self, connection: Connection, count: int, arrive: Any, delay_us: int) -> None:
        for i in range(count):
            self.engine.call_later(delay_us + i, arrive, connection)

    def _is_blocked(self, src: int, dst: int, channel: str) -> bool:
        blocked = self._blocked
        return bool(blocked) and ((src, dst) in blocked or (src, dst, channel) in blocked)
