"""One connection to one broker: negotiates versions first, then any number of requests in flight.

A reader task hands each answer to whoever waits for its correlation id. When the connection ends, everybody who still
waits is told so, with a sentence that names the broker.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Mapping
from struct import Struct
from typing import Any

from insync.client import apis
from insync.client.apis import Api
from insync.client.errors import ConnectionLost, ErrorCode, Unreachable, Unsupported
from insync.client.loose import make
from insync.wire import codec
from insync.wire.errors import MalformedFrame

_LENGTH = Struct(">i")
_LARGEST_FRAME = 1 << 29

CLIENT = {"client_software_name": "insync", "client_software_version": "1"}


class Connection:
    __slots__ = ("_ids", "_reader", "_reading", "_waiting", "_writer", "address", "client_id", "timeout", "versions")

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str, client_id: str, timeout: float
    ) -> None:
        self.address = address
        self.client_id = client_id
        self.timeout = timeout
        self.versions: dict[int, tuple[int, int]] = {}
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count(1)
        self._waiting: dict[int, tuple[asyncio.Future[Any], Any]] = {}
        self._reading = asyncio.create_task(self._read())

    @staticmethod
    async def open(host: str, port: int, *, client_id: str = "insync", timeout: float = 10.0) -> Connection:
        address = f"{host}:{port}"
        try:
            async with asyncio.timeout(timeout):
                reader, writer = await asyncio.open_connection(host, port)
        except TimeoutError:
            raise Unreachable(f"{address} did not accept a connection within {timeout:g} s") from None
        except OSError as error:
            raise Unreachable(f"no connection to {address}: {_reason(error)}") from None
        connection = Connection(reader, writer, address, client_id, timeout)
        try:
            await connection._negotiate()
        except ConnectionLost:
            await connection.close()
            raise Unreachable(f"{address} does not say which APIs it serves: it is no Kafka listener") from None
        return connection

    @property
    def alive(self) -> bool:
        return not self._reading.done()

    def version(self, api: Api) -> int | None:
        """The version that both sides know; None if there is none."""
        return apis.newest(api, self.versions.get(api.key))

    async def call(
        self, api: Api, values: Mapping[str, Any], *, timeout: float | None = None, version: int | None = None
    ) -> Any:
        """The broker's answer to one request."""
        request = self._request(api, values, version)
        correlation_id = next(self._ids)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = (future, type(request))
        try:
            await self._send(codec.encode_request(request, correlation_id, self.client_id))
            async with asyncio.timeout(self.timeout if timeout is None else timeout):
                return await future
        except TimeoutError:
            raise ConnectionLost(f"broker {self.address} did not answer {api.name} in time") from None
        finally:
            self._waiting.pop(correlation_id, None)

    async def tell(self, api: Api, values: Mapping[str, Any]) -> None:
        """A request that gets no answer: Produce with acks=0."""
        await self._send(codec.encode_request(self._request(api, values, None), next(self._ids), self.client_id))

    async def close(self) -> None:
        self._reading.cancel()
        self._writer.close()
        await asyncio.gather(self._reading, self._writer.wait_closed(), return_exceptions=True)

    def _request(self, api: Api, values: Mapping[str, Any], version: int | None) -> Any:
        chosen = self.version(api) if version is None else version
        if chosen is None:
            theirs = self.versions.get(api.key)
            known = "does not serve it" if theirs is None else f"serves versions {theirs[0]} to {theirs[1]}"
            raise Unsupported(
                f"this needs {api.name} {api.low} to {api.high}, and the broker at {self.address} {known}"
            )
        return make(codec.request_type(api.key, chosen), values)

    async def _send(self, frame: bytes) -> None:
        if not self.alive:
            raise ConnectionLost(f"broker {self.address} closed the connection")
        self._writer.writelines((_LENGTH.pack(len(frame)), frame))
        try:
            await self._writer.drain()
        except OSError as error:
            raise ConnectionLost(f"broker {self.address} closed the connection: {_reason(error)}") from None

    async def _negotiate(self) -> None:
        """A broker that does not know our version of ApiVersions answers in version 0 with an error and its range."""
        answer = await self.call(apis.API_VERSIONS, CLIENT, version=apis.API_VERSIONS.high)
        if answer.error_code is ErrorCode.unsupported_version:
            answer = await self.call(apis.API_VERSIONS, {}, version=0)
        if answer.error_code is not ErrorCode.none:
            raise ConnectionLost(f"ApiVersions was answered with {answer.error_code.name}")
        self.versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}

    async def _read(self) -> None:
        reason = "it closed the connection"
        try:
            while True:
                (length,) = _LENGTH.unpack(await self._reader.readexactly(4))
                if not 4 <= length <= _LARGEST_FRAME:
                    reason = f"it sent a frame of {length} bytes"
                    return
                self._deliver(await self._reader.readexactly(length))
        except asyncio.IncompleteReadError:
            return
        except OSError as error:
            reason = _reason(error)
        finally:
            self._writer.close()
            self._give_up(reason)

    def _deliver(self, frame: bytes) -> None:
        future, request_type = self._waiting.get(codec.read_correlation_id(frame), (None, None))
        if future is None or future.done():
            return
        try:
            future.set_result(_decode(frame, request_type))
        except MalformedFrame as error:
            future.set_exception(ConnectionLost(f"broker {self.address} sent an answer that makes no sense: {error}"))

    def _give_up(self, reason: str) -> None:
        for future, _ in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionLost(f"broker {self.address} went away: {reason}"))


def _reason(error: OSError) -> str:
    """The system's words; asyncio wraps them, and name lookups number their errors in another way."""
    if error.errno is None or isinstance(error, socket.gaierror):
        return str(error.strerror or error)
    return os.strerror(error.errno)


def _decode(frame: bytes, request_type: Any) -> Any:
    if request_type.__api_key__ == apis.API_VERSIONS.key:
        code = int.from_bytes(frame[4:6], "big", signed=True)
        if code == ErrorCode.unsupported_version.value:
            request_type = codec.request_type(apis.API_VERSIONS.key, 0)
    return codec.decode_response(frame, request_type)[1]
