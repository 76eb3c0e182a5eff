"""Asks for the end of every partition, again and again, each time naming the leader epoch that it believes in.

It takes the word of any broker for who leads, also of one that has been cut off: a leader that was replaced without
hearing of it is asked in its own epoch, where it may be behind the times, and must not go back.
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

EVERY_S = 0.05
ANSWER_S = 1.0

Address = tuple[str, int]
Leader = tuple[Address, int]
"""(where it listens, leader epoch)"""


class LoadWatcher(LoadThread):
    def __init__(self, load: Load, tally: Tally) -> None:
        super().__init__("watcher", load, tally)
        self._rng = random.Random(f"{load.seed}/watcher")

    def work(self) -> None:
        asyncio.run(self._watch())

    async def _watch(self) -> None:
        async with Asker(self.load.topic) as asker:
            while not self.stopping.is_set():
                told = self._rng.choice(parse_bootstrap(self.load.bootstrap))
                for partition, leader in (await asker.leaders(told)).items():
                    await self._look(asker, partition, leader)
                await asyncio.sleep(EVERY_S)

    async def _look(self, asker: Asker, partition: int, leader: Leader) -> None:
        started = now()
        end = await asker.end(partition, leader)
        if end is not None:
            where = (self.name, self.load.topic, partition)
            self.tally.record(Event(LIST, now(), *where, started=started, offset=end, epoch=leader[1]))


def ends(load: Load, timeout_s: float) -> dict[int, tuple[int, int]]:
    """Of every partition its end offset and the leader epoch in which it was told, by the newest leader there is."""

    async def ask() -> dict[int, tuple[int, int]]:
        found: dict[int, tuple[int, int]] = {}
        async with Asker(load.topic) as asker, asyncio.timeout(timeout_s):
            while len(found) < load.partitions:
                for partition, leader in (await asker.newest_leaders(load.bootstrap)).items():
                    end = await asker.end(partition, leader)
                    if end is not None:
                        found[partition] = (end, leader[1])
                await asyncio.sleep(EVERY_S)
        return found

    return asyncio.run(ask())


class Asker:
    """Questions about one topic; whoever does not answer soon is told apart from nobody."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._connections: dict[Address, Connection] = {}

    async def __aenter__(self) -> Asker:
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self._connections.values():
            await connection.close()

    async def leaders(self, told: Address) -> dict[int, Leader]:
        """By partition, as the broker at `told` sees it."""
        topic = {"topic_id": ZERO_UUID, "name": self._topic}
        answer = await self._ask(told, apis.METADATA, {"topics": [topic], **NO_METADATA_EXTRAS})
        if answer is None:
            return {}
        brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        return {
            each.partition_index: (brokers[each.leader_id], each.leader_epoch)
            for each in answer.topics[0].partitions
            if each.leader_id in brokers
        }

    async def newest_leaders(self, bootstrap: str) -> dict[int, Leader]:
        newest: dict[int, Leader] = {}
        for address in parse_bootstrap(bootstrap):
            for partition, leader in (await self.leaders(address)).items():
                newest[partition] = max(newest.get(partition, leader), leader, key=lambda each: each[1])
        return newest

    async def end(self, partition: int, leader: Leader) -> int | None:
        """None if it does not answer, or not to those who ask in this epoch."""
        address, epoch = leader
        asked = {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": LATEST}
        values = {
            "replica_id": CONSUMER,
            "isolation_level": READ_UNCOMMITTED,
            "topics": [{"name": self._topic, "partitions": [asked]}],
            "timeout": ms(int(ANSWER_S * 1_000)),
        }
        answer = await self._ask(address, apis.LIST_OFFSETS, values)
        if answer is None:
            return None
        (told,) = (each for topic in answer.topics for each in topic.partitions)
        return int(told.offset) if told.error_code is ErrorCode.none else None

    async def _ask(self, address: Address, api: Api, values: dict[str, Any]) -> Any:
        connection = self._connections.get(address)
        try:
            if connection is None or not connection.is_alive:
                connection = await Connection.open(*address, client_id="watcher", timeout_s=ANSWER_S)
                self._connections[address] = connection
            return await connection.call(api, values)
        except ClientError:
            if connection is not None:
                await connection.close()
            return None
