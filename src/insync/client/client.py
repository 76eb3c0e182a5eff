"""The client: knows the brokers of a cluster, keeps a connection to each, and retries while leaders change.

The bootstrap addresses are used at the start only: the first broker that answers names all of them. Connections are
opened on demand and kept. `retry` repeats what fails with a retriable error until the timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar
from uuid import UUID

from insync.client import apis
from insync.client.apis import Api
from insync.client.connection import Connection
from insync.client.errors import (
    AddressError,
    ClientError,
    ConnectionLostError,
    NoAnswerError,
    NoBrokerError,
    UnreachableError,
    is_retriable,
    raise_for_error,
)
from insync.client.model import NO_NODE, Broker, ClusterInfo, Partition, Topic
from insync.client.settings import DEFAULT_SETTINGS, ClientSettings
from insync.wire.types import ZERO_UUID

T = TypeVar("T")

ATTEMPTS = 3
"""Of a request within the client's timeout."""
PROBE_TIMEOUT_S = 1.0
"""How long `switch_broker` waits for one broker before it tries the next."""


class LeaderCache:
    """The newest known leader of every partition.

    Brokers learn of elections at different times, and a broker that is cut off does not learn of them at all: it keeps
    answering with the previous leader, perhaps itself. The leader epochs show which of two answers is older (F3).
    Topics are identified by id, because a topic that is deleted and created again starts with epoch 0.
    """

    __slots__ = ("_newest",)

    def __init__(self) -> None:
        self._newest: dict[tuple[UUID, int], Partition] = {}

    def note_epoch(self, topic_id: UUID, index: int, epoch: int) -> None:
        """Note that a leader of this epoch exists, even if it is unknown which broker it is."""
        known = self._newest.get((topic_id, index))
        if epoch > (-1 if known is None else known.leader_epoch):
            unknown = Partition(index=index, leader=NO_NODE, leader_epoch=epoch, replicas=(), isr=())
            self._newest[topic_id, index] = unknown

    def with_newest_leaders(self, topic: Topic) -> Topic:
        """The topic with each partition replaced by a newer one that is known."""
        if topic.id == ZERO_UUID:  # a cluster without topic ids: epochs may have started again
            return topic
        return replace(topic, partitions=tuple(self._newer(topic.id, partition) for partition in topic.partitions))

    def _newer(self, topic_id: UUID, partition: Partition) -> Partition:
        known = self._newest.get((topic_id, partition.index))
        if known is not None and partition.leader_epoch < known.leader_epoch:
            return known
        self._newest[topic_id, partition.index] = partition
        return partition


