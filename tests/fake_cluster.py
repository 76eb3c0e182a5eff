"""A scripted cluster for tests of the client: real sockets, real frames, and state that a test sets by hand.

Every broker listens on a port of its own; a thread runs them all, so that a command under test may run its own loop.
Answers are built in whichever version was asked for, within the ranges that the test lets the brokers advertise.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from uuid import UUID

from insync.client import apis
from insync.client.apis import Api
from insync.client.request_builder import build_request
from insync.wire import batch, codec
from insync.wire.errors import ErrorCode
from insync.wire.types import ms
from tests import fake_group_answers  # noqa: F401  adds its answers
from tests.fake_answers import ANSWERS

EVERY_API: dict[int, tuple[int, int]] = {
    api.key: (api.low, api.high) for api in vars(apis).values() if isinstance(api, Api)
}


@dataclass
class FakePartition:
    replicas: list[int]
    leader: int
    isr: list[int]
    epoch: int = 0
    elr: list[int] = field(default_factory=list)
    last_known_elr: list[int] = field(default_factory=list)
    data: bytearray = field(default_factory=bytearray)
    start: int = 0
    hwm: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    """Log ends of replicas that are not where the leader is."""
    last_epochs: dict[int, int] = field(default_factory=dict)
    epoch_ends: dict[int, int] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    refusals: list[ErrorCode] = field(default_factory=list)
    """Errors of the next produces, fetches and questions for offsets, one each."""

    def append(self, records: bytes) -> int:
        stored = bytearray(records)
        base = self.hwm
        batch.stamp(stored, base, self.epoch)
        self.data += stored
        self.hwm = base + batch.read_header(stored).count
        return base


@dataclass
class FakeTopic:
    name: str
    id: UUID
    partitions: list[FakePartition]
    configs: dict[str, str] = field(default_factory=dict)
    internal: bool = False


@dataclass
class FakeGroup:
    state: str = "Empty"
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    members: list[dict[str, Any]] = field(default_factory=list)
    kind: str = "classic"


class FakeCluster:
    """Use as a context manager."""

    def __init__(self, brokers: int = 3, versions: dict[int, tuple[int, int]] | None = None) -> None:
        self.ids = list(range(1, brokers + 1))
        self.versions = dict(EVERY_API if versions is None else versions)
        self.ports: dict[int, int] = {}
        self.fenced: list[int] = []
        self.gone: list[int] = []
        self.topics: dict[str, FakeTopic] = {}
        self.behind: dict[int, dict[str, FakeTopic]] = {}
        """By broker: topics as they were, for one that has not heard what became of them."""
        self.silent: list[int] = []
        """Those that take requests and answer none."""
        self.groups: dict[str, FakeGroup] = {}
        self.broker_configs: dict[int, dict[str, str]] = {}
        self.moving: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
        self.seen: list[tuple[int, str, int]] = []
        self.refuse: dict[str, list[ErrorCode]] = {}
        """Errors of the next requests of an API, at the top of the answer."""
        self.usable_bytes = 90_000
        self.producers = 0
        self.quorum_leader = brokers
        self.before: dict[str, Callable[[FakeCluster], None]] = {}
        """Something to happen before the next answer of an API, once."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._servers: dict[int, asyncio.Server] = {}
        self._writers: dict[int, list[asyncio.StreamWriter]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    @property
    def live(self) -> list[int]:
        return [broker for broker in self.ids if broker not in self.fenced and broker not in self.gone]

    def topic(self, name: str, *replicas: Iterable[int], **configs: str) -> FakeTopic:
        """A topic with one partition for each list of replicas."""
        made = [FakePartition(list(r), next(iter(r)), list(r)) for r in replicas or ((1, 2, 3),)]
        topic = FakeTopic(
            name, UUID(int=1000 + len(self.topics)), made, {k.replace("_", "."): v for k, v in configs.items()}
        )
        self.topics[name] = topic
        return topic

    def new_group(self) -> FakeGroup:
        return FakeGroup()

    def write(self, name: str, partition: int, *values: str, **fields: Any) -> None:
        records = [batch.NewRecord(None, value.encode()) for value in values]
        self.topics[name].partitions[partition].append(batch.build(records, timestamp_ms=1_000, **fields))

    def asked(self, api: Api) -> list[tuple[int, int]]:
        """(broker, version) of each request of one API."""
        return [(broker, version) for broker, name, version in self.seen if name == api.name]

    # --- running ---

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
        """Nobody listens there any more; metadata still tells of it."""
        self._call(self._stop(broker))

    def start(self, broker: int) -> None:
        """It listens again, where it did before."""
        self._call(self._listen(broker, self.ports[broker]))

    def _call(self, work: Any) -> Any:
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
            return self._unsupported(header) if header.api_key == 18 else None
        _, request = codec.decode_request(frame)
        name = next(a.name for a in vars(apis).values() if isinstance(a, Api) and a.key == header.api_key)
        self.seen.append((broker, name, version))
        if happening := self.before.pop(name, None):
            happening(self)
        errors = self.refuse.get(name, [])
        top = {"error_code": errors.pop(0) if errors else ErrorCode.none, "error_message": None, "throttle_time": ms(0)}
        values = {**top, **ANSWERS[name](self, broker, version, request)}
        return codec.encode_response(
            build_request(codec.response_type(header.api_key, version), values), header.correlation_id
        )

    def _unsupported(self, header: codec.RequestHeader) -> bytes:
        low, high = self.versions[18]
        values = {
            "error_code": ErrorCode.unsupported_version,
            "api_keys": [{"api_key": 18, "min_version": low, "max_version": high}],
        }
        return codec.encode_response(build_request(codec.response_type(18, 0), values), header.correlation_id)
