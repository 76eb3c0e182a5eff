"""Opens a node's connections: the one place where sockets get their protocols. Tests replace it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable


class Network:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def connect(self, peer: int, protocol: asyncio.Protocol, host: str, port: int) -> None:
        """Connect `protocol` to this node; OSError if that fails."""
        await self._loop.create_connection(lambda: protocol, host, port)

    async def listen(self, accept: Callable[[], asyncio.Protocol], sock: socket.socket, backlog: int) -> asyncio.Server:
        """Accept connections; `accept` makes the protocol of each."""
        return await self._loop.create_server(accept, sock=sock, backlog=backlog)
