"""Shared by the benchmarks: nodes without sockets, tables, and the typical time of an operation.

A `Rig` delivers effects between a few nodes immediately and in order, and measures the time that each node spends in
`Node.step`. Times of short operations are first deciles: on a shared machine the mean says more about the neighbours.
"""

from __future__ import annotations

import random
import statistics
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from insync.controller.config import ControllerConfig
from insync.node.config import BROKER, CONTROLLER, AuthorizerConfig, NodeConfig
from insync.node.node import Node
from insync.sansio import Effect, Event, Message, Reply, Request, Response, Send, Sync, Synced, Timer, WriteFile
from insync.storage.disk import Disk, write_atomically
from insync.wire import batch
from insync.wire.messages import create_topics, produce
from insync.wire.types import ms

CLUSTER_ID = "insync-bench"
HOUR_MS = 3_600_000


class Rig:
    """Node 1 is broker and controller, the only voter; the others are brokers."""

    def __init__(self, disks: Sequence[Disk], authorizer: AuthorizerConfig | None = None) -> None:
        self.now = 0
        self.spent: defaultdict[int, float] = defaultdict(float)
        self.answers: dict[int, Message] = {}
        self.nodes: dict[int, Node] = {}
        self._disks = {number + 1: disk for number, disk in enumerate(disks)}
        self.paused: set[int] = set()
        self._queue: deque[tuple[int, Event]] = deque()
        self._held: list[tuple[int, Event]] = []
        self._asked: dict[tuple[int, int], tuple[int, Send]] = {}
        self._tokens = 0
        for node_id, disk in self._disks.items():
            self.nodes[node_id] = node = Node(_config(node_id, authorizer), disk, random.Random(node_id), 0)
            self.carry(node_id, node.start(0))

    def ask(self, node_id: int, request: Message) -> int:
        """Returns the token under which the response will be in `answers`."""
        token = self.new_token()
        self._queue.append((node_id, Request(token, request)))
        return token

    def new_token(self) -> int:
        self._tokens += 1
        return self._tokens

    def deliver_all(self) -> None:
        """Deliver until nothing is under way. Events of paused nodes are held until `resume`."""
        queue = self._queue
        while queue:
            node_id, event = queue.popleft()
            if node_id in self.paused:
                self._held.append((node_id, event))
            else:
                self.carry(node_id, self.step(node_id, event))

    def step(self, node_id: int, event: Event) -> list[Effect]:
        started = time.perf_counter()
        effects = self.nodes[node_id].step(event, self.now)
        self.spent[node_id] += time.perf_counter() - started
        return effects

    def resume(self, node_id: int) -> None:
        self.paused.discard(node_id)
        self._queue.extend(held for held in self._held if held[0] == node_id)
        self._held = [held for held in self._held if held[0] != node_id]

    def advance(self, by_ms: int) -> None:
        """Let time pass, with every deadline on the way."""
        end = self.now + by_ms
        while True:
            self.deliver_all()
            due, node_id = min(
                (_deadline(node, end), node_id) for node_id, node in self.nodes.items() if node_id not in self.paused
            )
            if due >= end:
                break
            self.now = max(due, self.now)
            self._queue.append((node_id, Timer()))
        self.now = end

    def create_topic(self, name: str, replicas: tuple[int, ...]) -> Any:
        """One partition, led by the first replica; returns it from the controller's image."""
        assignment = create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
        topic = create_topics.CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=(assignment,), configs=()
        )
        self.ask(1, create_topics.CreateTopicsRequest(topics=(topic,), timeout=ms(1_000), validate_only=False))
        self.advance(1_000)
        return self.nodes[1].image.find(name, 0)

    def carry(self, node_id: int, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                token = self.ask(effect.peer, effect.request)
                self._asked[effect.peer, token] = (node_id, effect)
            elif isinstance(effect, Reply):
                self._reply(node_id, effect)
            elif isinstance(effect, Sync):
                effect.job.run()
                self._queue.append((node_id, Synced(effect)))
            elif isinstance(effect, WriteFile):
                write_atomically(self._disks[node_id], effect.path, effect.data)

    def _reply(self, node_id: int, effect: Reply) -> None:
        asker = self._asked.pop((node_id, effect.token), None)
        if asker is not None:
            self._queue.append((asker[0], Response(asker[1], effect.response)))
        elif effect.response is not None:
            self.answers[effect.token] = effect.response


def _deadline(node: Node, otherwise: int) -> int:
    deadline = node.next_deadline()
    return otherwise if deadline is None else deadline


def _config(node_id: int, authorizer: AuthorizerConfig | None) -> NodeConfig:
    return NodeConfig(
        node_id=node_id,
        cluster_id=CLUSTER_ID,
        directory_id=UUID(int=node_id),
        voters=(1,),
        roles=(BROKER, CONTROLLER) if node_id == 1 else (BROKER,),
        controller=ControllerConfig(cluster_id=CLUSTER_ID),
        flush_check_interval_ms=HOUR_MS,
        authorizer=authorizer,
    )


def produce_request(topic_id: Any, acks: int, size: int = 16_384) -> produce.ProduceRequest:
    """One batch of sixteen records."""
    records = [batch.NewRecord(None, b"x" * (size // 16 - 16)) for _ in range(16)]
    data = produce.PartitionProduceData(index=0, records=bytes(batch.build(records, timestamp_ms=0)))
    topic = produce.TopicProduceData(topic_id=topic_id, partition_data=(data,))
    return produce.ProduceRequest(acks=acks, timeout=ms(30_000), topic_data=(topic,))


def typical_us(seconds: Sequence[float]) -> float:
    """The first decile: the cost of the code while nothing else uses the core."""
    return statistics.quantiles(seconds, n=10)[0] * 1e6 if len(seconds) > 1 else sum(seconds) * 1e6


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print aligned: the first column to the left, numbers to the right."""
    cells = [[_cell(value) for value in row] for row in (columns, *rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(columns))]
    print(f"\n{title}")
    for row in cells:
        first = row[0].ljust(widths[0])
        print("  " + "  ".join([first, *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]))


def _cell(value: object) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
