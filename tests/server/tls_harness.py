"""Two ends of a TLS connection over pretended sockets, and certificates for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from insync.security.certificates import Authority
from insync.security.tls import TlsSettings
from insync.server.tls_transport import SOCKET_READ_BYTES, TlsTransport
from tests.server.connection_harness import FlowControl

HOSTS = ("localhost", "127.0.0.1")
NEVER_NS = 1 << 62


@cache
def _authority(name: str) -> Authority:
    return Authority.create(name)


def authority(name: str = "insync test CA") -> Authority:
    return _authority(name)


def write_files(directory: Path) -> dict[str, str]:
    """A truststore and a node's keystore as PEM; returns the settings that name them."""
    authority().write(directory / "ca.pem")
    authority().issue("node", hosts=HOSTS).write(directory / "node.pem")
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
    }


def inline_settings(name: str = "node", *, hosts: tuple[str, ...] = HOSTS, **more: str) -> dict[str, str]:
    issued = authority().issue(name, hosts=hosts)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": issued.certificate_pem,
        "ssl.keystore.key": issued.key_pem(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority().certificate_pem,
        **{key.replace("_", "."): value for key, value in more.items()},
    }


class Pipe(FlowControl):
    """The socket of one end. What is written waits in `buffer` until the test lets it pass."""

    def __init__(self, address: str = "10.0.0.1") -> None:
        super().__init__(high=1 << 16)
        self.address = address
        self.buffer = bytearray()
        self.writes: list[int] = []
        self.paused = False
        self.end: TlsTransport

    def get_write_buffer_size(self) -> int:
        return len(self.buffer)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self.address, 5_000)

    def write(self, data: bytes) -> None:
        self.buffer += data
        self.writes.append(len(data))
        if len(self.buffer) > self.high and not self.paused:
            self.paused = True
            self.end.pause_writing()

    def take(self, size: int | None = None) -> bytes:
        """The other side's machine reads."""
        taken = bytes(self.buffer[:size])
        del self.buffer[: len(taken)]
        if self.paused and len(self.buffer) <= self.high // 4:
            self.paused = False
            self.end.resume_writing()
        return taken


def receive(transport: TlsTransport, data: bytes) -> None:
    """The bytes arrive at the socket of this end, and are read as an event loop reads them."""
    for start in range(0, len(data), SOCKET_READ_BYTES):
        part = data[start : start + SOCKET_READ_BYTES]
        transport.get_buffer(-1)[: len(part)] = part
        transport.buffer_updated(len(part))


class End(asyncio.Protocol):
    """The protocol of one end, and the owner of its TLS, which gives it turns at once unless it defers them."""

    def __init__(self) -> None:
        self.transport: TlsTransport | None = None
        self.received = b""
        self.deliveries = 0
        self.paused = False
        self.saw_eof = False
        self.lost: list[Exception | None] = []
        self.handshakes: list[Exception | None] = []
        self.defers = False
        self.waiting: list[TlsTransport] = []  # for a turn, if it defers them

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.deliveries += 1

    def eof_received(self) -> None:
        self.saw_eof = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False

    def on_handshake_started(self, transport: TlsTransport) -> None: ...

    def on_handshake_ended(self, transport: TlsTransport, error: Exception | None) -> None:
        self.handshakes.append(error)

    def on_ready(self, transport: TlsTransport) -> None:
        transport.serve(NEVER_NS)

    def on_ready_later(self, transport: TlsTransport) -> None:
        if self.defers:
            self.waiting.append(transport)
        else:
            transport.serve(NEVER_NS)


class TlsPair:
    """A client and a server. `pump` passes bytes in both directions until there are none.

    `accept` makes the server's end; without it, the server has the settings `server`. The client writes the secrets of
    the connection to the file `key_log`.
    """

    def __init__(
        self,
        server: dict[str, str] | None = None,
        client: dict[str, str] | None = None,
        name: str = "localhost",
        accept: Callable[[asyncio.Protocol], TlsTransport] | None = None,
        key_log: Path | None = None,
    ) -> None:
        client_settings = TlsSettings.of(inline_settings("client", hosts=()) if client is None else client)
        self.server, self.client = End(), End()
        self.server_pipe, self.client_pipe = Pipe(), Pipe()
        if accept is None:
            settings = TlsSettings.of_listener(inline_settings() if server is None else server)
            self.server_tls = TlsTransport(self.server, settings.server_context(settings.read()), self.server)
        else:
            self.server_tls = accept(self.server)
        client_context = client_settings.client_context(client_settings.read())
        if key_log is not None:
            client_context.keylog_filename = str(key_log)
        self.client_tls = TlsTransport(self.client, client_context, self.client, name)
        self.server_pipe.end, self.client_pipe.end = self.server_tls, self.client_tls
        self.server_tls.connection_made(self.server_pipe)  # type: ignore[arg-type]
        self.client_tls.connection_made(self.client_pipe)  # type: ignore[arg-type]

    def pump(self) -> None:
        while self.client_pipe.buffer or self.server_pipe.buffer:
            receive(self.server_tls, self.client_pipe.take())
            if self.server_pipe.buffer:
                receive(self.client_tls, self.server_pipe.take())

    def established(self) -> TlsPair:
        self.pump()
        assert self.client.handshakes == [None]
        assert self.server.handshakes in ([None], [])  # a listener's own TLS reports no handshake
        return self
