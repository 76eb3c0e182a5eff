"""The little HTTP that Prometheus needs, on the node's event loop, so that no state is read while it changes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

Page = tuple[str, bytes]
"""(content type, body)"""

MAX_CONNECTIONS = 16
TIMEOUT_S = 5


async def serve(render: Callable[[], Page], sock: socket.socket) -> asyncio.Server:
    """`render` is called for every scrape."""
    return await asyncio.start_server(_make_handler(render), sock=sock)


def _make_handler(
    render: Callable[[], Page],
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    connections: dict[asyncio.StreamWriter, None] = {}

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections[writer] = None
        if len(connections) > MAX_CONNECTIONS:
            oldest = next(iter(connections))
            del connections[oldest]
            oldest.transport.abort()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                request = await reader.readuntil(b"\r\n\r\n")
            is_scrape = request.startswith((b"GET /metrics ", b"GET / "))
            content_type, body = render() if is_scrape else ("text/plain", b"The metrics are at /metrics.\n")
            status = "200 OK" if is_scrape else "404 Not Found"
            head = (
                f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode() + body)
            async with asyncio.timeout(TIMEOUT_S):
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            connections.pop(writer, None)
            writer.close()

    return handle
