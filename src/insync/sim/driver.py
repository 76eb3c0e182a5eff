"""Drives a simulated cluster by hand: one client, an operator, faults, and time that passes only on request.

Scenarios (`insync.sim.scenario`) and `insync.sim.Simulation` stand on it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from insync.metadata.partition import NO_LEADER, Partition
from insync.properties.history import Acked, Failed, Fingerprint, ListedOffset, Read, Sent
from insync.sansio import Effect, Event, Message, Note, OnResponse
from insync.sim.engine.network import Link
from insync.sim.narration.narrator import describe_note, newest_partition, notes_in_order
from insync.sim.plans.plan import DEFAULT_LATENCY, Action, Latency, NodePlan, Plan, TopicPlan
from insync.sim.run import World
from insync.sim.workload.client import Client
from insync.sim.workload.requests import LATEST, fetch_request, list_offsets_request, produce_request
from insync.wire import batch
from insync.wire.errors import ErrorCode

FIRST_CONTROLLER = 101
CLIENT_ID = -2
CLIENT_TIMEOUT_MS = 5_000
PRODUCE_TIMEOUT_MS = 3_000
WAIT_TIMEOUT_MS = 20_000
PROPAGATION_MS = 100
"""How long metadata takes, at most, to reach every node of a healthy cluster."""
FIRST_RULE = 1_000_000
"""Ids of link faults start here, above those of `Faults`."""


class InvalidOperationError(ValueError):
    """An operation that is not possible; the message says which ones are."""


@dataclass(frozen=True, slots=True)
class ObservedEvent:
    """A note of a node, or a response to a client or operator."""

    time_ms: int
    source: str
    text: str
    note: Note | None = None


@dataclass(slots=True, eq=False)
class SentBatch:
    """A produced batch, kept so that it can be sent again; the last four fields change with each attempt."""

    op: int
    partition: Partition
    values: tuple[bytes, ...]
    data: bytes
    acks: int
    answered: bool = False
    offset: int = -1
    error: ErrorCode = ErrorCode.none
    response_received: bool = False


@dataclass(frozen=True, slots=True)
class FetchedRecord:
    offset: int
    value: bytes
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class FetchResult:
    """What a consumer's fetch returned; `error` is None if there was no response."""

    error: ErrorCode | None
    records: tuple[FetchedRecord, ...] = ()
    high_watermark: int = -1


def plan_cluster(
    brokers: int,
    controllers: int,
    *,
    combined: bool = False,
    seed: int = 0,
    latency: Latency = DEFAULT_LATENCY,
    disk_us: tuple[int, int] = (100, 3_000),
) -> Plan:
    """Nodes 1, 2, ... are brokers, 101, 102, ... controllers; with `combined` every broker is a controller too."""
    broker_ids = range(1, brokers + 1)
    if combined:
        nodes = [NodePlan(node_id=broker, roles=("broker", "controller")) for broker in broker_ids]
    else:
        voters = range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers)
        nodes = [NodePlan(node_id=voter, roles=("controller",)) for voter in voters]
        nodes += [NodePlan(node_id=broker, roles=("broker",)) for broker in broker_ids]
    return Plan(seed=seed, nodes=tuple(nodes), topics=(), clients=(), latency=latency, disk_us=disk_us)


