"""A hand-made cluster for tests of the checker: nodes are plain objects, the metadata log is a list of records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from insync.metadata.image import Image
from insync.properties.history import History
from insync.replication.leader import Leader
from insync.sansio import Effect, Event, Timer
from insync.sim.checks.checker import Checker
from insync.wire import metadata_records as records
from tests.properties.property_harness import FakeLog

TOPIC = UUID(int=7)
KEY = (TOPIC, 0)


class CheckedLog(FakeLog):
    """A log that was opened, perhaps after a recovery."""

    def __init__(self, epochs: Sequence[int] = ()) -> None:
        super().__init__(epochs)
        self.recovery: Any = None


class FakeLeader(Leader):
    min_isr = -1

    def __init__(self, epoch: int, isr_state: Any, min_isr: int) -> None:
        self.epoch = epoch
        self.isr_state = isr_state
        self.min_isr = min_isr


class FakeReplica:
    def __init__(self, partition: Any, log: CheckedLog) -> None:
        self.key = KEY
        self.partition = partition
        self.log = log
        self.role: Any = None

    def lead(self, epoch: int, isr: tuple[int, ...], maximal: tuple[int, ...] = (), min_isr: int = 2) -> None:
        state = SimpleNamespace(isr=isr, maximal_isr=maximal or isr)
        self.role = FakeLeader(epoch, state, min_isr)


class FakeNode:
    def __init__(self, node_id: int, metadata: list[Any]) -> None:
        self.id = node_id
        self.config = SimpleNamespace(
            voters=(1, 2, 3),
            is_controller=True,
            quorum=SimpleNamespace(check_quorum_ms=600, fetch_timeout_ms=400),
            controller=SimpleNamespace(session_timeout_ms=500),
        )
        self.metadata = metadata
        self.quorum = SimpleNamespace(
            hwm=0,
            leo=0,
            epoch=1,
            leader_id=100,
            is_leader=False,
            role="follower",
            log=CheckedLog(),
            is_waiting_for_disk=False,
        )
        self.quorum.read_committed = self._read_committed
        self.metadata_loader = SimpleNamespace(applied=0)
        self.image = Image()
        self.lifecycle = SimpleNamespace(state="running", incarnation_id=UUID(int=node_id))
        self.broker_epoch = -1
        self.controller_role = SimpleNamespace(active=False)
        self.broker_role = None
        self.stopped = False
        self.replicas = SimpleNamespace(replicas={})
        self.changed: list[FakeReplica] = []

    def _read_committed(self, start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
        for offset in range(start, end):
            yield offset, 1, records.encode(self.metadata[offset])


class World:
    """Brokers 1, 2 and 3 with one partition of MinISR 2; `commit` writes metadata, `step` runs the checker."""

    def __init__(self) -> None:
        self.metadata: list[Any] = []
        self.engine = SimpleNamespace(now=5_000, stop=lambda: None)
        self.principals = None
        self.hosts: dict[int, SimpleNamespace] = {}
        self.corrupted_batches: dict[Any, int] = {}
        self._nodes: dict[int, FakeNode] = {}
        self.history = History()
        self.checker = Checker(self, self.history, stop=False)
        for broker in (1, 2, 3):
            self.start(broker)
        self.commit(*[registration(broker, broker - 1, broker) for broker in (1, 2, 3)])
        self.commit(
            records.ConfigRecord(resource_type=2, resource_name="t", name="min.insync.replicas", value="2"),
            records.TopicRecord(name="t", topic_id=TOPIC),
            records.PartitionRecord(
                partition_id=0,
                topic_id=TOPIC,
                replicas=(1, 2, 3),
                isr=(1, 2, 3),
                leader=1,
                leader_epoch=1,
                partition_epoch=1,
            ),
        )
        for broker in (1, 2, 3):
            self.host(broker)

    # --- what the checker asks of a cluster ---

    def node(self, node_id: int) -> FakeNode | None:
        return self._nodes.get(node_id)

    def nodes(self) -> list[FakeNode]:
        return list(self._nodes.values())

    def local_now_ms(self, host: SimpleNamespace) -> int:
        return int(self.engine.now) // 1_000

    # --- what tests do ---

    def quorum(self, node_id: int) -> SimpleNamespace:
        return self._nodes[node_id].quorum

    @property
    def violations(self) -> list[str]:
        return [violation.property for violation in self.checker.violations]

    @property
    def ghost(self) -> Any:
        return self.checker.truth.ghosts[KEY]

    def start(self, broker: int) -> FakeNode:
        node = FakeNode(broker, self.metadata)
        self.hosts[broker] = SimpleNamespace(node=node, paused=False)
        self._nodes[broker] = node
        self.checker.node_started(broker)
        return node

    def crash(self, broker: int, lost: dict[str, tuple[int, int]] | None = None) -> None:
        self.checker.node_ends(broker)
        del self._nodes[broker]
        self.hosts[broker].node = None
        self.checker.node_crashed(broker, lost)

    def commit(self, *news: Any) -> None:
        self.metadata += news
        for node in self.nodes():
            node.quorum.log.append(1, len(self.metadata) - node.quorum.log.leo)
            node.quorum.hwm = node.quorum.leo = node.metadata_loader.applied = len(self.metadata)
        for node in self.nodes():
            self.step(node.id)

    def change(self, **fields: Any) -> None:
        self.commit(records.PartitionChangeRecord(partition_id=0, topic_id=TOPIC, **fields))

    def host(self, broker: int, log: CheckedLog | None = None) -> FakeReplica:
        node = self._nodes[broker]
        replica = FakeReplica(self.checker.truth.image.partition(KEY), log or CheckedLog())
        node.replicas.replicas[KEY] = replica
        node.broker_epoch = self.checker.truth.image.brokers[broker].epoch
        self.changed(broker)
        return replica

    def replica(self, broker: int) -> FakeReplica:
        replica: FakeReplica = self._nodes[broker].replicas.replicas[KEY]
        return replica

    def changed(self, broker: int) -> None:
        self._nodes[broker].changed = [self.replica(broker)]
        self.step(broker)
        self._nodes[broker].changed = []

    def step(self, broker: int, event: Event | None = None, effects: list[Effect] | None = None) -> None:
        self.checker.after_step(broker, event or Timer(), effects or [])

    def replicate(self, count: int, *brokers: int, epoch: int = 1) -> None:
        for broker in brokers:
            self.replica(broker).log.append(epoch, count)
            self.changed(broker)

    def commit_data(self, hwm: int, leader: int = 1) -> None:
        self.replica(leader).log.hwm = hwm
        self.changed(leader)


def registration(broker: int, epoch: int, incarnation: int) -> records.RegisterBrokerRecord:
    return records.RegisterBrokerRecord(
        broker_id=broker, incarnation_id=UUID(int=incarnation), broker_epoch=epoch, end_points=(), fenced=False
    )


def three_replicas(hwm: int = 5) -> World:
    """Broker 1 leads in epoch 1; all three hold and have committed `hwm` records."""
    world = World()
    world.replica(1).lead(1, (1, 2, 3))
    world.replicate(hwm, 3, 2, 1)
    world.commit_data(hwm)
    return world


def recovered(world: World, broker: int, epoch: int, log: CheckedLog) -> FakeReplica:
    """A broker is back with `log` and registered under `epoch`."""
    world.start(broker).lifecycle.incarnation_id = UUID(int=100 + epoch)
    world.checker.node_started(broker)
    world.commit(registration(broker, epoch, 100 + epoch))
    return world.host(broker, log)
