"""A network that can be cut silently: nothing is refused or reset, but bytes no longer pass.

Both ends of a cut enforce it. A node discards what it sends to a peer it cannot reach, what it receives from a peer it
cannot hear, and the news that such a connection has ended. Opening a connection takes both directions, so it waits for
the end of the cut. After a cut has healed, the connections that existed during it are dropped, like those that a
stateful firewall has forgotten. Clients are never cut off: a connection is a node's if the client id of its first
request says so.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from struct import Struct
from typing import TYPE_CHECKING, Any

from insync.cluster.faults import Faults
from insync.server.network import Network
from insync.server.peers import node_id_of_client

if TYPE_CHECKING:
    from insync.server.tls_contexts import TlsListener, TlsPeers

_CLIENT_ID_LENGTH = Struct(">h")
_CLIENT_ID_AT = 12
"""After the frame length, the API key and version, and the correlation id."""


class CutNetwork(Network):
    def __init__(self, loop: asyncio.AbstractEventLoop, faults: Faults) -> None:
        super().__init__(loop)
        self.faults = faults
        self.links: dict[Link, None] = {}
        self._changed = asyncio.Event()

    def impose(self, faults: Faults) -> None:
        self.faults = faults
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
        self,
        accept: Callable[[], asyncio.Protocol],
        sock: socket.socket,
        backlog: int,
        tls: TlsListener | None = None,
    ) -> asyncio.Server:
        return await super().listen(lambda: Link(self, self._loop, accept(), None), sock, backlog, tls)


class Link(asyncio.Protocol):
    """Sits between a socket and the protocol that uses it. `peer` is None for a client, or while it is unknown."""

    def __init__(
        self, network: CutNetwork, loop: asyncio.AbstractEventLoop, protocol: asyncio.Protocol, peer: int | None
    ) -> None:
        self.peer = peer
        self._network = network
        self._loop = loop
        self._protocol = protocol
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # until connection_made
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
            self._peer_known, self.peer = True, node_id_of_client(read_client_id(data))
            self.on_faults_changed()
        if not self.is_deaf and not self._protocol_closed:
            self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return True if self.is_deaf or self._protocol_closed else self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._socket_closed = True
        if self._protocol_closed or not self.is_deaf:
            self._forget()
            self._close_protocol(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    # --- what the protocol does with its transport -------------------------------------------------------------------

    def writelines(self, pieces: Iterable[bytes]) -> None:
        if not self.is_mute:
            self._transport.writelines(pieces)

    def close(self, close: Callable[[], None]) -> None:
        """A peer that is cut off does not learn that the connection is closed."""
        if self.is_mute:
            self._loop.call_soon(self._close_protocol, None)
        else:
            close()

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


def read_client_id(data: bytes) -> str | None:
    """The client id of the first request on a connection. A node's first request is short, so it arrives whole."""
    if len(data) < _CLIENT_ID_AT + 2:
        return None
    (length,) = _CLIENT_ID_LENGTH.unpack_from(data, _CLIENT_ID_AT)
    start = _CLIENT_ID_AT + 2
    return data[start : start + length].decode(errors="replace") if length > 0 else None
