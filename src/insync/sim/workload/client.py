"""What simulated clients share: a place on the network, a cache of partition leaders, and a rhythm.

A client learns leaders from Metadata responses of random brokers, so after a failover its cache is as stale as a real
client's, until a broker refuses its request.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

from insync.metadata.partition import PartitionKey
from insync.properties.history import History
from insync.sansio import Message, OnResponse, Send
from insync.sim.engine.connection import Connection
from insync.sim.engine.engine import Engine
from insync.sim.engine.network import Network
from insync.sim.plans.plan import ClientPlan
from insync.wire.errors import ErrorCode
from insync.wire.messages import metadata

CHANNEL = "client"


class Client:
    """An endpoint that only sends requests; it sends nothing new once `active` is False."""

    def __init__(
        self, client_id: int, network: Network, rng: random.Random, brokers: tuple[int, ...], timeout_ms: int
    ) -> None:
        self.id = client_id
        self.generation = 1
        self.alive = True
        self.powered_off = False
        self.active = True
        self.network = network
        self.engine: Engine = network.engine
        self.rng = rng
        self.brokers = brokers
        self.timeout_ms = timeout_ms
        network.attach(self)

    def ask(
        self, node: int, request: Message, on_response: OnResponse, *, one_way: bool = False, channel: str = CHANNEL
    ) -> None:
        self.network.send(self.id, Send(node, channel, request, on_response, self.timeout_ms), one_way=one_way)

    def ask_random_broker(self, request: Message, on_response: OnResponse) -> None:
        self.ask(self.rng.choice(self.brokers), request, on_response)

    def later(self, delay_ms: int, action: Callable[..., None], *args: Any) -> None:
        """With a little jitter, so that clients do not run in lockstep."""
        self.engine.call_later(delay_ms * 1_000 + self.rng.randrange(1_000), action, *args)

    def on_request(self, connection: Connection, correlation: int, request: Message) -> None:
        raise TypeError("clients do not accept requests")

    def on_response(self, send: Send, response: Message | None) -> None:
        send.on_response(response, self.engine.now)

    def on_peer_lost(self, peer: int) -> None:
        pass


class Leader:
    """The leader of a partition, as far as a client knows."""

    __slots__ = ("epoch", "node", "topic")

    def __init__(self, topic: str, node: int, epoch: int) -> None:
        self.topic = topic
        self.node = node
        self.epoch = epoch


class MetadataCache:
    """The partitions and their leaders, from a client's last Metadata responses."""

    def __init__(self, client: Client, topics: tuple[str, ...], refresh_ms: int = 700) -> None:
        self.leaders: dict[PartitionKey, Leader] = {}
        self._client = client
        self._topics = topics
        self._refresh_ms = refresh_ms
        self._asking = False
        self._led: list[PartitionKey] | None = None

    def start(self) -> None:
        self.refresh()
        self._client.later(self._refresh_ms if self.leaders else 150, self._tick)

    def _tick(self) -> None:
        if self._client.active:
            self.start()

    def refresh(self) -> None:
        """Send a Metadata request, unless one is in flight."""
        if self._asking:
            return
        self._asking = True
        topics = tuple(metadata.MetadataRequestTopic(topic_id=None, name=name) for name in self._topics)
        request = metadata.MetadataRequest(
            topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        self._client.ask_random_broker(request, self._on_metadata)

    def _on_metadata(self, response: Message | None, _now: int) -> None:
        self._asking = False
        if response is None:
            return
        self._led = None
        for topic in response.topics:
            if topic.error_code is ErrorCode.none and topic.topic_id is not None:
                self._drop_older_ids(topic.name, topic.topic_id)
                for partition in topic.partitions:
                    self._learn(topic, partition)

    def _drop_older_ids(self, name: str, topic_id: UUID) -> None:
        for key in [k for k, leader in self.leaders.items() if leader.topic == name and k[0] != topic_id]:
            del self.leaders[key]

    def _learn(self, topic: Any, partition: Any) -> None:
        key = (topic.topic_id, partition.partition_index)
        known = self.leaders.get(key)
        if known is None or partition.leader_epoch >= known.epoch:
            self.leaders[key] = Leader(topic.name, partition.leader_id, partition.leader_epoch)

    def pick_partition(self) -> PartitionKey | None:
        """A random partition that has a leader."""
        if self._led is None:
            self._led = [key for key, leader in self.leaders.items() if leader.node >= 0]
        return self._client.rng.choice(self._led) if self._led else None


class Worker:
    """Does its work at the interval of its plan, and records the results."""

    def __init__(self, client: Client, plan: ClientPlan, history: History, topics: tuple[str, ...]) -> None:
        self.client = client
        self._plan = plan
        self._history = history
        self._cache = MetadataCache(client, topics)

    def start(self) -> None:
        self._cache.start()
        self._tick()

    def _tick(self) -> None:
        if self.client.active:
            self.client.later(self._plan.every_ms, self._tick)
            self._work()

    def _work(self) -> None:
        raise NotImplementedError
