"""One connection to one broker, with any number of requests in flight after versions are negotiated.

A reader task completes each request by its correlation id. When the connection ends, all pending requests fail with an
error that names the broker.

If the broker limits the lifetime of sessions, the next request shortly before the end re-authenticates first. All other
requests wait for it, because brokers accept no other request meanwhile.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import Mapping
from struct import Struct
from typing import Any

from insync.client import apis, sasl, tls, transport
from insync.client.apis import Api
from insync.client.errors import AccessDeniedError, ConnectionLostError, ErrorCode, UnreachableError, UnsupportedError
from insync.client.frame_stream import EndOfStreamError, FrameLengthError, FrameStream
from insync.client.request_builder import build_request
from insync.client.security import PLAINTEXT, Security
from insync.client.transport import reason
from insync.wire import codec, handwritten_fetch
from insync.wire.errors import MalformedFrameError

_LENGTH = Struct(">i")
_TLS_ALERT = b"\x15\x03"
"""How a TLS listener answers a client that does not speak TLS."""
_RENEW_AFTER = 0.85
"""The part of a session's lifetime after which to re-authenticate."""

CLIENT = {"client_software_name": "insync", "client_software_version": "1"}


class Connection:
    __slots__ = (
        "_answers",
        "_denied",
        "_gate",
        "_ids",
        "_reading",
        "_renew_at",
        "_security",
        "_stream",
        "_waiting",
        "address",
        "client_id",
        "timeout_s",
        "versions",
    )

    def __init__(
        self,
        stream: FrameStream,
        address: str,
        client_id: str,
        timeout_s: float,
        security: Security = PLAINTEXT,
    ) -> None:
        self.address = address
        self.client_id = client_id
        self.timeout_s = timeout_s
        self.versions: dict[int, tuple[int, int]] = {}
        self._security = security
        self._stream = stream
        self._ids = itertools.count(1)
        self._waiting: dict[int, tuple[asyncio.Future[Any], Any]] = {}
        self._answers = 0
        self._denied: AccessDeniedError | None = None
        self._renew_at: float | None = None
        self._gate = asyncio.Lock()
        self._reading = asyncio.create_task(self._read())

    @staticmethod
    async def open(
        host: str,
        port: int,
        *,
        client_id: str = "insync",
        timeout_s: float = 10.0,
        security: Security = PLAINTEXT,
        connect_timeout_s: float | None = None,
    ) -> Connection:
        """`AccessDeniedError` if TLS or authentication fails, which is not retriable."""
        stream = await transport.connect(
            host, port, security.tls, timeout_s if connect_timeout_s is None else connect_timeout_s
        )
        connection = Connection(stream, f"{host}:{port}", client_id, timeout_s, security)
        try:
            await connection._begin(timeout_s if connect_timeout_s is None else connect_timeout_s)
        except BaseException:
            await connection.close()
            raise
        return connection

    @property
    def is_alive(self) -> bool:
        return not self._reading.done()

    def version(self, api: Api) -> int | None:
        """The newest version that both sides know; None if there is none."""
        return apis.newest_common_version(api, self.versions.get(api.key))

    async def call(
        self, api: Api, values: Mapping[str, Any], *, timeout_s: float | None = None, version: int | None = None
    ) -> Any:
        """Send a request and return the broker's answer."""
        request = self._request(api, values, version)
        if self._renew_at is None:
            return await self._exchange(api, request, timeout_s)
        async with self._gate:
            await self._renew_if_due()
            sent = await self._ask(request)
        return await self._answer(api, sent, timeout_s)

    async def send(self, api: Api, values: Mapping[str, Any]) -> None:
        """Send a request that is not answered: Produce with acks=0."""
        frame = codec.encode_request(self._request(api, values, None), next(self._ids), self.client_id)
        async with self._gate:
            await self._renew_if_due()
            await self._send(frame)

    async def _exchange(self, api: Api, request: Any, timeout_s: float | None) -> Any:
        return await self._answer(api, await self._ask(request), timeout_s)

    async def _ask(self, request: Any) -> int:
        """Send a request; returns the correlation id to wait for."""
        correlation_id = next(self._ids)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = (future, type(request))
        try:
            await self._send(codec.encode_request(request, correlation_id, self.client_id))
        except BaseException:
            self._waiting.pop(correlation_id, None)
            raise
        return correlation_id

    async def _answer(self, api: Api, correlation_id: int, timeout_s: float | None) -> Any:
        try:
            async with asyncio.timeout(self.timeout_s if timeout_s is None else timeout_s):
                return await self._waiting[correlation_id][0]
        except TimeoutError:
            raise ConnectionLostError(f"broker {self.address} did not answer {api.name} in time") from None
        finally:
            self._waiting.pop(correlation_id, None)

    async def close(self) -> None:
        self._reading.cancel()
        self._stream.close()
        await asyncio.gather(self._reading, self._stream.wait_closed(), return_exceptions=True)

    def _request(self, api: Api, values: Mapping[str, Any], version: int | None) -> Any:
        chosen = self.version(api) if version is None else version
        if chosen is None:
            theirs = self.versions.get(api.key)
            serves = "does not serve it" if theirs is None else f"serves versions {theirs[0]} to {theirs[1]}"
            raise UnsupportedError(
                f"this needs {api.name} {api.low} to {api.high}, but the broker at {self.address} {serves}"
            )
        return build_request(codec.request_type(api.key, chosen), values)

    async def _send(self, frame: bytes) -> None:
        if not self.is_alive:
            raise ConnectionLostError(f"broker {self.address} closed the connection")
        self._stream.write((_LENGTH.pack(len(frame)), frame))
        try:
            await self._stream.drain()
        except OSError as error:
            raise ConnectionLostError(f"broker {self.address} closed the connection: {reason(error)}") from None

    # --- opening -----------------------------------------------------------------------------------------------------

    async def _begin(self, timeout_s: float) -> None:
        try:
            await self._negotiate(timeout_s)
        except ConnectionLostError:
            raise self._denied or UnreachableError(
                f"{self.address} did not answer ApiVersions: it is not a Kafka listener, or {self._likely_cause()}"
            ) from None
        if self._security.sasl is not None:
            await self._authenticate(self._security.sasl)

    def _likely_cause(self) -> str:
        if self._security.tls is None:
            return "it expects TLS (set security.protocol)"
        return "it requires a client certificate that it trusts (set ssl.keystore.location)"

    async def _authenticate(self, credentials: sasl.Credentials) -> None:
        if self.version(apis.SASL_HANDSHAKE) is None:
            raise sasl.sasl_not_enabled_error(self.address)

        async def ask(api: Api, values: Mapping[str, Any]) -> Any:
            return await self._exchange(api, self._request(api, values, None), None)

        lifetime = await sasl.authenticate(ask, credentials, self.address)
        self._renew_at = asyncio.get_running_loop().time() + _RENEW_AFTER * lifetime if lifetime else None

    async def _renew_if_due(self) -> None:
        if self._renew_at is None or self._security.sasl is None:
            return
        if asyncio.get_running_loop().time() < self._renew_at:
            return
        if under_way := [future for future, _ in self._waiting.values()]:
            await asyncio.wait(under_way, timeout=self.timeout_s)
        try:
            await self._authenticate(self._security.sasl)
        except AccessDeniedError:
            self._stream.close()
            raise

    async def _negotiate(self, timeout_s: float) -> None:
        """A broker that does not know our version of ApiVersions answers in version 0, with an error and its range."""
        answer = await self.call(apis.API_VERSIONS, CLIENT, timeout_s=timeout_s, version=apis.API_VERSIONS.high)
        if answer.error_code is ErrorCode.unsupported_version:
            answer = await self.call(apis.API_VERSIONS, {}, timeout_s=timeout_s, version=0)
        if answer.error_code is not ErrorCode.none:
            raise ConnectionLostError(f"{self.address} answered ApiVersions with {answer.error_code.name.upper()}")
        self.versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}

    async def _read(self) -> None:
        why = "it closed the connection"
        try:
            while True:
                self._deliver(await self._stream.read_frame())
                self._answers += 1
        except FrameLengthError as error:
            why = f"it sent a frame of {_LENGTH.unpack(error.head)[0]} bytes"
            if not self._answers and error.head.startswith(_TLS_ALERT):
                why = "it speaks TLS"
                self._denied = AccessDeniedError(
                    f"{self.address} expects TLS: set security.protocol to SSL or SASL_SSL"
                )
        except EndOfStreamError:
            if self._answers == 1 and self._security.sasl is None:
                why = "it closed the connection at the first request: it probably requires authentication "
                why += "(set security.protocol)"
        except ssl.SSLError as error:
            why = reason(error)
            if not self._answers:  # with TLS 1.3 a broker rejects our certificate after the handshake
                self._denied = AccessDeniedError(tls.describe_alert(error, self.address))
        except OSError as error:
            why = reason(error)
        finally:
            self._stream.close()
            self._give_up(why)

    def _deliver(self, frame: memoryview) -> None:
        future, request_type = self._waiting.get(codec.read_correlation_id(frame), (None, None))
        if future is None or future.done():
            return
        try:
            future.set_result(_decode(frame, request_type))
        except MalformedFrameError as error:
            future.set_exception(ConnectionLostError(f"broker {self.address} sent a malformed answer: {error}"))

    def _give_up(self, reason: str) -> None:
        for future, _ in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionLostError(f"lost the connection to broker {self.address}: {reason}"))


def _decode(frame: memoryview, request_type: Any) -> Any:
    """The records of a Fetch response are parts of the frame, not copies."""
    if (request_type.__api_key__, request_type.__version__) == (handwritten_fetch.KEY, handwritten_fetch.VERSION):
        response = handwritten_fetch.decode_response(frame)
        if response is not None:
            return response
    if request_type.__api_key__ == apis.API_VERSIONS.key:
        code = int.from_bytes(frame[4:6], "big", signed=True)
        if code == ErrorCode.unsupported_version.value:
            request_type = codec.request_type(apis.API_VERSIONS.key, 0)
    return codec.decode_response(bytes(frame), request_type)[1]
