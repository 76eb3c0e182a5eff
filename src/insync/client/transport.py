"""Opens a stream to a broker, with or without TLS."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from typing import Any

from insync.client import tls as tls_
from insync.client.errors import UnreachableError
from insync.client.frame_stream import FrameStream
from insync.client.tls import Tls

SHORTEST_FRAME, LARGEST_FRAME = 4, 1 << 29
"""Without the length; a frame begins with a correlation id."""
TLS_SHUTDOWN_TIMEOUT_S = 1.0
"""For closing TLS: a peer that does not answer is not waited for."""


class _HandshakeClosedError(Exception):
    """The peer closed the connection during the handshake."""


async def connect(host: str, port: int, tls: Tls | None, timeout_s: float) -> FrameStream:
    address = f"{host}:{port}"
    try:
        async with asyncio.timeout(timeout_s):
            if tls is None:
                return await _open(host, port)
            return await _connect_tls(host, port, tls)
    except TimeoutError:
        what = "accept a connection" if tls is None else "complete a TLS handshake (see security.protocol)"
        raise UnreachableError(f"{address} did not {what} within {timeout_s:g} s") from None
    except OSError as error:
        raise UnreachableError(f"no connection to {address}: {reason(error)}") from None


async def _connect_tls(host: str, port: int, tls: Tls) -> FrameStream:
    """A listener without TLS closes the connection at the handshake, and so does a broker that dies.

    On a second attempt the dead broker refuses the connection, which is retriable; a listener without TLS closes it
    again, which is not.
    """
    try:
        return await _handshake(host, port, tls)
    except _HandshakeClosedError:
        pass
    try:
        return await _handshake(host, port, tls)
    except _HandshakeClosedError:
        raise tls_.no_tls_error(f"{host}:{port}") from None


async def _handshake(host: str, port: int, tls: Tls) -> FrameStream:
    context = tls.make_context()
    try:
        return await _open(host, port, ssl=context, server_hostname=host, ssl_shutdown_timeout=TLS_SHUTDOWN_TIMEOUT_S)
    except ssl.SSLError as error:
        raise tls_.explain_tls_error(error, host, port, tls) or _HandshakeClosedError from None
    except (ConnectionResetError, ConnectionAbortedError, BrokenPipeError):
        raise _HandshakeClosedError from None


async def _open(host: str, port: int, **tls_options: Any) -> FrameStream:
    def make_stream() -> FrameStream:
        return FrameStream(SHORTEST_FRAME, LARGEST_FRAME)

    _, stream = await asyncio.get_running_loop().create_connection(make_stream, host, port, **tls_options)
    return stream


def reason(error: OSError) -> str:
    """The system's message; asyncio wraps it, and name lookups have error numbers of their own."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "TLS error").replace("_", " ").lower()
    if error.errno is None or isinstance(error, socket.gaierror):
        return str(error.strerror or error)
    return os.strerror(error.errno)
