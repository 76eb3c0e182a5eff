"""A network that can be cut silently, or be slow: nothing is refused or reset, but bytes no longer pass, or pass late.

Both ends of a cut enforce it. A node discards what it sends to a peer it cannot reach, what it receives from a peer it
cannot hear, and the news that such a connection has ended. Opening a connection takes both directions, so it waits for
the end of the cut. After a cut has healed, the connections that existed during it are dropped, like those that a
stateful firewall has forgotten. A connection is a node's if the client id of its first request says so; clients are
cut off together, except the supervisor, which asks nodes for their state.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable, Iterable
from struct import Struct
from typing import TYPE_CHECKING, Any

from insync.cluster.faults import CLIENTS, NO_DELAY, Delay, Faults
from insync.server import node_query
from insync.server.network import Accept, Network
from insync.server.peers import node_id_of_client

if TYPE_CHECKING:
    from insync.server.tls_contexts import TlsListener, TlsPeers

RETRANSMISSION_S = 0.2
MAX_RETRANSMISSION_S = 10.0
_CLIENT_ID_LENGTH = Struct(">h")
_CLIENT_ID_AT = 12
"""After the frame length, the API key and version, and the correlation id."""


class CutNetwork(Network):
    def __init__(self, loop: asyncio.AbstractEventLoop, faults: Faults) -> None:
        super().__init__(loop)
        self.faults = faults
        self.links: dict[Link, None] = {}
        self._delays = dict[int | None, Delay](faults.delay_to)
        self._changed = asyncio.Event()

    def delay_to(self, peer: int | None) -> Delay:
        return self._delays.get(peer, NO_DELAY)

    def impose(self, faults: Faults) -> None:
        self.faults = faults
        self._delays = dict[int | None, Delay](faults.delay_to)
        for link in list(self.links):
            link.on_faults_changed()
        self._changed.set()
        self._changed = asyncio.Event()

    async def connect(
        self, peer: int, protocol: asyncio.Protocol, host: str, port: int, tls: TlsPeers | None = None
    ) -> None:
        while peer in self.faults.cut_from:
            await self._changed.wait()
        await super().connect(peer, Link(self, self._loop, protocol, peer), host, port, tls)

    async def listen(
        self, accept: Accept, sock: socket.socket, backlog: int, tls: TlsListener | None = None
    ) -> asyncio.Server:
        return await super().listen(lambda: Link(self, self._loop, accept(), None), sock, backlog, tls)


class Link(asyncio.Protocol):
    """Sits between a socket and the protocol that uses it. `peer` is None while unknown, and for the supervisor."""

    def __init__(
        self, network: CutNetwork, loop: asyncio.AbstractEventLoop, protocol: asyncio.Protocol, peer: int | None
    ) -> None:
        self.peer = peer
        self._network = network
        self._loop = loop
        self._protocol = protocol
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # until connection_made
        self._sent = DelayLine(loop, self._send)
        self._arrived = DelayLine(loop, self._deliver)
        self._peer_known = peer is not None
        self._stale = False  # existed during a cut
        self._protocol_closed = False  # connection_lost was called on the protocol, or is about to be
        self._socket_closed = False

    @property
    def is_deaf(self) -> bool:
        return self.peer in self._network.faults.deaf_to

    @property
    def is_mute(self) -> bool:
        return self.peer in self._network.faults.mute_to

    def on_faults_changed(self) -> None:
        if self.is_deaf or self.is_mute:
            self._stale = True
        elif self._stale:
            self._drop()

    # --- the socket's events -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._network.links[self] = None
        self.on_faults_changed()
        self._protocol.connection_made(CutTransport(self, self._transport))  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        if not self._peer_known:
            self._peer_known, self.peer = True, _identify(read_client_id(data))
            self.on_faults_changed()
        delay = self._network.faults.delay_from_clients if self.peer == CLIENTS else NO_DELAY
        self._arrived.add((data,), delay)

    def _deliver(self, pieces: Iterable[bytes]) -> None:
        for data in pieces:
            if not self.is_deaf and not self._protocol_closed:
                self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        if self.is_deaf or self._protocol_closed:
            return True
        if self._arrived.is_waiting:
            self._arrived.when_empty(self._transport.close)
            return True
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._socket_closed = True
        self._arrived.when_empty(lambda: self._lose(exc))

    def _lose(self, exc: Exception | None) -> None:
        if self._protocol_closed or not self.is_deaf:
            self._forget()
            self._close_protocol(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    # --- what the protocol does with its transport -------------------------------------------------------------------

    def writelines(self, pieces: Iterable[bytes]) -> None:
        self._sent.add(pieces, self._network.delay_to(self.peer))

    def _send(self, pieces: Iterable[bytes]) -> None:
        if not self.is_mute and not self._socket_closed:
            self._transport.writelines(pieces)

    def close(self, close: Callable[[], None]) -> None:
        """A peer that is cut off does not learn that the connection is closed."""
        if self.is_mute:
            self._loop.call_soon(self._close_protocol, None)
        else:
            self._sent.when_empty(close)

    # --- the end -----------------------------------------------------------------------------------------------------

    def _drop(self) -> None:
        if self._socket_closed:
            self._forget()
            self._close_protocol(ConnectionResetError("the connection was dropped after a network cut"))
        else:
            self._transport.abort()

    def _close_protocol(self, exc: Exception | None) -> None:
        if not self._protocol_closed:
            self._protocol_closed = True
            self._protocol.connection_lost(exc)

    def _forget(self) -> None:
        self._network.links.pop(self, None)


class DelayLine:
    """Passes on what is put in after its delay, and in order. What is in it counts against no limit of the node."""

    def __init__(self, loop: asyncio.AbstractEventLoop, deliver: Callable[[Iterable[bytes]], None]) -> None:
        self._loop = loop
        self._deliver = deliver
        self._waiting = 0
        self._due = 0.0
        self._on_empty: Callable[[], None] | None = None

    @property
    def is_waiting(self) -> bool:
        return self._waiting > 0

    def add(self, pieces: Iterable[bytes], delay: Delay) -> None:
        if delay == NO_DELAY and not self._waiting:
            self._deliver(pieces)
            return
        kept = [bytes(piece) for piece in pieces]
        now = self._loop.time()
        line_time = sum(map(len, kept)) / delay.bytes_per_s if delay.bytes_per_s else 0.0
        self._due = max(self._due, now + delay.latency_ms / 1_000 + _retransmissions_s(delay.loss)) + line_time
        self._waiting += 1
        self._loop.call_at(self._due, self._pass_on, kept)

    def when_empty(self, act: Callable[[], None]) -> None:
        if self._waiting:
            self._on_empty = act
        else:
            act()

    def _pass_on(self, pieces: list[bytes]) -> None:
        self._waiting -= 1
        self._deliver(pieces)
        if not self._waiting and self._on_empty is not None:
            act, self._on_empty = self._on_empty, None
            act()


def _retransmissions_s(loss: float) -> float:
    """How long TCP needs to get a packet through: it sends it again after 200 ms, then after twice as long."""
    time_s, wait_s = 0.0, RETRANSMISSION_S
    while wait_s < MAX_RETRANSMISSION_S and random.random() < loss:
        time_s, wait_s = time_s + wait_s, wait_s * 2
    return time_s


class CutTransport:
    """The part of a transport's interface that connections use."""

    def __init__(self, link: Link, transport: asyncio.Transport) -> None:
        self._link = link
        self._transport = transport
        self.writelines = link.writelines

    def write(self, data: bytes) -> None:
        self._link.writelines((data,))

    def close(self) -> None:
        self._link.close(self._transport.close)

    def abort(self) -> None:
        self._link.close(self._transport.abort)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _identify(client_id: str | None) -> int | None:
    """The node, `CLIENTS`, or None for the supervisor."""
    if client_id == node_query.CLIENT_ID:
        return None
    node = node_id_of_client(client_id)
    return CLIENTS if node is None else node


def read_client_id(data: bytes) -> str | None:
    """The client id of the first request on a connection. A node's first request is short, so it arrives whole."""
    if len(data) < _CLIENT_ID_AT + 2:
        return None
    (length,) = _CLIENT_ID_LENGTH.unpack_from(data, _CLIENT_ID_AT)
    start = _CLIENT_ID_AT + 2
    return data[start : start + length].decode(errors="replace") if length > 0 else None
