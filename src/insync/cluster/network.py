"""A network that can be cut in silence: nothing is refused and nothing reset, bytes just do not pass.

Both ends of a cut know of it. What a node sends to a peer that it cannot reach is thrown away, what comes from a peer
that it does not hear too, and so is the news that a connection has ended. A new connection takes both directions to
come about, and waits for them. Once a cut has healed, the connections that lived through it are dropped, as those are
that the machines between two nodes have forgotten. Clients are never cut off: a node says in the client id of its first
request that it is one.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any

from insync.cluster.faults import Faults
from insync.server.network import Network
from insync.server.peers import node_of

_CLIENT_ID_LENGTH = Struct(">h")
_CLIENT_ID_AT = 12
"""Behind the length of the frame, the API's key and version, and the correlation id."""


class CutNetwork(Network):
    def __init__(self, loop: asyncio.AbstractEventLoop, faults: Faults) -> None:
        super().__init__(loop)
        self.faults = faults
        self.links: dict[Link, None] = {}
        self._changed = asyncio.Event()

    def impose(self, faults: Faults) -> None:
        self.faults = faults
        for link in list(self.links):
            link.faults_changed()
        self._changed.set()
        self._changed = asyncio.Event()

    async def connect(self, peer: int, protocol: asyncio.Protocol, host: str, port: int) -> None:
        while peer in self.faults.cut_from:
            await self._changed.wait()
        await super().connect(peer, Link(self, self._loop, protocol, peer), host, port)

    async def listen(self, accept: Callable[[], asyncio.Protocol], sock: socket.socket, backlog: int) -> asyncio.Server:
        return await super().listen(lambda: Link(self, self._loop, accept(), None), sock, backlog)


class Link(asyncio.Protocol):
    """One connection, between its socket and the protocol that believes to have it. `peer` None: not known yet, or a
    client."""

    def __init__(
        self, network: CutNetwork, loop: asyncio.AbstractEventLoop, protocol: asyncio.Protocol, peer: int | None
    ) -> None:
        self.peer = peer
        self._network = network
        self._loop = loop
        self._protocol = protocol
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # until connection_made
        self._known = peer is not None
        self._stale = False  # it has lived through a cut
        self._over = False  # the protocol has been told of its end, or is about to be
        self._ended = False  # so has the socket

    @property
    def deaf(self) -> bool:
        return self.peer in self._network.faults.deaf_to

    @property
    def mute(self) -> bool:
        return self.peer in self._network.faults.mute_to

    def faults_changed(self) -> None:
        if self.deaf or self.mute:
            self._stale = True
        elif self._stale:
            self._drop()

    # --- the socket's events -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._network.links[self] = None
        self.faults_changed()
        self._protocol.connection_made(CutTransport(self, self._transport))  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        if not self._known:
            self._known, self.peer = True, node_of(client_id(data))
            self.faults_changed()
        if not self.deaf and not self._over:
            self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return True if self.deaf or self._over else self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        if self._over or not self.deaf:
            self._forget()
            self._end(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    # --- what the protocol does with its transport -------------------------------------------------------------------

    def writelines(self, pieces: Iterable[bytes]) -> None:
        if not self.mute:
            self._transport.writelines(pieces)

    def close(self, close: Callable[[], None]) -> None:
        """A peer that is cut off does not hear that the connection is closed."""
        if self.mute:
            self._loop.call_soon(self._end, None)
        else:
            close()

    # --- the end -----------------------------------------------------------------------------------------------------

    def _drop(self) -> None:
        if self._ended:
            self._forget()
            self._end(ConnectionResetError("the connection did not outlive a cut of the network"))
        else:
            self._transport.abort()

    def _end(self, exc: Exception | None) -> None:
        if not self._over:
            self._over = True
            self._protocol.connection_lost(exc)

    def _forget(self) -> None:
        self._network.links.pop(self, None)


class CutTransport:
    """As much of a transport as connections use."""

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


def client_id(data: bytes) -> str | None:
    """Of the first request on a connection. A node's comes whole: it is short, and nothing was sent before it."""
    if len(data) < _CLIENT_ID_AT + 2:
        return None
    (length,) = _CLIENT_ID_LENGTH.unpack_from(data, _CLIENT_ID_AT)
    start = _CLIENT_ID_AT + 2
    return data[start : start + length].decode(errors="replace") if length > 0 else None