class Client:
    """Use as `async with Client.connect(...)`, or call `close`.

    `brokers`, `controller` and `cluster_id` are those of the last Metadata answer.
    """

    __slots__ = (
        "_bootstrap",
        "_connections",
        "_opening",
        "brokers",
        "client_id",
        "cluster_id",
        "controller",
        "leaders",
        "retry_connect",
        "settings",
        "timeout_s",
    )

    def __init__(
        self,
        bootstrap: Sequence[tuple[str, int]],
        timeout_s: float = 10.0,
        client_id: str = "insync",
        settings: ClientSettings = DEFAULT_SETTINGS,
        *,
        retry_connect: bool = False,
    ) -> None:
        self.timeout_s = timeout_s
        self.retry_connect = retry_connect
        self.settings = settings
        self.client_id = settings.client_id or client_id
        self.brokers: dict[int, Broker] = {}
        self.cluster_id = ""
        self.controller = NO_NODE
        self.leaders = LeaderCache()
        self._bootstrap = tuple(bootstrap)
        self._connections: dict[tuple[str, int], Connection] = {}
        self._opening: dict[tuple[str, int], asyncio.Lock] = {}

    @staticmethod
    def connect(
        bootstrap: str,
        *,
        timeout_s: float = 10.0,
        client_id: str = "insync",
        settings: ClientSettings = DEFAULT_SETTINGS,
        retry_connect: bool = False,
    ) -> Client:
        """Nothing is opened before `async with`. The settings take precedence over `timeout_s` and `client_id`.

        With `retry_connect`, the first connection is retried like everything else; otherwise it fails at once.
        """
        return Client(parse_bootstrap(bootstrap), timeout_s, client_id, settings, retry_connect=retry_connect)

    async def __aenter__(self) -> Client:
        try:
            await (self.retry(self.refresh) if self.retry_connect else self.refresh())
        except ClientError:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            await connection.close()

    async def refresh(self) -> None:
        """Fetch the list of brokers."""
        self.update_brokers(await self.call_any(apis.METADATA, BROKERS_ONLY))

    def update_brokers(self, answer: Any) -> None:
        """Take the brokers from an answer to Metadata."""
        self.brokers = {b.node_id: _broker(b.node_id, b) for b in answer.brokers}
        self.cluster_id = answer.cluster_id or ""
        self.controller = answer.controller_id

    def add_brokers(self, brokers: Iterable[Broker]) -> None:
        """Add brokers that another client knows. Those in an answer to Metadata take precedence."""
        for broker in brokers:
            self.brokers.setdefault(broker.id, broker)

    # --- requests ---

    @property
    def attempt_timeout_s(self) -> float:
        """How long to wait for an answer if the request can be repeated, here or at another broker."""
        return self.timeout_s / ATTEMPTS if self.settings.request_timeout_s is None else self.settings.request_timeout_s

    async def call_any(self, api: Api, values: Mapping[str, Any]) -> Any:
        """Send a request to any broker; if the first does not answer in time, try another."""
        connection = await self.any_connection()
        try:
            return await connection.call(api, values, timeout_s=self.attempt_timeout_s)
        except ConnectionLostError:
            await self.switch_broker()
        connection = await self.any_connection()
        return await connection.call(api, values)

    async def call_broker(
        self, broker: int, api: Api, values: Mapping[str, Any], *, timeout_s: float | None = None
    ) -> Any:
        connection = await self.broker_connection(broker)
        return await connection.call(api, values, timeout_s=timeout_s)

    async def call_controller(self, api: Api, values: Mapping[str, Any], *, timeout_s: float | None = None) -> Any:
        """Send a request to the controller. With a KRaft quorum, Metadata names a broker that forwards it."""
        if self.controller in self.brokers:
            return await self.call_broker(self.controller, api, values, timeout_s=timeout_s)
        connection = await self.any_connection()
        return await connection.call(api, values, timeout_s=timeout_s)

    async def retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat `attempt` until it succeeds, fails with an error that is not retriable, or the timeout is over."""
        settings = self.settings
        timeout_s = self.timeout_s if settings.api_timeout_s is None else settings.api_timeout_s
        deadline = asyncio.get_running_loop().time() + timeout_s
        failures = 0
        while True:
            try:
                return await attempt()
            except ClientError as error:
                failures += 1
                backoff_s = settings.backoff_s(failures)
                if not is_retriable(error) or asyncio.get_running_loop().time() + backoff_s > deadline:
                    raise
            await asyncio.sleep(backoff_s)
            await self.switch_broker()

    async def switch_broker(self) -> None:
        """Fetch the list of brokers from another broker, if one answers soon, and prefer that broker from now on.

        The previous one may have outdated metadata, or hang.
        """
        addresses = self._addresses()
        previous = next((address for address, known in self._connections.items() if known.is_alive), None)
        start = addresses.index(previous) + 1 if previous in addresses else 0
        for address in (*addresses[start:], *addresses[:start]):
            if address == previous:
                continue
            try:
                async with asyncio.timeout(PROBE_TIMEOUT_S):
                    connection = await self._connection(*address)
                    answer = await connection.call(apis.METADATA, BROKERS_ONLY)
            except (ClientError, TimeoutError):
                continue
            self.update_brokers(answer)
            self._connections = {address: connection} | {a: c for a, c in self._connections.items() if a != address}
            return
        with suppress(NoAnswerError):  # the next attempt reports it
            connection = await self.any_connection()
            self.update_brokers(await connection.call(apis.METADATA, BROKERS_ONLY))

    async def describe_cluster(self) -> ClusterInfo:
        """The answer to DescribeCluster, or to Metadata if the broker does not serve it."""
        connection = await self.any_connection()
        version = connection.version(apis.DESCRIBE_CLUSTER)
        if version is None:
            await self.refresh()
            return ClusterInfo(
                cluster_id=self.cluster_id,
                controller=self.controller,
                brokers=tuple(self.brokers[b] for b in sorted(self.brokers)),
                includes_fenced=False,
            )
        answer = await connection.call(apis.DESCRIBE_CLUSTER, DESCRIBE_BROKERS)
        raise_for_error(answer.error_code, "describing the cluster", answer.error_message)
        brokers = sorted((_broker(b.broker_id, b) for b in answer.brokers), key=lambda broker: broker.id)
        return ClusterInfo(
            cluster_id=answer.cluster_id,
            controller=answer.controller_id,
            brokers=tuple(brokers),
            includes_fenced=version >= 2,
        )

    # --- connections ---

    async def any_connection(self) -> Connection:
        for connection in self._connections.values():
            if connection.is_alive:
                return connection
        failures: list[str] = []
        for host, port in self._addresses():
            try:
                return await self._connection(host, port)
            except UnreachableError as error:
                failures.append(str(error))
        raise NoBrokerError(f"no broker can be reached: {'; '.join(failures)}. Is the cluster running?")

    async def broker_connection(self, broker: int) -> Connection:
        if broker not in self.brokers:
            await self.refresh()
        known = self.brokers.get(broker)
        if known is None:
            raise UnreachableError(f"broker {broker} is not in the cluster: it is stopped, fenced or does not exist")
        return await self._connection(known.host, known.port)

    def _addresses(self) -> list[tuple[str, int]]:
        known = [(broker.host, broker.port) for broker in self.brokers.values()]
        return list(dict.fromkeys((*known, *self._bootstrap)))

    async def _connection(self, host: str, port: int) -> Connection:
        async with self._opening.setdefault((host, port), asyncio.Lock()):
            known = self._connections.get((host, port))
            if known is not None and known.is_alive:
                return known
            settings = self.settings
            opened = await Connection.open(
                host,
                port,
                client_id=self.client_id,
                timeout_s=self.timeout_s if settings.request_timeout_s is None else settings.request_timeout_s,
                security=settings.security,
                connect_timeout_s=self.attempt_timeout_s
                if settings.connect_timeout_s is None
                else settings.connect_timeout_s,
            )
            self._connections[host, port] = opened
            return opened


NO_METADATA_EXTRAS = {
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}
BROKERS_ONLY = {"topics": (), **NO_METADATA_EXTRAS}
DESCRIBE_BROKERS = {
    "include_cluster_authorized_operations": False,
    "endpoint_type": 1,
    "include_fenced_brokers": True,
}


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """`host:port[,host:port...]`; IPv6 addresses in brackets."""
    addresses = []
    for part in (part.strip() for part in text.split(",")):
        if "://" in part:
            plain = part.partition("://")[2].rstrip("/")
            raise AddressError(f"'{part}' is not a broker address: write it without a scheme, {plain or 'HOST:PORT'}")
        host, colon, port = part.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise AddressError(f"'{part}' is not a broker address: write HOST:PORT, such as localhost:9092")
        addresses.append((host, int(port)))
    return addresses


def _broker(broker_id: int, entry: Any) -> Broker:
    return Broker(
        id=broker_id, host=entry.host, port=entry.port, rack=entry.rack, fenced=getattr(entry, "is_fenced", False)
    )
