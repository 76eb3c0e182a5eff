"""Members of consumer groups, each polling in a thread of its own.

A member records its assigned partitions, the records that it read, and its rebalances. A member that must die without
leaving its group is a kcat, which is a process and can be killed.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, ClassVar, Protocol, Self, TypeVar

from aiokafka import ConsumerRebalanceListener as AioListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AioRoundRobin
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AioSticky
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import Consumer, KafkaException, Message
from kafka import ConsumerRebalanceListener as PythonListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as PythonCooperative
from kafka.coordinator.assignors.range import RangePartitionAssignor as PythonRange
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as PythonRoundRobin
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as PythonSticky
from kafka.errors import KafkaError as PythonError
from kafka.errors import UnknownBrokerIdError
from kafka.protocol.api_header import ResponseClassRegistry

from tests.interop.interop_clients import aio_consumer, confluent_consumer, kcat_command, python_consumer
from tests.polling import TIMEOUT_S, wait_until

T = TypeVar("T")

SESSION_MS = 6_000
HEARTBEAT_MS = 100
POLL_S = 0.05
LONG_POLL_MS = 1_000
JOINING_POLL_MS = 10_000
"""kafka-python 3.0 forgets the outcome of a rebalance that takes longer than one poll: if the SyncGroup response comes
just when the poll times out, it neither takes its partitions nor heartbeats, and does not join again. So a member
without partitions polls for longer."""
_PYTHON_ASSIGNORS = {
    "range": PythonRange,
    "roundrobin": PythonRoundRobin,
    "sticky": PythonSticky,
    "cooperative-sticky": PythonCooperative,
}
_AIO_ASSIGNORS = {"range": AioRange, "roundrobin": AioRoundRobin, "sticky": AioSticky}

Position = tuple[int, int]
"""(partition, offset)"""


class _TopicPartition(Protocol):
    """What the partitions of all three clients have in common."""

    @property
    def partition(self) -> int: ...


def wait_for_members(condition: Callable[[], T | None], description: str, members: Sequence[Member]) -> T:
    """As `wait_until`; a failure shows the state of the members."""
    return wait_until(condition, description, state=lambda: "; ".join(map(str, members)))


class Member:
    """Reads `topic` as a member of `group`. With `commits`, it commits after every poll that returned records. A commit
    that fails because the group or its coordinator has changed is repeated after the next poll, as applications do."""

    name: ClassVar[str]
    strategies: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        *,
        strategy: str = "range",
        instance: str | None = None,
        commits: bool = False,
        session_ms: int = SESSION_MS,
    ) -> None:
        self.bootstrap, self.group, self.topic = bootstrap, group, topic
        self.strategy, self.instance, self.commits, self.session_ms = strategy, instance, commits, session_ms
        self.assigned: frozenset[int] = frozenset()
        self.read: list[Position] = []
        """In the order in which the records arrived."""
        self.rebalances: list[tuple[str, frozenset[int]]] = []
        """("assigned" or "revoked", partitions), in order."""
        self.error: BaseException | None = None
        self._has_uncommitted = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run_guarded, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __str__(self) -> str:
        return (
            f"{type(self).__name__} of {self.group}: assigned {sorted(self.assigned)}, {len(self.read)} records read, "
            f"rebalances {self.rebalances}, error {self.error!r}, thread alive {self._thread.is_alive()}"
        )

    def stop(self) -> None:
        """Ask the thread to end; do not wait for it."""
        self._stopped.set()

    def close(self) -> None:
        """Close the consumer: a dynamic member sends LeaveGroup, a static one does not."""
        self.stop()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive(), f"not closed after {TIMEOUT_S:.0f} s: {self}"
        if self.error is not None:
            raise self.error

    def _run_guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:  # raised by `close`, in the thread of the test
            self.error = error

    def _run(self) -> None:
        raise NotImplementedError

    def _add_read(self, positions: Sequence[Position]) -> bool:
        """Whether there is something to commit now."""
        self.read += positions
        self._has_uncommitted = self.commits and (self._has_uncommitted or bool(positions))
        return self._has_uncommitted

    def _add_assigned(self, partitions: Iterable[_TopicPartition]) -> None:
        numbers = frozenset(partition.partition for partition in partitions)
        self.rebalances.append(("assigned", numbers))
        self.assigned |= numbers

    def _remove_assigned(self, partitions: Iterable[_TopicPartition]) -> None:
        numbers = frozenset(partition.partition for partition in partitions)
        self.rebalances.append(("revoked", numbers))
        self.assigned -= numbers

    def _settings(self) -> dict[str, Any]:
        static = {} if self.instance is None else {"group_instance_id": self.instance}
        times = {"session_timeout_ms": self.session_ms, "heartbeat_interval_ms": HEARTBEAT_MS}
        return {"group_id": self.group, "auto_offset_reset": "earliest", **times, **static}


class ConfluentMember(Member):
    name = "confluent"
    strategies = ("range", "roundrobin", "cooperative-sticky")

    def _run(self) -> None:
        settings = {**self._settings(), "partition_assignment_strategy": self.strategy}
        consumer = confluent_consumer(self.bootstrap, **settings)
        consumer.subscribe(
            [self.topic],
            on_assign=lambda _, partitions: self._add_assigned(partitions),
            on_revoke=lambda _, partitions: self._remove_assigned(partitions),
            on_lost=lambda _, partitions: self._remove_assigned(partitions),
        )
        try:
            while not self._stopped.is_set():
                if self._add_read([_position(message) for message in consumer.consume(100, POLL_S)]):
                    self._commit(consumer)
        finally:
            consumer.close()

    def _commit(self, consumer: Consumer) -> None:
        with suppress(KafkaException):
            consumer.commit(asynchronous=False)
            self._has_uncommitted = False


def _position(message: Message) -> Position:
    if message.error() is not None:
        raise KafkaException(message.error())
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset


@cache
def _make_response_classes() -> None:
    """kafka-python 3.0 makes the class of a response when the first one arrives. If two consumers of one process do so
    at the same time, one of them keeps a weak reference to a class that is gone (ReferenceError), and never reads from
    that connection again."""
    for response in tuple(ResponseClassRegistry._response_class_registry.values()):
        first, last = response.valid_versions
        for version in range(first, last + 1):
            response[version]


class PythonMember(Member, PythonListener):  # type: ignore[misc]  # kafka-python has no types
    name = "kafka-python"
    strategies = ("range", "roundrobin", "sticky", "cooperative-sticky")

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        _make_response_classes()
        super().__init__(*arguments, **settings)

    def _run(self) -> None:
        assignors = [_PYTHON_ASSIGNORS[self.strategy]]
        consumer = python_consumer(self.bootstrap, **self._settings(), partition_assignment_strategy=assignors)
        consumer.subscribe([self.topic], listener=self)
        try:
            while not self._stopped.is_set():
                if self._add_read(self._poll(consumer)):
                    with suppress(PythonError):
                        consumer.commit()
                        self._has_uncommitted = False
        finally:
            consumer.close()

    def _poll(self, consumer: Any) -> list[Position]:
        """kafka-python 3.0 raises UnknownBrokerIdError from `poll` when it is about to send to a broker that a metadata
        response has just dropped, as any broker that dies is. It recovers with the next poll."""
        try:
            batches = consumer.poll(LONG_POLL_MS if self.assigned else JOINING_POLL_MS)
        except UnknownBrokerIdError:
            return []
        return [(partition.partition, record.offset) for partition, batch in batches.items() for record in batch]

    def on_partitions_assigned(self, assigned: Iterable[_TopicPartition]) -> None:
        self._add_assigned(assigned)

    def on_partitions_revoked(self, revoked: Iterable[_TopicPartition]) -> None:
        self._remove_assigned(revoked)

    def on_partitions_lost(self, lost: Iterable[_TopicPartition]) -> None:
        self._remove_assigned(lost)


class AioMember(Member, AioListener):  # type: ignore[misc]  # aiokafka has no types
    name = "aiokafka"
    strategies = ("range", "roundrobin", "sticky")

    def _run(self) -> None:
        asyncio.run(self._poll())

    async def _poll(self) -> None:
        assignors = (_AIO_ASSIGNORS[self.strategy],)
        consumer = aio_consumer(self.bootstrap, **self._settings(), partition_assignment_strategy=assignors)
        consumer.subscribe([self.topic], listener=self)
        await consumer.start()
        try:
            while not self._stopped.is_set():
                batches = await consumer.getmany(timeout_ms=int(POLL_S * 1_000))
                positions = [(where.partition, record.offset) for where, batch in batches.items() for record in batch]
                if self._add_read(positions):
                    with suppress(AioError):
                        await consumer.commit()
                        self._has_uncommitted = False
        finally:
            await consumer.stop()

    async def on_partitions_assigned(self, assigned: Iterable[_TopicPartition]) -> None:
        self._add_assigned(assigned)

    async def on_partitions_revoked(self, revoked: Iterable[_TopicPartition]) -> None:
        self._remove_assigned(revoked)


def close_all(members: Sequence[Member]) -> None:
    for member in members:
        member.stop()
    for member in members:
        member.close()


MEMBER_CLASSES: tuple[type[Member], ...] = (ConfluentMember, PythonMember, AioMember)


@contextmanager
def kcat_member(
    bootstrap: str, group: str, topic: str, *, strategy: str = "range", session_ms: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Killed at the end, if not before: it does not leave the group."""
    settings = {
        "session.timeout.ms": session_ms,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "partition.assignment.strategy": strategy,
    }
    options = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]
    command = kcat_command(bootstrap, *options, "-G", group, topic)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def is_fully_assigned(members: Sequence[Member], partitions: int) -> bool:
    """Every partition is assigned to exactly one of the members, and every member has at least one."""
    return _count_assigned(members) == partitions


def is_partly_assigned(members: Sequence[Member], partitions: int) -> bool:
    """As `is_fully_assigned`, but members that are not listed have some of the partitions."""
    return 0 < _count_assigned(members) < partitions


def _count_assigned(members: Sequence[Member]) -> int:
    """How many partitions the members have; -1 if one is assigned twice, or a member has none."""
    for member in members:
        assert member.error is None, f"a member failed: {member}"
    assigned = [partition for member in members for partition in member.assigned]
    is_disjoint = len(set(assigned)) == len(assigned)
    return len(assigned) if is_disjoint and all(member.assigned for member in members) else -1


def positions_read(members: Iterable[Member]) -> set[Position]:
    return {position for member in members for position in member.read}
