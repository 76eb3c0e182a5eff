"""The state of a scripted cluster, which a test sets and the answers of its brokers read and change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from insync.client.apis import Api
from insync.wire import batch
from insync.wire.errors import ErrorCode


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
    """Log end offsets of replicas that differ from the leader's, by broker."""
    last_epochs: dict[int, int] = field(default_factory=dict)
    epoch_ends: dict[int, int] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    next_errors: list[ErrorCode] = field(default_factory=list)
    """Errors of the next Produce, Fetch and ListOffsets requests, in order."""

    def append(self, records: bytes | bytearray) -> int:
        """Store a batch and return its base offset."""
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
    group_type: str = "classic"


class FakeState:
    def __init__(self, brokers: int, versions: dict[int, tuple[int, int]]) -> None:
        self.ids = list(range(1, brokers + 1))
        self.versions = versions
        """By API key: the lowest and the highest version that the brokers serve."""
        self.ports: dict[int, int] = {}
        self.fenced: list[int] = []
        self.silent: list[int] = []
        """Brokers that read requests and do not answer them."""
        self.topics: dict[str, FakeTopic] = {}
        self.stale_topics: dict[int, dict[str, FakeTopic]] = {}
        """By broker: old versions of topics, for a broker that has not applied a change yet."""
        self.groups: dict[str, FakeGroup] = {}
        self.broker_configs: dict[int, dict[str, str]] = {}
        self.reassignments: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
        """(adding, removing) by partition."""
        self.requests: list[tuple[int, str, int]] = []
        """(broker, API, version) of every request, in order."""
        self.next_errors: dict[str, list[ErrorCode]] = {}
        """By API: errors of its next requests, at the top of the response."""
        self.before_answer: dict[str, Callable[[FakeState], None]] = {}
        """By API: called once, before the next request is answered."""
        self.usable_bytes = 90_000
        self.producers = 0
        self.quorum_leader = brokers

    @property
    def live(self) -> list[int]:
        return [broker for broker in self.ids if broker not in self.fenced]

    def add_topic(self, name: str, *replicas: Iterable[int], **configs: str) -> FakeTopic:
        """Add a topic with a partition for each list of replicas, or with one partition on brokers 1, 2 and 3."""
        assignments = [list(assignment) for assignment in replicas or ((1, 2, 3),)]
        partitions = [FakePartition(list(brokers), brokers[0], list(brokers)) for brokers in assignments]
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        self.topics[name] = FakeTopic(name, UUID(int=1000 + len(self.topics)), partitions, settings)
        return self.topics[name]

    def write(self, topic: str, partition: int, *values: str, **fields: Any) -> None:
        """Append one batch; `fields` are arguments of `batch.build`."""
        records = [batch.NewRecord(None, value.encode()) for value in values]
        self.topics[topic].partitions[partition].append(batch.build(records, timestamp_ms=1_000, **fields))

    def requests_of(self, api: Api) -> list[tuple[int, int]]:
        """(broker, version) of every request of one API."""
        return [(broker, version) for broker, name, version in self.requests if name == api.name]
