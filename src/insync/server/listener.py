"""A node's listening socket and the connections it accepted: clients and other nodes share it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Collection, Iterable
from time import monotonic_ns

from insync.sansio import Client, Message
from insync.server.connection import Connection
from insync.server.limits import Budget, Limits
from insync.server.peers import Peers
from insync.server.traffic import Traffic
from insync.wire.edge import Edge

Answer = Callable[[Message | None], None]
RequestSink = Callable[[Message, Answer, Client], None]
Question = tuple[Message, Answer, Client]
BACKLOG = 1_024
MOMENT_S = 0.03
"""How long a client's second question for metadata waits: longer than the death of a process takes to be noticed."""
HOLD_S = 1.0
POLL_S = 0.005


class Listener:
    def __init__(
        self,
        *,
        limits: Limits,
        request: RequestSink,
        peers: Peers,
        known_brokers: Callable[[], Collection[int]],
        traffic: Traffic,
        edge: Edge,
    ) -> None:
        """`known_brokers`: the ids of those that the cluster counts as alive."""
        self.limits = limits
        self.traffic = traffic
        self.edge = edge
        self.budget_received = Budget(limits.received_bytes)
        self.budget_unread = Budget(limits.unread_bytes)
        self.connections: dict[Connection, None] = {}
        self._peers = peers
        self.known_brokers = known_brokers
        self.request = request
        self._held: list[tuple[float, Question]] = []
        self._servers: list[asyncio.Server] = []
        self._sweeper: asyncio.TimerHandle | None = None

    async def open(self, sockets: Iterable[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        for sock in sockets:
            self._servers.append(await loop.create_server(lambda: Connection(self), sock=sock, backlog=BACKLOG))
        self._sweep_later(loop)

    def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.finish()

    # --- what connections tell ---------------------------------------------------------------------------------------

    def joined(self, connection: Connection) -> None:
        self.connections[connection] = None
        if len(self.connections) > self.limits.max_connections:
            connection.close("too_many_connections", f"{len(self.connections)} are open")

    def left(self, connection: Connection, by_us: bool) -> None:
        self.connections.pop(connection, None)
        if connection.peer is None:
            return
        if by_us:
            self._peers.left(connection.peer)
        else:
            self._peers.dropped(connection.peer)

    def peer_joined(self, peer: int) -> None:
        self._peers.joined(peer)

    # --- questions that are better answered a moment later -----------------------------------------------------------

    def metadata(self, message: Message, answer: Answer, client: Client, *, again: bool) -> None:
        """Who leads what. `again`: this client has asked before.

        When a broker's process dies, its clients notice as soon as the other brokers do, and ask at once who leads now.
        Told of the old leader they would come back after a second or so; the new one is known in a fraction of that. So
        whoever asks again waits a moment, and everybody waits while a broker that has gone still counts as alive.
        """
        others = len(self.known_brokers()) > 1
        if others and (again or self._unsettled()):
            loop = asyncio.get_running_loop()
            self._held.append((loop.time() + (MOMENT_S if again else 0), (message, answer, client)))
            if len(self._held) == 1:
                loop.call_later(POLL_S, self._answer_held)
        else:
            self.request(message, answer, client)

    def _unsettled(self) -> bool:
        now, alive = asyncio.get_running_loop().time(), self.known_brokers()
        return any(now - since < HOLD_S and peer in alive for peer, since in self._peers.lost.items())

    def _answer_held(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._unsettled():
            now, held, self._held = loop.time(), self._held, []
            self._held = [each for each in held if each[0] > now]
            for at, question in held:
                if at <= now:
                    self.request(*question)
        if self._held:
            loop.call_later(POLL_S, self._answer_held)

    # --- those that waste a place ------------------------------------------------------------------------------------

    def _sweep_later(self, loop: asyncio.AbstractEventLoop) -> None:
        every = max(0.1, min(self.limits.slow_reader_ms, self.limits.idle_ms, 20_000) / 4_000)
        self._sweeper = loop.call_later(every, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = monotonic_ns()
        slow, idle = now - self.limits.slow_reader_ms * 1_000_000, now - self.limits.idle_ms * 1_000_000
        for connection in list(self.connections):
            if 0 < connection.choked_ns < slow:
                connection.close("slow_reader", f"{connection.unread} bytes of answers unread")
            elif connection.active_ns < idle and not connection.in_flight:
                connection.close("idle", f"for {self.limits.idle_ms} ms")
        self._sweep_later(loop)
