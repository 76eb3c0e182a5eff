"""How a node's connections come about: the one place where sockets turn into protocols."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable


class Network:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def connect(self, peer: int, protocol: asyncio.Protocol, host: str, port: int) -> None:
        """Returns once `protocol` has its connection with this node; OSError if it cannot be had."""
        await self._loop.create_connection(lambda: protocol, host, port)

    async def listen(self, accept: Callable[[], asyncio.Protocol], sock: socket.socket, backlog: int) -> asyncio.Server:
        """`accept` makes the protocol of one connection."""
        return await self._loop.create_server(accept, sock=sock, backlog=backlog)
