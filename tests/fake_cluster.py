"""A scripted cluster for tests of the client: real sockets, real frames, and state that a test sets.

Every broker listens on its own port. A thread runs all of them, so that a command under test can run its own event
loop. Requests are answered in their own version, if it is in the ranges that the test lets the brokers advertise.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from insync.client import apis
from insync.client.apis import Api
from insync.client.request_builder import build_request
from insync.wire import codec
from insync.wire.errors import ErrorCode
from insync.wire.types import ms
from tests import fake_group_answers  # noqa: F401  adds its handlers
from tests.fake_answers import HANDLERS
from tests.fake_state import FakeState

T = TypeVar("T")

EVERY_API = tuple(api for api in vars(apis).values() if isinstance(api, Api))
ALL_VERSIONS = {api.key: (api.low, api.high) for api in EVERY_API}
"""By API key: what the client knows."""


class FakeCluster(FakeState):
    """Runs while it is used as a context manager."""

    def __init__(self, brokers: int = 3, versions: dict[int, tuple[int, int]] | None = None) -> None:
        super().__init__(brokers, dict(ALL_VERSIONS if versions is None else versions))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._servers: dict[int, asyncio.Server] = {}
        self._writers: dict[int, list[asyncio.StreamWriter]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def __enter__(self) -> FakeCluster:
        self._thread.start()
        for broker in self.ids:
            self.ports[broker] = self._call(self._listen(broker))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in self.ids:
            self.stop(broker)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def stop(self, broker: int) -> None:
        """Close a broker's listener and connections; it stays in the metadata."""
        self._call(self._stop(broker))

    def start(self, broker: int) -> None:
        """Listen again on the same port."""
        self._call(self._listen(broker, self.ports[broker]))

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _listen(self, broker: int, port: int = 0) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._writers.setdefault(broker, []).append(writer)
            await self._serve(broker, reader, writer)

        self._servers[broker] = await asyncio.start_server(serve, "127.0.0.1", port)
        return int(self._servers[broker].sockets[0].getsockname()[1])

    async def _stop(self, broker: int) -> None:
        if broker in self._servers:
            self._servers.pop(broker).close()
        for writer in self._writers.pop(broker, []):
            writer.close()
        await asyncio.sleep(0)

    async def _serve(self, broker: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                if broker in self.silent:
                    continue
                answer = self._answer(broker, frame)
                if answer is None:
                    break
                writer.write(len(answer).to_bytes(4) + answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    def _answer(self, broker: int, frame: bytes) -> bytes | None:
        header, _ = codec.read_request_header(frame)
        low, high = self.versions.get(header.api_key, (1, 0))
        version = header.api_version
        if not low <= version <= high:
            return self._unsupported(header) if header.api_key == apis.API_VERSIONS.key else None
        _, request = codec.decode_request(frame)
        name = next(api.name for api in EVERY_API if api.key == header.api_key)
        self.requests.append((broker, name, version))
        if callback := self.before_answer.pop(name, None):
            callback(self)
        errors = self.next_errors.get(name, [])
        error = errors.pop(0) if errors else ErrorCode.none
        common = {"error_code": error, "error_message": None, "throttle_time": ms(0)}
        values = {**common, **HANDLERS[name](self, broker, version, request)}
        return codec.encode_response(
            build_request(codec.response_type(header.api_key, version), values), header.correlation_id
        )

    def _unsupported(self, header: codec.RequestHeader) -> bytes:
        key = apis.API_VERSIONS.key
        low, high = self.versions[key]
        values = {
            "error_code": ErrorCode.unsupported_version,
            "api_keys": [{"api_key": key, "min_version": low, "max_version": high}],
        }
        return codec.encode_response(build_request(codec.response_type(key, 0), values), header.correlation_id)
