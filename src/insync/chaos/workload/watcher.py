"""Lists the end offset of every partition again and again, each time with the leader epoch it believes in.

It trusts any broker about who leads, even one that is cut off: a leader that was replaced without learning of it is
asked in its own epoch. It may be outdated there, but its answers must not go back.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from insync.chaos.workload.load import Load, LoadThread, Tally
from insync.client import apis
from insync.client.apis import Api
from insync.client.client import NO_METADATA_EXTRAS, parse_bootstrap
from insync.client.connection import Connection
from insync.client.errors import ClientError, ErrorCode
from insync.client.offsets import CONSUMER, LATEST, READ_UNCOMMITTED
from insync.history.history_file import LIST, Event, now
from insync.wire.types import ZERO_UUID, ms

INTERVAL_S = 0.05
TIMEOUT_S = 1.0

Address = tuple[str, int]
Leader = tuple[Address, int]
"""(address, leader epoch)"""


class LoadWatcher(LoadThread):
    def __init__(self, load: Load, tally: Tally) -> None:
        super().__init__("watcher", load, tally)
        self._rng = random.Random(f"{load.seed}/watcher")

    def work(self) -> None:
        asyncio.run(self._watch())

    async def _watch(self) -> None:
        async with TopicQueries(self.load) as queries:
            while not self.stopping.is_set():
                broker = self._rng.choice(parse_bootstrap(self.load.bootstrap))
                for partition, leader in (await queries.leaders(broker)).items():
                    await self._record_end(queries, partition, leader)
                await asyncio.sleep(INTERVAL_S)

    async def _record_end(self, queries: TopicQueries, partition: int, leader: Leader) -> None:
        started = now()
        end = await queries.end_offset(partition, leader)
        if end is not None:
            where = (self.name, self.load.topic, partition)
            self.tally.record(Event(LIST, now(), *where, started=started, offset=end, epoch=leader[1]))


def list_end_offsets(load: Load, timeout_s: float) -> dict[int, tuple[int, int]]:
    """(end offset, leader epoch) of every partition, as listed by its newest leader."""

    async def list_all() -> dict[int, tuple[int, int]]:
        ends: dict[int, tuple[int, int]] = {}
        async with TopicQueries(load) as queries, asyncio.timeout(timeout_s):
            while len(ends) < load.partitions:
                for partition, leader in (await queries.newest_leaders(load.bootstrap)).items():
                    end = await queries.end_offset(partition, leader)
                    if end is not None:
                        ends[partition] = (end, leader[1])
                await asyncio.sleep(INTERVAL_S)
        return ends

    return asyncio.run(list_all())


class TopicQueries:
    """Requests about one topic to single brokers; a broker that does not answer in time has no answer."""

    def __init__(self, load: Load) -> None:
        self._topic = load.topic
        self._login = load.login
        self._connections: dict[Address, Connection] = {}

    async def __aenter__(self) -> TopicQueries:
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self._connections.values():
            await connection.close()

    async def leaders(self, broker: Address) -> dict[int, Leader]:
        """The leader of each partition as this broker sees it."""
        topic = {"topic_id": ZERO_UUID, "name": self._topic}
        answer = await self._call(broker, apis.METADATA, {"topics": [topic], **NO_METADATA_EXTRAS})
        if answer is None:
            return {}
        brokers = {entry.node_id: (entry.host, entry.port) for entry in answer.brokers}
        return {
            entry.partition_index: (brokers[entry.leader_id], entry.leader_epoch)
            for entry in answer.topics[0].partitions
            if entry.leader_id in brokers
        }

    async def newest_leaders(self, bootstrap: str) -> dict[int, Leader]:
        newest: dict[int, Leader] = {}
        for address in parse_bootstrap(bootstrap):
            for partition, leader in (await self.leaders(address)).items():
                newest[partition] = max(newest.get(partition, leader), leader, key=lambda known: known[1])
        return newest

    async def end_offset(self, partition: int, leader: Leader) -> int | None:
        """None if the leader does not answer, or rejects this epoch."""
        address, epoch = leader
        entry = {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": LATEST}
        values = {
            "replica_id": CONSUMER,
            "isolation_level": READ_UNCOMMITTED,
            "topics": [{"name": self._topic, "partitions": [entry]}],
            "timeout": ms(int(TIMEOUT_S * 1_000)),
        }
        answer = await self._call(address, apis.LIST_OFFSETS, values)
        if answer is None:
            return None
        (listed,) = (partition_entry for topic in answer.topics for partition_entry in topic.partitions)
        return int(listed.offset) if listed.error_code is ErrorCode.none else None

    async def _call(self, address: Address, api: Api, values: dict[str, Any]) -> Any:
        connection = self._connections.get(address)
        try:
            if connection is None or not connection.is_alive:
                security = self._login.client_settings.security
                connection = await Connection.open(
                    *address, client_id="watcher", timeout_s=TIMEOUT_S, security=security
                )
                self._connections[address] = connection
            return await connection.call(api, values)
        except ClientError:
            if connection is not None:
                await connection.close()
            return None
