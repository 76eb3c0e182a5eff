"""TLS between a socket and the protocol that uses it: a protocol to the one, a transport to the other.

The TLS transports of asyncio and uvloop hand whatever they have encrypted to the socket's transport and no longer count
it. A client that does not read a large answer would neither be noticed as a slow reader nor be charged to the memory
budget. Here answers are encrypted only as fast as the socket takes them, and everything unsent is counted. Small pieces
are joined before they are encrypted: each call makes a TLS record of its own.

The headers of the records that arrive are read here: OpenSSL gets them in slices, and is asked for as many records as
there are. Handshakes are made in turns (see `turns`), and so is everything that takes OpenSSL long to read; meanwhile
the socket is not read. Records without data, such as those that change the keys, may not follow each other for ever.

`connection_made` of the protocol is called after the handshake. Closing sends a close_notify and does not wait for the
other side's.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic_ns
from typing import Any, Protocol

from insync.escaping import log_value
from insync.security.acl import canonical_host

log = logging.getLogger("insync.server")

SOCKET_READ_BYTES = 1 << 18
RECORD_BYTES = 1 << 14
"""The most data in one record."""
HEADER_BYTES = 5
MAX_RECORD_BYTES = HEADER_BYTES + RECORD_BYTES + 2048
SLICE_BYTES = 1 << 16
SLICE_RECORDS = 32
"""How much OpenSSL is given to read at once. It reads all records without data in one call."""
READ_NS = 2_000_000
"""How long a connection may decrypt what has arrived before it waits for a turn. 256 kB take 0.1 ms, unless they
are in tiny records."""
MAX_RECORDS_WITHOUT_DATA = 32
"""In succession. A client changes its keys after millions of records."""
CHUNK_BYTES = 1 << 18
"""How much is encrypted at once."""
SOCKET_BUFFER_BYTES = 1 << 18
"""Above this, nothing more is encrypted until the socket has taken what there is."""

NOT_TLS_ALERT = bytes((21, 3, 3, 0, 2, 2, 70))
"""A fatal alert: protocol_version."""

Piece = bytes | bytearray | memoryview


_NO_PROTOCOL = asyncio.Protocol()


class _Buffers(threading.local):
    """What the connections of one event loop read into: none of them keeps anything there."""

    def __init__(self) -> None:
        self.received = memoryview(bytearray(SOCKET_READ_BYTES))
        self.decrypted = memoryview(bytearray(SOCKET_READ_BYTES + SLICE_BYTES + 2 * MAX_RECORD_BYTES))


_BUFFERS = _Buffers()


class TlsOwner(Protocol):
    """A server, which limits handshakes and decides when they take place, or a client, which waits for its own."""

    def on_handshake_started(self, transport: TlsTransport) -> None: ...

    def on_handshake_ended(self, transport: TlsTransport, error: Exception | None) -> None:
        """`error`: None if it was completed."""

    def on_ready(self, transport: TlsTransport) -> None:
        """Bytes of a handshake have arrived: call `serve`, now or later."""

    def on_ready_later(self, transport: TlsTransport) -> None:
        """More than READ_NS has to be read: call `serve` after the current callback."""


class TlsTransport(asyncio.BufferedProtocol):
    __slots__ = (
        "_backlog",
        "_backlog_size",
        "_context",
        "_error",
        "_has_closed",
        "_high",
        "_incoming",
        "_is_closing",
        "_is_established",
        "_is_paused",
        "_is_reading",
        "_is_waiting",
        "_outgoing",
        "_owner",
        "_protocol",
        "_records_without_data",
        "_server_hostname",
        "_socket",
        "_socket_is_full",
        "_tls",
        "_unread",
        "_until_header",
        "address",
        "debt_ns",
        "is_queued",
        "served_ns",
    )

    def __init__(
        self,
        protocol: asyncio.Protocol,
        context: ssl.SSLContext,
        owner: TlsOwner,
        server_hostname: str | None = None,
    ) -> None:
        """`server_hostname`: for a client, the name that it connects to; None for a server."""
        self._protocol = protocol
        self._owner = owner
        self._context = context
        self._server_hostname = server_hostname
        self._incoming: ssl.MemoryBIO = None  # type: ignore[assignment]  # these three: until the handshake begins
        self._outgoing: ssl.MemoryBIO = None  # type: ignore[assignment]
        self._tls: ssl.SSLObject = None  # type: ignore[assignment]
        self.address = ""  # the IP address of the other side
        self.is_queued = False  # this and the next two belong to the scheduler of turns
        self.debt_ns = self.served_ns = 0
        self._socket: asyncio.Transport = None  # type: ignore[assignment]  # until connection_made
        self._unread = bytearray()  # what OpenSSL has not been given: it waits for a turn, or for the rest of a header
        self._until_header = 0  # bytes until the next record begins
        self._records_without_data = 0  # in succession
        self._is_waiting = False  # for a turn; the socket is not read
        self._is_reading = True  # the protocol wants to read
        self._has_closed = False  # the other side has sent a close_notify
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
        self._owner.on_handshake_started(self)
        if self._server_hostname is not None and not self._is_closing:
            self._begin_handshake()
            self._continue_handshake()

    def get_buffer(self, sizehint: int) -> memoryview:
        return _BUFFERS.received

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_closing:
            return
        data = _BUFFERS.received[:nbytes]
        if self._is_established and not self._unread:
            self._read_for(data, READ_NS)
            return
        self._unread += data
        if self._is_waiting:
            return
        if self._is_established:
            unread, self._unread = self._unread, bytearray()
            self._read_for(memoryview(unread), READ_NS)
            return
        self._owner.on_ready(self)
        if self.is_queued:
            self._set_waiting(True)

    def _read_for(self, data: memoryview, time_ns: int) -> None:
        if self._read(data, monotonic_ns() + time_ns):
            self._set_waiting(True)
            self._owner.on_ready_later(self)

    def eof_received(self) -> None:
        """The socket is closed by its transport; TLS has no use for half of a connection."""
        if self._is_established and not self._is_closing:
            self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        was_closing, self._is_closing = self._is_closing, True
        self._backlog.clear()
        self._backlog_size = 0
        self._unread = bytearray()
        if self._is_established:
            self._protocol.connection_lost(exc or self._error)
        elif not was_closing:
            self._owner.on_handshake_ended(self, exc or ConnectionResetError("closed during the TLS handshake"))
        self._protocol = _NO_PROTOCOL  # each knows the other: both would stay in memory until the next collection

    def pause_writing(self) -> None:
        self._socket_is_full = True
        self._update_paused()

    def resume_writing(self) -> None:
        self._socket_is_full = False
        self._encrypt_backlog()

    # --- turns -------------------------------------------------------------------------------------------------------

    def serve(self, until_ns: int) -> bool:
        """Read what has arrived, until then; True if there is more."""
        if self._is_closing or not (self._is_reading and self._unread):
            return False
        unread, self._unread = self._unread, bytearray()
        has_more = self._read(memoryview(unread), until_ns)
        self._set_waiting(has_more)
        return has_more and self._is_reading

    def _set_waiting(self, is_waiting: bool) -> None:
        if is_waiting is not self._is_waiting and not self._is_closing:
            self._is_waiting = is_waiting
            self._update_reading()

    def _update_reading(self) -> None:
        if self._is_reading and not self._is_waiting:
            self._socket.resume_reading()
        else:
            self._socket.pause_reading()

    # --- the handshake -----------------------------------------------------------------------------------------------

    def _begin_handshake(self) -> None:
        """OpenSSL's state of a connection is large; one that sends nothing does not need it."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = self._context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=self._server_hostname is None,
            server_hostname=self._server_hostname,
        )

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
        self._owner.on_handshake_ended(self, None)
        if not self._is_closing:
            self._protocol.connection_made(self)  # type: ignore[arg-type]

    def _end_handshake(self, error: Exception) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._owner.on_handshake_ended(self, error)

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read(self, data: memoryview, until_ns: int) -> bool:
        """Decrypt and deliver; True if the time is over before everything was read."""
        if self._tls is None:
            self._begin_handshake()
        start, size, length, has_more = 0, 0, len(data), False
        while not self._is_closing and not has_more:
            end, records = self._next_slice(data, start)
            if end == start:
                break
            self._incoming.write(data[start:end])
            start = end
            if self._is_established:
                size = self._decrypt(records, size)
            else:
                self._continue_handshake()
                if self._is_established and not self._is_closing:
                    size = self._decrypt(SLICE_RECORDS, size)
                    self._records_without_data = 0  # those of the handshake
            has_more = length - start >= HEADER_BYTES and (
                monotonic_ns() >= until_ns or len(_BUFFERS.decrypted) - size < SLICE_BYTES + 2 * MAX_RECORD_BYTES
            )
        if start < length and not self._is_closing:
            self._unread = bytearray(data[start:])
        if self._is_established:
            self._deliver(size)
        return has_more and not self._is_closing

    def _next_slice(self, data: memoryview, start: int) -> tuple[int, int]:
        """Where the slice ends that begins at `start`, and how many records are complete with it. The bytes of an
        incomplete header are left for the next one."""
        position, records, length = start + self._until_header, 0, len(data)
        limit = min(start + SLICE_BYTES, length - HEADER_BYTES)
        if start < position <= length:
            records = 1
        while position <= limit and records < SLICE_RECORDS:
            position += HEADER_BYTES + (data[position + 3] << 8 | data[position + 4])
            if position <= length:
                records += 1
        end = min(position, length)
        self._until_header = position - end
        return end, records

    def _decrypt(self, records: int, size: int) -> int:
        """Read as many records into the buffer, which has `size` bytes; returns how many it has then."""
        read, buffer, remaining = self._tls.read, _BUFFERS.decrypted, records
        try:
            while remaining:
                added: int = read(RECORD_BYTES, buffer[size:])  # type: ignore[assignment]
                if not added:
                    self._has_closed = True
                    break
                size += added
                remaining -= 1
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._has_closed = True
        except ssl.SSLError as error:  # an alert of the other side, or damaged records
            self._fail(error)
            return 0
        if remaining < records:
            self._records_without_data = remaining
        else:
            self._records_without_data += remaining
            if self._records_without_data > MAX_RECORDS_WITHOUT_DATA:
                self._fail(ssl.SSLError(f"more than {MAX_RECORDS_WITHOUT_DATA} records without data"))
                return 0
        return size

    def _fail(self, error: ssl.SSLError) -> None:
        self._error = error
        if self._server_hostname is None:
            address = self.get_extra_info("peername")
            client = f"{address[0]}:{address[1]}" if address else "unknown"
            log.info("event=connection_closed reason=tls_error client=%s detail=%s", client, log_value(str(error)))
        self._flush()
        self.abort()

    def _deliver(self, size: int) -> None:
        if self._is_closing:
            return
        if self._outgoing.pending:
            self._flush()
            self._update_paused()
        if size:
            self._protocol.data_received(bytes(_BUFFERS.decrypted[:size]))
        if self._has_closed and not self._is_closing:
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
        self._is_reading = False
        if not self._is_closing:
            self._update_reading()

    def resume_reading(self) -> None:
        self._is_reading = True
        if self._is_closing:
            return
        if self._is_waiting:
            self._owner.on_ready_later(self)
        else:
            self._update_reading()

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
