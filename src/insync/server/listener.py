"""A node's listening sockets and their connections, of clients and of other nodes.

A connection counts as a node's if its client id says so and if it may act as one: on a listener that nodes use, and
with a principal that is a node's, where the listener authenticates. A client id alone proves nothing.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import partial
from time import monotonic_ns

from insync.node.handlers import BETWEEN_NODES
from insync.sansio import Client, Message
from insync.security.quotas import ConnectionQuotas, QuotaManager
from insync.server.acceptor import Acceptor
from insync.server.connection import Connection, HeldRequest, Slot, SubmitRequest
from insync.server.limits import ConnectionBudget, Limits
from insync.server.network import Network
from insync.server.peers import Peers
from insync.server.pending import PendingConnections
from insync.server.runner import now_ms
from insync.server.traffic import Traffic
from insync.server.turns import Turns
from insync.wire.versions.context import RequestContext
from insync.wire.versions.translator import VersionTranslator

BACKLOG = 1_024
METADATA_DELAY_S = 0.03
"""How long a repeated Metadata request of a client waits: longer than it takes to notice the death of a process."""
LOST_BROKER_HOLD_S = 1.0
POLL_S = 0.005
NO_BROKERS_HOLD_S = 5.0
"""How long a Metadata request waits at a node that knows no broker yet."""


MAX_NODE_CONNECTIONS = 3
"""Connections of one node that begin with the same API and are served with a node's priority. A node opens at most two
(replication and the quorum both fetch); the third allows for one that has died unnoticed. Where clients use
the same listener, any of them may claim to be a node, so the rest are served as clients."""


class Listener:
    def __init__(
        self,
        *,
        limits: Limits,
        pending: PendingConnections,
        turns: Turns,
        request: SubmitRequest,
        end_turn: Callable[[], None],
        abandon: Callable[[int, Message], None],
        peers: Peers,
        known_brokers: Callable[[], Collection[int]],
        traffic: Traffic,
        translator: VersionTranslator,
        quotas: QuotaManager,
        may_act_as_node: Callable[[Client], bool] = lambda client: client.on_node_listener,
        check_translated: Callable[[RequestContext, Client], None] = lambda context, client: None,
    ) -> None:
        """`known_brokers`: the ids of the brokers that are not fenced. `check_translated` applies the client's rights
        to what the translator answers by itself."""
        self.limits = limits
        self.pending = pending
        self.turns = turns
        self._node_connections: Counter[tuple[int, int]] = Counter()  # by node and first API
        self.traffic = traffic
        self.translator = translator
        self.quotas = quotas
        self.budget_received = ConnectionBudget(limits.received_bytes)
        self.budget_unread = ConnectionBudget(limits.unread_bytes)
        self.connections: dict[Connection, None] = {}
        self.holding = 0
        self.unsent: dict[Connection, None] = {}
        """Connections with answers that are held back."""
        self._peers = peers
        self.known_brokers = known_brokers
        self.request = request
        self.end_turn = end_turn
        self.abandon = abandon
        self.may_act_as_node = may_act_as_node
        self.check_translated = check_translated
        self._connection_quotas = ConnectionQuotas(
            max_per_ip=limits.max_connections_per_ip,
            overrides=limits.max_connections_per_ip_overrides,
            max_rate=limits.max_connection_creation_rate,
            windows=quotas.windows,
        )
        self._has_client_listener = False  # one that other nodes do not use
        self._held: list[tuple[float, HeldRequest]] = []
        self._servers: list[asyncio.Server] = []
        self.acceptors: list[Acceptor] = []
        self._sweeper: asyncio.TimerHandle | None = None

    async def open(self, listening: Iterable[tuple[Acceptor, socket.socket]], network: Network) -> None:
        opened = list(listening)
        self.acceptors = [acceptor for acceptor, _ in opened]
        self._has_client_listener = any(not acceptor.serves_nodes for acceptor in self.acceptors)
        for acceptor, sock in opened:
            self._servers.append(await network.listen(partial(Connection, self, acceptor), sock, BACKLOG, acceptor.tls))
        self._sweep_later(asyncio.get_running_loop())

    def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.finish()

    # --- events of connections ---------------------------------------------------------------------------------------

    def on_connected(self, connection: Connection) -> None:
        self.connections[connection] = None
        if not self._is_for_nodes_only(connection):
            self._apply_connection_quotas(connection)
        if len(self.connections) > self.limits.max_connections:
            self._choose_idle(connection).close("too_many_connections", f"{self.limits.max_connections} are allowed")

    def _is_for_nodes_only(self, connection: Connection) -> bool:
        """As in Kafka, the limits do not apply to a listener that nodes have to themselves."""
        return connection.acceptor.serves_nodes and self._has_client_listener

    def _apply_connection_quotas(self, connection: Connection) -> None:
        refusal, delay_ms = self._connection_quotas.connect(connection.address, self.quotas.ip_limits, now_ms())
        if delay_ms:  # after the transport has begun to read: it does so when this returns
            self.call_later(0, partial(connection.mute, delay_ms))
        if refusal and delay_ms:
            self.call_later(delay_ms / 1_000, partial(connection.close, "too_many_connections", refusal))
        elif refusal:
            connection.close("too_many_connections", refusal)

    def _choose_idle(self, newest: Connection) -> Connection:
        """Idle clients must not keep out connections with requests, those of other nodes above all."""
        idle = [c for c in self.connections if c.peer is None and not c.in_flight and not c.is_closed]
        return min(idle, key=lambda connection: connection.last_received_ns, default=newest)

    def on_disconnected(self, connection: Connection, closed_here: bool) -> None:
        if connection in self.connections:
            del self.connections[connection]
            if not self._is_for_nodes_only(connection):
                self._connection_quotas.disconnect(connection.address)
        if connection.peer is None:
            return
        if connection.has_node_turns:
            self._node_connections[connection.peer, connection.first_api] -= 1
        if closed_here:
            self._peers.on_closed_here(connection.peer)
        else:
            self._peers.on_dropped(connection.peer)

    def on_peer_connected(self, peer: int) -> None:
        self._peers.on_connected(peer)

    def admit_to_node_turns(self, peer: int, first_api: int) -> bool:
        """Whether a connection that claims to be this node's is served as one."""
        if (
            first_api not in BETWEEN_NODES
            or self._node_connections[peer, first_api] >= MAX_NODE_CONNECTIONS
            or not self._peers.is_known(peer)
        ):
            return False
        self._node_connections[peer, first_api] += 1
        return True

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(delay_s, callback)

    # --- answers that are sent together ------------------------------------------------------------------------------

    def hold(self) -> None:
        """Several answers follow: hold them back, because each write is a system call and wakes up the client."""
        self.holding += 1

    def release(self) -> None:
        self.holding -= 1
        if self.unsent and not self.holding:
            unsent, self.unsent = self.unsent, {}
            for connection in unsent:
                connection.send_unsent()

    # --- memory ------------------------------------------------------------------------------------------------------

    def close_largest_receiver(self) -> None:
        """Those that are not authenticated first: they may send less each, but anyone can open many of them."""
        most = max(self.connections, key=lambda c: (c.received_bytes > 0 and not c.is_authenticated, c.received_bytes))
        most.close("out_of_memory", f"{most.received_bytes} bytes of incomplete or unanswered requests")

    def close_slowest_reader(self) -> None:
        most = max(self.connections, key=lambda connection: connection.unread_bytes)
        most.close("out_of_memory", f"{most.unread_bytes} bytes of answers unread")

    # --- Metadata requests that are answered later -------------------------------------------------------------------

    def submit_metadata(self, message: Message, slot: Slot, client: Client, *, again: bool) -> None:
        """Submit a Metadata request, perhaps after a moment. `again`: this client has sent one before.

        When a broker's process dies, its clients notice as soon as the other brokers, and ask at once for the leaders.
        With the old leader in the answer they would ask again after a second or so; the new one is known earlier. So
        a repeated request waits a moment, and all requests wait while a dead broker still counts as alive. A node that
        has just started waits for the first broker: librdkafka never asks again after an empty answer.
        """
        brokers = len(self.known_brokers())
        if not brokers or (brokers > 1 and (again or self._counts_lost_broker_as_alive())):
            loop = asyncio.get_running_loop()
            self._held.append((loop.time() + (METADATA_DELAY_S if again else 0), (message, slot, client)))
            if len(self._held) == 1:
                loop.call_later(POLL_S, self._submit_due)
        else:
            self.submit(message, slot, client)

    def submit(self, message: Message, slot: Slot, client: Client) -> None:
        if not slot.connection.is_closed:
            slot.connection.submit(message, slot, client, more=False)

    def _counts_lost_broker_as_alive(self) -> bool:
        now, alive = asyncio.get_running_loop().time(), self.known_brokers()
        return any(now - since < LOST_BROKER_HOLD_S and peer in alive for peer, since in self._peers.lost.items())

    def _submit_due(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._counts_lost_broker_as_alive():
            now, held, self._held = loop.time() - (0 if self.known_brokers() else NO_BROKERS_HOLD_S), self._held, []
            self._held = [(at, request) for at, request in held if at > now]
            for at, request in held:
                if at <= now:
                    request[1].connection.submit_later(request)
        if self._held:
            loop.call_later(POLL_S, self._submit_due)

    # --- idle and slow connections -----------------------------------------------------------------------------------

    def _sweep_later(self, loop: asyncio.AbstractEventLoop) -> None:
        limits = self.limits
        shortest_ms = min(limits.slow_reader_ms, limits.slow_request_ms, limits.idle_ms, limits.authentication_ms)
        interval_s = max(0.1, min(shortest_ms, 20_000) / 4_000)
        self._sweeper = loop.call_later(interval_s, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now, limits = monotonic_ns(), self.limits
        slow_reader = now - limits.slow_reader_ms * 1_000_000
        slow_request, idle = now - limits.slow_request_ms * 1_000_000, now - limits.idle_ms * 1_000_000
        for connection in list(self.connections):
            if 0 < connection.write_paused_ns < slow_reader:
                connection.close("slow_reader", f"{connection.unread_bytes} bytes of answers unread")
            elif 0 < connection.partial_since_ns < slow_request:
                connection.close("slow_request", f"{connection.received_bytes} bytes in {limits.slow_request_ms} ms")
            elif connection.last_received_ns < idle and not connection.in_flight:
                connection.close("idle", f"for {self.limits.idle_ms} ms")
        self.pending.close_overdue(now)
        self._sweep_later(loop)
