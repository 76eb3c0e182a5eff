"""The few lines of HTTP that Prometheus needs, on the node's event loop, so that nothing is read while it changes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

Page = tuple[str, bytes]
"""(content type, body)"""

MAX_AT_ONCE = 16
PATIENCE_S = 5


async def serve(page: Callable[[], Page], sock: socket.socket) -> asyncio.Server:
    """`page` is asked for with every scrape."""
    return await asyncio.start_server(_answerer(page), sock=sock)


def _answerer(page: Callable[[], Page]) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    under_way: dict[asyncio.StreamWriter, None] = {}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        under_way[writer] = None
        if len(under_way) > MAX_AT_ONCE:
            oldest = next(iter(under_way))
            del under_way[oldest]
            oldest.transport.abort()
        try:
            async with asyncio.timeout(PATIENCE_S):
                asked = await reader.readuntil(b"\r\n\r\n")
            found = asked.startswith((b"GET /metrics ", b"GET / "))
            kind, body = page() if found else ("text/plain", b"look at /metrics\n")
            status = "200 OK" if found else "404 Not Found"
            head = (
                f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode() + body)
            async with asyncio.timeout(PATIENCE_S):
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            under_way.pop(writer, None)
            writer.close()

    return answer
