"""TLS between a socket and the protocol that uses it: a protocol to the one, a transport to the other.

The TLS transports of asyncio and uvloop hand whatever they have encrypted to the socket's transport and no longer count
it. A client that does not read a large answer would neither be noticed as a slow reader nor be charged to the memory
budget. Here answers are encrypted only as fast as the socket takes them, and everything unsent is counted. Small pieces
are joined before they are encrypted: each call makes a TLS record of its own.

`connection_made` of the protocol is called after the handshake. Closing sends a close_notify and does not wait for the
other side's.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Protocol

from insync.security.acl import canonical_host

READ_BYTES = 1 << 16
CHUNK_BYTES = 1 << 18
"""How much is encrypted at once."""
SOCKET_BUFFER_BYTES = 1 << 18
"""Above this, nothing more is encrypted until the socket has taken what there is."""

NOT_TLS_ALERT = bytes((21, 3, 3, 0, 2, 2, 70))
"""A fatal alert: protocol_version."""

Piece = bytes | bytearray | memoryview


_NO_PROTOCOL = asyncio.Protocol()


class HandshakeObserver(Protocol):
    """Is told how a handshake ends: of a server, which limits handshakes, or of a client, which waits for its own."""

    def on_handshake_started(self, transport: TlsTransport) -> None: ...

    def on_handshake_ended(self, transport: TlsTransport, error: Exception | None) -> None:
        """`error`: None if it was completed."""


class TlsTransport(asyncio.Protocol):
    __slots__ = (
        "_backlog",
        "_backlog_size",
        "_error",
        "_high",
        "_incoming",
        "_is_closing",
        "_is_established",
        "_is_paused",
        "_observer",
        "_outgoing",
        "_protocol",
        "_socket",
        "_socket_is_full",
        "_tls",
        "address",
    )

    def __init__(
        self,
        protocol: asyncio.Protocol,
        context: ssl.SSLContext,
        observer: HandshakeObserver,
        server_hostname: str | None = None,
    ) -> None:
        """`server_hostname`: for a client, the name that it connects to; None for a server."""
        self._protocol = protocol
        self._observer = observer
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_hostname is None, server_hostname=server_hostname
        )
        self.address = ""  # the IP address of the other side
        self._socket: asyncio.Transport = None  # type: ignore[assignment]  # until connection_made
        self._backlog: deque[Piece] = deque()  # not encrypted yet
        self._backlog_size = 0
        self._high = 1 << 16
        self._socket_is_full = False
        self._is_paused = False  # the protocol was asked to stop writing
        self._is_established = False
        self._is_closing = False
        self._error: Exception | None = None  # why TLS has ended the connection

    # --- the socket's events -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = transport  # type: ignore[assignment]
        self.address = canonical_host((transport.get_extra_info("peername") or ("",))[0])
        self.set_write_buffer_limits(self._high)
        self._observer.on_handshake_started(self)
        if not self._is_closing:
            self._continue_handshake()

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        self._incoming.write(data)
        if not self._is_established:
            self._continue_handshake()
        if self._is_established:
            self._read()

    def eof_received(self) -> None:
        """The socket is closed by its transport; TLS has no use for half of a connection."""
        if self._is_established and not self._is_closing:
            self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        was_closing, self._is_closing = self._is_closing, True
        self._backlog.clear()
        self._backlog_size = 0
        if self._is_established:
            self._protocol.connection_lost(exc or self._error)
        elif not was_closing:
            self._observer.on_handshake_ended(self, exc or ConnectionResetError("closed during the TLS handshake"))
        self._protocol = _NO_PROTOCOL  # each knows the other: both would stay in memory until the next collection

    def pause_writing(self) -> None:
        self._socket_is_full = True
        self._update_paused()

    def resume_writing(self) -> None:
        self._socket_is_full = False
        self._encrypt_backlog()

    # --- the handshake -----------------------------------------------------------------------------------------------

    def _continue_handshake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except (ssl.SSLError, OSError) as error:
            # OpenSSL says nothing to a client that does not speak TLS; with an alert it can tell what is wrong.
            self._socket.write(self._outgoing.read() or NOT_TLS_ALERT)
            self._end_handshake(error)
            self._socket.close()
            return
        self._flush()
        self._is_established = True
        self._observer.on_handshake_ended(self, None)
        if not self._is_closing:
            self._protocol.connection_made(self)  # type: ignore[arg-type]

    def _end_handshake(self, error: Exception) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._observer.on_handshake_ended(self, error)

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Deliver what has arrived; a call of the ssl module returns one record."""
        read, incoming, records = self._tls.read, self._incoming, []
        is_closed = False
        try:
            while incoming.pending or self._tls.pending():
                record = read(READ_BYTES)
                if not record:
                    is_closed = True
                    break
                records.append(record)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            is_closed = True
        except ssl.SSLError as error:  # an alert of the other side, or damaged records
            self._error = error
            self._flush()
            self.abort()
            return
        if self._outgoing.pending:
            self._flush()
        if records:
            self._protocol.data_received(records[0] if len(records) == 1 else b"".join(records))
        if is_closed and not self._is_closing:
            self._protocol.eof_received()
            self.close()

    # --- what the protocol does with its transport -------------------------------------------------------------------

    def write(self, data: Piece) -> None:
        self.writelines((data,))

    def writelines(self, pieces: Iterable[Piece]) -> None:
        if self._is_closing:
            return
        for piece in pieces:
            if len(piece):
                self._backlog.append(piece)
                self._backlog_size += len(piece)
        self._encrypt_backlog()

    def close(self) -> None:
        """What was written before is still sent."""
        if self._is_closing:
            return
        self._is_closing = True
        if not self._is_established:
            self._socket.abort()
            return
        self._encrypt_backlog(all_of_it=True)
        with suppress(ssl.SSLError):  # the other side has not said goodbye yet, or cannot any more
            self._tls.unwrap()
        self._flush()
        self._socket.close()

    def abort(self) -> None:
        if not self._is_established:
            self._end_handshake(ConnectionAbortedError("closed during the TLS handshake"))
        self._is_closing = True
        self._socket.abort()

    def give_up(self, reason: str, detail: str) -> None:
        """The handshake takes too long, or there are too many."""
        self._end_handshake(ConnectionAbortedError(f"{reason}: {detail}"))
        self._socket.abort()

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_closing:
            self._socket.resume_reading()

    def set_write_buffer_limits(self, high: int) -> None:
        """The socket counts as full at a quarter of it: when it is not, and the backlog is empty, writing goes on."""
        self._high = high
        self._socket.set_write_buffer_limits(high=min(SOCKET_BUFFER_BYTES, high // 4))

    def get_write_buffer_size(self) -> int:
        return self._backlog_size + self._socket.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._tls if name == "ssl_object" else self._socket.get_extra_info(name, default)

    # --- writing -----------------------------------------------------------------------------------------------------

    def _encrypt_backlog(self, *, all_of_it: bool = False) -> None:
        encrypt, outgoing = self._tls.write, self._outgoing
        try:
            while self._backlog and (all_of_it or not self._socket_is_full):
                chunk = self._take_chunk()
                written = encrypt(chunk)
                while written < len(chunk):
                    written += encrypt(chunk[written:])
                self._socket.write(outgoing.read())
        except ssl.SSLError as error:  # the other side has ended the connection
            self._error = error
            self.abort()
            return
        self._update_paused()

    def _take_chunk(self) -> memoryview:
        """The next bytes to encrypt: small pieces together, a part of a large one."""
        backlog, size, taken = self._backlog, 0, []
        while backlog and size < CHUNK_BYTES:
            piece = backlog.popleft()
            if size + len(piece) > CHUNK_BYTES:
                view = memoryview(piece)
                backlog.appendleft(view[CHUNK_BYTES - size :])
                piece = view[: CHUNK_BYTES - size]
            taken.append(piece)
            size += len(piece)
        self._backlog_size -= size
        return memoryview(taken[0] if len(taken) == 1 else b"".join(taken))

    def _update_paused(self) -> None:
        """As transports do: ask the protocol to stop above the limit, and to go on once a quarter of it is left."""
        size = self.get_write_buffer_size()
        if not self._is_paused and size > self._high:
            self._is_paused = True
            self._protocol.pause_writing()
        elif self._is_paused and size <= self._high // 4 and not self._is_closing:
            self._is_paused = False
            self._protocol.resume_writing()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._socket.write(self._outgoing.read())
