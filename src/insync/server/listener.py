"""A node's listening socket and the connections it accepted: clients and other nodes share it."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from time import monotonic_ns

from insync.node.handlers import BETWEEN_NODES
from insync.sansio import Client, HangUp, Message
from insync.server.connection import Connection, Slot
from insync.server.limits import ConnectionBudget, Limits
from insync.server.network import Network
from insync.server.peers import Peers
from insync.server.traffic import Traffic
from insync.server.turns import Turns
from insync.wire.versions.translator import VersionTranslator

Answer = Callable[[Message | HangUp | None], None]
RequestSink = Callable[[Message, Answer, Client, bool], int]
"""Hands a request to the node; the token by which it may be abandoned. True: another follows at once, or `end_turn`."""
Question = tuple[Message, Slot, Client]
BACKLOG = 1_024
MOMENT_S = 0.03
"""How long a client's second question for metadata waits: longer than the death of a process takes to be noticed."""
HOLD_S = 1.0
POLL_S = 0.005
NOBODY_S = 5.0
"""How long a question for metadata waits at a node that knows of no broker yet."""


MAX_NODE_CONNECTIONS = 3
"""Connections of one node that begin with the same API and are served with a node's priority. A node opens at most two
(replication and the quorum both fetch); the third allows for one that has died unnoticed. Any client may claim to be a
node, so the rest are served as clients."""


class Listener:
    def __init__(
        self,
        *,
        limits: Limits,
        turns: Turns,
        request: RequestSink,
        end_turn: Callable[[], None],
        abandon: Callable[[int, Message], None],
        peers: Peers,
        known_brokers: Callable[[], Collection[int]],
        traffic: Traffic,
        translator: VersionTranslator,
    ) -> None:
        """`known_brokers`: the ids of those that the cluster counts as alive."""
        self.limits = limits
        self.turns = turns
        self._node_connections: Counter[tuple[int, int]] = Counter()  # by node and first API
        self.traffic = traffic
        self.translator = translator
        self.budget_received = ConnectionBudget(limits.received_bytes)
        self.budget_unread = ConnectionBudget(limits.unread_bytes)
        self.connections: dict[Connection, None] = {}
        self.holding = 0
        self.unsent: dict[Connection, None] = {}
        """Connections with answers that were held back."""
        self._peers = peers
        self.known_brokers = known_brokers
        self.request = request
        self.end_turn = end_turn
        self.abandon = abandon
        self._held: list[tuple[float, Question]] = []
        self._servers: list[asyncio.Server] = []
        self._sweeper: asyncio.TimerHandle | None = None

    async def open(self, sockets: Iterable[socket.socket], network: Network) -> None:
        loop = asyncio.get_running_loop()
        for sock in sockets:
            self._servers.append(await network.listen(lambda: Connection(self), sock, BACKLOG))
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
            self._idlest(connection).close("too_many_connections", f"{self.limits.max_connections} are allowed")

    def _idlest(self, newest: Connection) -> Connection:
        """Whoever takes up all places must not keep out those who have something to ask, other nodes above all."""
        idle = [each for each in self.connections if each.peer is None and not each.in_flight and not each.closed]
        return min(idle, key=lambda each: each.active_ns, default=newest)

    def left(self, connection: Connection, by_us: bool) -> None:
        self.connections.pop(connection, None)
        if connection.peer is None:
            return
        if connection.has_node_turns:
            self._node_connections[connection.peer, connection.first_api] -= 1
        if by_us:
            self._peers.left(connection.peer)
        else:
            self._peers.dropped(connection.peer)

    def peer_joined(self, peer: int) -> None:
        self._peers.joined(peer)

    def admit_to_node_turns(self, peer: int, first_api: int) -> bool:
        """Whether a connection that says it is this node's is served as one."""
        if (
            first_api not in BETWEEN_NODES
            or self._node_connections[peer, first_api] >= MAX_NODE_CONNECTIONS
            or not self._peers.knows(peer)
        ):
            return False
        self._node_connections[peer, first_api] += 1
        return True

    # --- answers that leave together ---------------------------------------------------------------------------------

    def hold(self) -> None:
        """Several answers follow: each write is a system call, and wakes up the client."""
        self.holding += 1

    def release(self) -> None:
        self.holding -= 1
        if self.unsent and not self.holding:
            unsent, self.unsent = self.unsent, {}
            for connection in unsent:
                connection.send_unsent()

    # --- memory ------------------------------------------------------------------------------------------------------

    def relieve_received(self) -> None:
        most = max(self.connections, key=lambda each: each.received)
        most.close("out_of_memory", f"{most.received} bytes of unfinished or unanswered requests")

    def relieve_unread(self) -> None:
        most = max(self.connections, key=lambda each: each.unread)
        most.close("out_of_memory", f"{most.unread} bytes of answers unread")

    # --- questions that are better answered a moment later -----------------------------------------------------------

    def metadata(self, message: Message, slot: Slot, client: Client, *, again: bool) -> None:
        """Who leads what. `again`: this client has asked before.

        When a broker's process dies, its clients notice as soon as the other brokers do, and ask at once who leads now.
        Told of the old leader they would come back after a second or so; the new one is known in a fraction of that. So
        whoever asks again waits a moment, and everybody waits while a broker that has gone still counts as alive. A
        node that has just started waits for the first broker: librdkafka never asks again after an empty answer.
        """
        brokers = len(self.known_brokers())
        if not brokers or (brokers > 1 and (again or self._unsettled())):
            loop = asyncio.get_running_loop()
            self._held.append((loop.time() + (MOMENT_S if again else 0), (message, slot, client)))
            if len(self._held) == 1:
                loop.call_later(POLL_S, self._answer_held)
        else:
            self.ask(message, slot, client)

    def ask(self, message: Message, slot: Slot, client: Client) -> None:
        if not slot.connection.closed:
            slot.connection.ask(message, slot, client, more=False)

    def _unsettled(self) -> bool:
        now, alive = asyncio.get_running_loop().time(), self.known_brokers()
        return any(now - since < HOLD_S and peer in alive for peer, since in self._peers.lost.items())

    def _answer_held(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._unsettled():
            now, held, self._held = loop.time() - (0 if self.known_brokers() else NOBODY_S), self._held, []
            self._held = [each for each in held if each[0] > now]
            for at, question in held:
                if at <= now:
                    question[1].connection.ask_later(question)
        if self._held:
            loop.call_later(POLL_S, self._answer_held)

    # --- those that waste a place ------------------------------------------------------------------------------------

    def _sweep_later(self, loop: asyncio.AbstractEventLoop) -> None:
        limits = self.limits
        every = max(0.1, min(limits.slow_reader_ms, limits.slow_request_ms, limits.idle_ms, 20_000) / 4_000)
        self._sweeper = loop.call_later(every, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now, limits = monotonic_ns(), self.limits
        slow, late = now - limits.slow_reader_ms * 1_000_000, now - limits.slow_request_ms * 1_000_000
        idle = now - limits.idle_ms * 1_000_000
        for connection in list(self.connections):
            if 0 < connection.choked_ns < slow:
                connection.close("slow_reader", f"{connection.unread} bytes of answers unread")
            elif 0 < connection.begun_ns < late:
                connection.close("slow_request", f"{connection.received} bytes in {limits.slow_request_ms} ms")
            elif connection.active_ns < idle and not connection.in_flight:
                connection.close("idle", f"for {self.limits.idle_ms} ms")
        self._sweep_later(loop)
