"""Opens a node's connections: the one place where sockets get their protocols. Tests replace it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from insync.server.tls_contexts import TlsListener, TlsPeers

Accept = Callable[[], asyncio.Protocol]
"""Makes the protocol of a connection."""


class Network:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def connect(
        self, peer: int, protocol: asyncio.Protocol, host: str, port: int, tls: TlsPeers | None = None
    ) -> None:
        """Connect `protocol` to this node; OSError if that fails, or the TLS handshake does."""
        if tls is None:
            await self._loop.create_connection(lambda: protocol, host, port)
        else:
            await tls.connect(self._loop, protocol, host, port)

    async def listen(
        self, accept: Accept, sock: socket.socket, backlog: int, tls: TlsListener | None = None
    ) -> asyncio.Server:
        """Accept connections."""
        make = accept if tls is None else lambda: tls.wrap(accept())
        return await self._loop.create_server(make, sock=sock, backlog=backlog)
