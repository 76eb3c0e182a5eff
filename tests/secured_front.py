"""A proxy that adds TLS and SASL to a cluster without them, and forwards frames as they are.

    with SecuredFront(cluster.bootstrap, certificate="server.pem", users={"alice": "secret"}) as front:
        front.bootstrap

Every broker gets a port of its own, and answers that name brokers are changed to these ports. The server side of SCRAM
is written from RFC 5802 and shares no code with the client under test.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ssl
import threading
import time
from base64 import b64decode, b64encode
from collections import deque
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from struct import Struct
from typing import Any

from insync.client.client import parse_bootstrap
from insync.wire import codec
from insync.wire.errors import ErrorCode

TLS = Path(__file__).parent / "data" / "tls"
HOST = "127.0.0.1"
API_VERSIONS, HANDSHAKE, AUTHENTICATE = 18, 17, 36
METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER = 3, 10, 60
ITERATIONS = 4096
_LENGTH = Struct(">i")


class SecuredFront:
    """`certificate`: a file of tests/data/tls, or None for no TLS. `users`: names and passwords, or None for no SASL.
    `host` is the name of the brokers in responses."""

    def __init__(
        self,
        bootstrap: str,
        *,
        certificate: str | None = "server.pem",
        client_ca: str | None = None,
        users: dict[str, str] | None = None,
        mechanisms: tuple[str, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        lifetime_s: float = 0.0,
        host: str = HOST,
        impostor: bool = False,
    ) -> None:
        self.users = users
        self.mechanisms = mechanisms
        self.lifetime_s = lifetime_s
        self.host = host
        self.impostor = impostor
        """Accepts every password, and cannot prove that it knows the right one."""
        self.handshakes = 0
        self.logins: list[tuple[str, str]] = []
        """(user, mechanism) of every login that was accepted."""
        self.ports: dict[int, int] = {}
        self._backends = parse_bootstrap(bootstrap)
        self._tls = None if certificate is None else _context(certificate, client_ca)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._servers: list[asyncio.Server] = []
        self._connections: dict[asyncio.Task[None], None] = {}

    def __enter__(self) -> SecuredFront:
        self._thread.start()
        for address in self._backends:
            self.ports[address[1]] = asyncio.run_coroutine_threadsafe(self._listen(address), self._loop).result(30)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{self.host}:{port}" for port in self.ports.values())

    async def _listen(self, backend: tuple[str, int]) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections[task] = None
            self.handshakes += 1
            try:
                await _Connection(self, reader, writer, backend).serve()
            except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                pass  # the client has closed the connection, or the proxy stops
            finally:
                self._connections.pop(task, None)
                writer.close()

        server = await asyncio.start_server(serve, HOST, 0, ssl=self._tls)
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        connections = list(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


class _Connection:
    """One connection."""

    def __init__(
        self,
        front: SecuredFront,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        backend: tuple[str, int],
    ) -> None:
        self._front = front
        self._reader, self._writer = reader, writer
        self._backend = backend
        self._asked: deque[tuple[int, int]] = deque()
        self._login: Login | None = None
        self._mechanism = ""
        self._until: float | None = None if front.users is not None else float("inf")

    async def serve(self) -> None:
        reader, writer = await asyncio.open_connection(*self._backend)
        answers = asyncio.create_task(self._forward_responses(reader))
        try:
            while True:
                frame = await _frame(self._reader)
                key, version = Struct(">hh").unpack_from(frame)
                if key in (HANDSHAKE, AUTHENTICATE) and self._front.users is not None:
                    self._write(self._sasl(frame))
                elif key == API_VERSIONS or self._is_logged_in():
                    self._asked.append((key, version))
                    writer.write(_LENGTH.pack(len(frame)) + frame)
                    await writer.drain()
                else:
                    return
        finally:
            answers.cancel()
            writer.close()

    def _is_logged_in(self) -> bool:
        """Logged in, not for too long, and not in the middle of logging in again."""
        return self._until is not None and time.monotonic() < self._until and self._login is None

    async def _forward_responses(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                frame = await _frame(reader)
                key, version = self._asked.popleft()
                self._write(self._rewrite_response(frame, key, version))
        except asyncio.IncompleteReadError:
            self._writer.close()

    def _write(self, frame: bytes) -> None:
        self._writer.write(_LENGTH.pack(len(frame)) + frame)

    # --- SASL --------------------------------------------------------------------------------------------------------

    def _sasl(self, frame: bytes) -> bytes:
        header, request = codec.decode_request(frame)
        answer = codec.response_type(header.api_key, header.api_version)
        if header.api_key == HANDSHAKE:
            known = request.mechanism in self._front.mechanisms
            self._mechanism = request.mechanism
            self._login = Login(self._front, request.mechanism) if known else None
            code = ErrorCode.none if known else ErrorCode.unsupported_sasl_mechanism
            made = answer(error_code=code, mechanisms=self._front.mechanisms)
        else:
            made = answer(**self._step(bytes(request.auth_bytes)))
        return codec.encode_response(made, header.correlation_id)

    def _step(self, message: bytes) -> dict[str, Any]:
        assert self._login is not None
        try:
            challenge = self._login.step(message)
        except (KeyError, ValueError):
            text = f"Authentication failed during authentication due to invalid credentials with {self._mechanism}"
            return {
                "error_code": ErrorCode.sasl_authentication_failed,
                "error_message": text,
                "auth_bytes": b"",
                "session_lifetime": timedelta(0),
            }
        lifetime = 0.0
        if self._login.done:
            self._front.logins.append((self._login.user, self._mechanism))
            lifetime = self._front.lifetime_s
            self._until = time.monotonic() + lifetime if lifetime else float("inf")
            self._login = None
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "auth_bytes": challenge,
            "session_lifetime": timedelta(seconds=lifetime),
        }

    # --- answers that name brokers -----------------------------------------------------------------------------------

    def _rewrite_response(self, frame: bytes, key: int, version: int) -> bytes:
        if key == API_VERSIONS and self._front.users is not None:
            return self._with_sasl(frame, version)
        if key not in (METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER):
            return frame
        correlation_id, message = codec.decode_response(frame, codec.request_type(key, version))
        if key == FIND_COORDINATOR:
            changed = (
                replace(message, coordinators=tuple(map(self._with_our_address, message.coordinators)))
                if hasattr(message, "coordinators")
                else self._with_our_address(message)
            )
        else:
            changed = replace(message, brokers=tuple(map(self._with_our_address, message.brokers)))
        return codec.encode_response(changed, correlation_id)

    def _with_our_address(self, broker: Any) -> Any:
        port = self._front.ports.get(broker.port)
        return broker if port is None else replace(broker, host=self._front.host, port=port)

    def _with_sasl(self, frame: bytes, version: int) -> bytes:
        correlation_id, message = codec.decode_response(frame, codec.request_type(API_VERSIONS, version))
        entry = type(message.api_keys[0])
        more = (
            entry(api_key=HANDSHAKE, min_version=0, max_version=1),
            entry(api_key=AUTHENTICATE, min_version=0, max_version=2),
        )
        return codec.encode_response(replace(message, api_keys=(*message.api_keys, *more)), correlation_id)


class Login:
    """The server's side of PLAIN and SCRAM. A user that does not exist is a KeyError, a wrong password a ValueError."""

    def __init__(self, front: SecuredFront, mechanism: str) -> None:
        self._users = front.users or {}
        self._impostor = front.impostor
        self._plain = mechanism == "PLAIN"
        self._hash = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        self._so_far: list[str] = []
        self._salt = b"a grain of salt"
        self.user = ""
        self.done = False

    def step(self, message: bytes) -> bytes:
        if self._plain:
            _, self.user, password = message.decode().split("\0")
            if self._users[self.user] != password:
                raise ValueError("wrong password")
            self.done = True
            return b""
        return self._final(message.decode()) if self._so_far else self._first(message.decode())

    def _first(self, text: str) -> bytes:
        bare = text.removeprefix("n,,")
        name, nonce = bare.split(",")
        self.user = name.removeprefix("n=").replace("=2C", ",").replace("=3D", "=")
        challenge = f"{nonce}and-ours,s={b64encode(self._salt).decode()},i={ITERATIONS}"
        self._so_far = [bare, challenge]
        return challenge.encode()

    def _final(self, text: str) -> bytes:
        without_proof, _, proof = text.rpartition(",p=")
        signed = ",".join((*self._so_far, without_proof)).encode()
        password = "guess" if self._impostor else self._users[self.user]
        salted = hashlib.pbkdf2_hmac(self._hash, password.encode(), self._salt, ITERATIONS)
        stored = hashlib.new(self._hash, hmac.digest(salted, b"Client Key", self._hash)).digest()
        signature = hmac.digest(stored, signed, self._hash)
        key = bytes(a ^ b for a, b in zip(b64decode(proof), signature, strict=True))
        if hashlib.new(self._hash, key).digest() != stored and not self._impostor:
            raise ValueError("wrong password")
        self.done = True
        verifier = hmac.digest(hmac.digest(salted, b"Server Key", self._hash), signed, self._hash)
        return b"v=" + b64encode(verifier)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (length,) = _LENGTH.unpack(await reader.readexactly(4))
    return await reader.readexactly(length)


def _context(certificate: str, client_ca: str | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / certificate)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(TLS / client_ca)
    return context
