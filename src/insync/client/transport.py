"""A stream to a broker, plain or inside TLS, or a sentence that says why there is none."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl

from insync.client import tls as tls_
from insync.client.errors import UnreachableError
from insync.client.tls import Tls

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

TLS_SHUTDOWN_TIMEOUT_S = 1.0
"""That the end of TLS may take: whoever does not answer it is not waited for."""


class _HandshakeClosedError(Exception):
    """In the middle of the handshake, without a word."""


async def connect(host: str, port: int, tls: Tls | None, timeout_s: float) -> Streams:
    address = f"{host}:{port}"
    try:
        async with asyncio.timeout(timeout_s):
            if tls is None:
                return await asyncio.open_connection(host, port)
            return await _encrypted(host, port, tls)
    except TimeoutError:
        what = "accept a connection" if tls is None else "accept a connection and speak TLS (see security.protocol)"
        raise UnreachableError(f"{address} did not {what} within {timeout_s:g} s") from None
    except OSError as error:
        raise UnreachableError(f"no connection to {address}: {reason(error)}") from None


async def _encrypted(host: str, port: int, tls: Tls) -> Streams:
    """A listener without TLS hangs up when it sees ours, and so does a broker that dies. Asked again at once, the dead
    one refuses, which may pass; the other hangs up again, which never does."""
    try:
        return await _handshake(host, port, tls)
    except _HandshakeClosedError:
        pass
    try:
        return await _handshake(host, port, tls)
    except _HandshakeClosedError:
        raise tls_.no_tls_error(f"{host}:{port}") from None


async def _handshake(host: str, port: int, tls: Tls) -> Streams:
    context = tls.context()
    try:
        return await asyncio.open_connection(
            host, port, ssl=context, server_hostname=host, ssl_shutdown_timeout=TLS_SHUTDOWN_TIMEOUT_S
        )
    except ssl.SSLError as error:
        raise tls_.explain_tls_error(error, host, port, tls) or _HandshakeClosedError from None
    except (ConnectionResetError, ConnectionAbortedError, BrokenPipeError):
        raise _HandshakeClosedError from None


def reason(error: OSError) -> str:
    """The system's words; asyncio wraps them, and name lookups number their errors in another way."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "an error of TLS").replace("_", " ").lower()
    if error.errno is None or isinstance(error, socket.gaierror):
        return str(error.strerror or error)
    return os.strerror(error.errno)