class ClusterDriver:
    """A running cluster. It observes the notes of the nodes; `on_event` gets each event as it happens."""

    def __init__(self, world: World, rng: random.Random, on_event: Callable[[ObservedEvent], None]) -> None:
        self.world = world
        self.observed: list[ObservedEvent] = []
        self.topics: dict[str, int] = {}
        """The topics that were created, with their number of partitions."""
        self.answers: dict[str, str] = {}
        """The last result of each operation, by a label that the caller chose."""
        self._on_event = on_event
        self._rules: dict[str, int] = {}
        self._connections = 0
        self._batches = 0
        self._client = Client(CLIENT_ID, world.network, rng, world.plan.brokers, CLIENT_TIMEOUT_MS)
        world.cluster.observers = (*world.cluster.observers, self)

    def start(self) -> bool:
        """Start every node, and wait until the cluster is complete; False if it is not in time."""
        for node in self.world.plan.nodes:
            self.world.cluster.start(node.node_id)
        brokers = len(self.world.plan.brokers)
        complete = self.wait_until(
            lambda: sum(not broker.fenced for broker in self.registrations().values()) == brokers
        )
        self.advance(PROPAGATION_MS)
        return complete

    # --- observer ----------------------------------------------------------------------------------------------------

    def report(self, source: str, text: str, note: Note | None = None) -> None:
        event = ObservedEvent(self.now_ms, source, text, note)
        self.observed.append(event)
        self._on_event(event)

    def after_step(self, node_id: int, event: Event, effects: list[Effect]) -> None:
        for note in notes_in_order(effects):
            self.report(f"node {node_id}", describe_note(note), note)

    def node_started(self, node_id: int) -> None:
        """The caller started it."""

    def node_ends(self, node_id: int) -> None:
        """The caller ended it."""

    def node_crashed(self, node_id: int, lost: dict[str, tuple[int, int]] | None) -> None:
        for path, (before, after) in sorted((lost or {}).items()):
            if path.endswith(".log") and "__cluster_metadata" not in path:
                self.report(f"node {node_id}", f"{path.split('/')[-2]} lost {before - max(after, 0)} bytes")

    # --- time --------------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.world.engine.now // 1_000

    def advance(self, milliseconds: int) -> None:
        self.world.advance(self.now_ms + milliseconds)

    def wait_until(self, condition: Callable[[], bool], timeout_ms: int = WAIT_TIMEOUT_MS) -> bool:
        """Let time pass until it is true; False after the timeout or a violation."""
        deadline = self.now_ms + timeout_ms
        while not condition():
            if self.now_ms >= deadline or self.world.violation is not None:
                return False
            self.advance(1)
        return True

    # --- what there is -----------------------------------------------------------------------------------------------

    def find_partition(self, name: str) -> Partition | None:
        """The newest metadata of "topic-index" that a running node has; None while none has any."""
        topic, dash, index = name.rpartition("-")
        if not dash or not index.isdigit():
            raise InvalidOperationError(f"'{name}' is not a partition: write TOPIC-INDEX, such as t-0")
        if int(index) >= self.topics.get(topic, 0):
            known = [f"{topic}-{number}" for topic, count in self.topics.items() for number in range(count)]
            raise InvalidOperationError(f"there is no partition {name}: known are {', '.join(known) or 'none'}")
        return newest_partition(self.world.cluster, name)

    def partition(self, name: str) -> Partition:
        partition = self.find_partition(name)
        if partition is None:
            raise InvalidOperationError(f"no running node has metadata of {name} now")
        return partition

    def leader_of(self, name: str) -> int:
        leader = self.partition(name).leader
        if leader == NO_LEADER:
            raise InvalidOperationError(f"{name} has no leader now: name a node with to=NODE or from=NODE")
        return leader

    def node_id(self, word: str) -> int:
        """A node by its number; `controller` is the active one."""
        if word == "controller":
            return self.active_controller()
        if not word.isdigit() or int(word) not in self.world.cluster.hosts:
            known = ", ".join(map(str, self.world.cluster.hosts))
            raise InvalidOperationError(
                f"there is no node '{word}': the nodes are {known}, and 'controller' is the active one"
            )
        return int(word)

    def node_ids(self, word: str) -> tuple[int, ...]:
        """Nodes separated by commas, or all `brokers`, or all `controllers`."""
        groups = {"controllers": self.world.plan.voters, "brokers": self.world.plan.brokers}
        return groups.get(word) or tuple(self.node_id(part) for part in word.split(","))

    def active_controller(self) -> int:
        active = self.world.faults.active_controller()
        if active is None:
            raise InvalidOperationError("no controller is active now")
        return active

    def running_node(self, node_id: int) -> Any:
        node = self.world.cluster.node(node_id)
        if node is None:
            raise InvalidOperationError(f"node {node_id} is down")
        return node

    def registrations(self) -> dict[int, Any]:
        """The registered brokers, by the newest metadata that a running node has."""
        images = [node.image for node in self.world.cluster.nodes()]
        return max(images, key=lambda image: image.offset).brokers if images else {}

    # --- faults ------------------------------------------------------------------------------------------------------

    @property
    def blocked(self) -> tuple[str, ...]:
        """The names under which links are blocked."""
        return tuple(self._rules)

    def block(self, name: str, links: Iterable[Link]) -> None:
        """Hold back all traffic of those links until `unblock(name)`."""
        if name in self._rules:
            raise InvalidOperationError(f"'{name}' is held already")
        rule = max(self._rules.values(), default=FIRST_RULE) + 1
        self._rules[name] = rule
        self.world.network.block(rule, links)

    def unblock(self, *names: str) -> None:
        """Open the links that were blocked under these names; all if none is given."""
        for name in names or self.blocked:
            self.world.network.lift(self._rules.pop(name))

    def separate(self, name: str, left: Iterable[int], right: Iterable[int]) -> None:
        """Block all traffic between two sets of nodes; a node that is in both counts as left."""
        left = tuple(left)
        pairs = [(a, b) for a in left for b in right if b not in left]
        self.block(name, [*pairs, *((b, a) for a, b in pairs)])

    # --- requests ----------------------------------------------------------------------------------------------------

    def send(self, node: int, request: Message, on_response: OnResponse, *, one_way: bool = False) -> None:
        """Send a client's request over a connection of its own, so that no earlier reset affects it."""
        self._connections += 1
        self._client.ask(node, request, on_response, one_way=one_way, channel=f"client {self._connections}")

    def operate(self, request: Message, on_done: Callable[[ErrorCode, Message | None], None]) -> None:
        """Send an admin request to the active controller, once; `on_done` gets the first error and the response."""

        def on_response(response: Message | None, _now: int) -> None:
            errors = self.world.operator.errors_of(response)
            on_done(next((error for error in errors if error is not ErrorCode.none), ErrorCode.none), response)

        self.send(self.active_controller(), request, on_response)

    def create_topic(self, topic: TopicPlan, on_done: Callable[[ErrorCode, Message | None], None]) -> None:
        self.operate(self.world.operator.create_request(topic), on_done)

    def carry_out(self, action: Action, on_done: Callable[[ErrorCode, Message | None], None]) -> None:
        """An operator action of a plan: reassign, elect, set a config."""
        self.operate(self.world.operator.request(action), on_done)

    def new_batch(
        self,
        partition: Partition,
        values: Iterable[bytes],
        *,
        acks: int,
        producer_id: int = -1,
        sequence: int = 0,
    ) -> SentBatch:
        """A batch that is not sent yet; with a producer id it is that of an idempotent producer."""
        idempotent = producer_id >= 0
        values = tuple(values)
        data = batch.build(
            [batch.NewRecord(None, value) for value in values],
            timestamp_ms=self.now_ms,
            producer_id=producer_id,
            producer_epoch=0 if idempotent else -1,
            base_sequence=sequence if idempotent else -1,
        )
        self._batches += 1
        crc = batch.read_header(data).crc
        now = self.world.engine.now
        self.world.history.append(
            Sent(self._batches, now, partition.key, acks, len(values), crc, idempotent=idempotent)
        )
        return SentBatch(self._batches, partition, values, bytes(data), acks)

    def send_batch(self, sent: SentBatch, node: int, on_done: Callable[[SentBatch], None]) -> None:
        """Send it, or send it again; with acks=0 there is no response."""
        request = produce_request(sent.partition.key, sent.data, acks=sent.acks, timeout_ms=PRODUCE_TIMEOUT_MS)
        sent.answered = False

        def on_response(response: Message | None, now: int) -> None:
            answer = None if response is None else response.responses[0].partition_responses[0]
            sent.answered = True
            sent.response_received = answer is not None
            sent.error = ErrorCode.network_exception if answer is None else answer.error_code
            if answer is None or sent.error is not ErrorCode.none:
                self.world.history.append(Failed(sent.op, now, sent.error.name))
            else:
                sent.offset = answer.base_offset
                self.world.history.append(Acked(sent.op, now, sent.offset))
            on_done(sent)

        self.send(node, request, on_response, one_way=sent.acks == 0)

    def fetch(self, partition: Partition, offset: int, node: int, on_done: Callable[[FetchResult], None]) -> None:
        """A consumer's fetch of everything from that offset on."""
        started = self.world.engine.now

        def on_response(response: Message | None, now: int) -> None:
            if response is None:
                return on_done(FetchResult(None))
            answer = response.responses[0].partitions[0]
            if answer.error_code is not ErrorCode.none:
                return on_done(FetchResult(answer.error_code))
            data = answer.records or b""
            headers = list(batch.iter_headers(data))
            prints = tuple(Fingerprint(h.base_offset, h.last_offset, h.leader_epoch, h.crc) for _, h in headers)
            self.world.history.append(Read(started, now, partition.key, offset, answer.high_watermark, prints))
            records = tuple(
                FetchedRecord(record.offset, record.value, header.leader_epoch)
                for at, header in headers
                for record in batch.records(data, at)
                if record.value is not None and record.offset >= offset
            )
            return on_done(FetchResult(ErrorCode.none, records, answer.high_watermark))

        request = fetch_request(
            partition.key, offset, leader_epoch=-1, max_wait_ms=0, partition_max_bytes=100_000, max_bytes=100_000
        )
        self.send(node, request, on_response)

    def list_end_offset(
        self, partition: Partition, node: int, on_done: Callable[[ErrorCode | None, int], None]
    ) -> None:
        """The end offset that a consumer gets; the error is None if there was no response."""
        started = self.world.engine.now

        def on_response(response: Message | None, now: int) -> None:
            answer = None if response is None else response.topics[0].partitions[0]
            if answer is None or answer.error_code is not ErrorCode.none:
                return on_done(None if answer is None else answer.error_code, -1)
            self.world.history.append(ListedOffset(started, now, partition.key, answer.offset))
            return on_done(ErrorCode.none, answer.offset)

        request = list_offsets_request(partition.topic, partition.index, LATEST, leader_epoch=-1)
        self.send(node, request, on_response)
