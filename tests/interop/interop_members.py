"""Members of consumer groups, each with a thread of its own that does nothing but poll.

A member tells what it holds now, what it has read, and how often its partitions changed. A member that is to die
without a word is a kcat, which is a process and can be killed.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Self

from aiokafka import ConsumerRebalanceListener as AioListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AioRoundRobin
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AioSticky
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import KafkaException
from kafka import ConsumerRebalanceListener as PythonListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as PythonCooperative
from kafka.coordinator.assignors.range import RangePartitionAssignor as PythonRange
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as PythonRoundRobin
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as PythonSticky
from kafka.errors import KafkaError as PythonError
from kafka.errors import UnknownBrokerIdError
from kafka.protocol.api_header import ResponseClassRegistry

from tests.interop.interop_clients import PATIENCE_S, aio_consumer, confluent_consumer, kcat_command, python_consumer

SESSION_MS = 6_000
BEAT_MS = 100
POLL_S = 0.05
LONG_POLL_MS = 1_000
JOINING_POLL_MS = 10_000
"""kafka-python 3.0 forgets the outcome of a rebalance that takes longer than one poll: if the SyncGroup response comes
just when the poll times out, it neither takes its partitions nor heartbeats, and thinks that it need not join again.
So a member without partitions polls for longer."""
_PYTHON = {
    "range": PythonRange,
    "roundrobin": PythonRoundRobin,
    "sticky": PythonSticky,
    "cooperative-sticky": PythonCooperative,
}
_AIO = {"range": AioRange, "roundrobin": AioRoundRobin, "sticky": AioSticky}


def eventually(condition: Callable[[], Any], what: str, who: Sequence[Member] = ()) -> Any:
    """The first true value of `condition`; if it takes too long, `who` tell how they are."""
    end = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < end, f"still not: {what}; {'; '.join(map(str, who))}"
        time.sleep(0.01)
    return found


class Member:
    """Reads `topic` as one of `group`. With `commits`, what was seen is committed at once. A commit that fails, because
    the group or its coordinator has changed, is tried again after the next poll, as any application would."""

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
        self.holds: frozenset[int] = frozenset()
        self.seen: list[tuple[int, int]] = []
        """(partition, offset) of what was read, in order."""
        self.changes: list[tuple[str, frozenset[int]]] = []
        """("assigned" or "revoked", which), in order."""
        self.error: BaseException | None = None
        self._uncommitted = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._guarded, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Also after a failure, nothing goes on."""
        self.stop()

    def __str__(self) -> str:
        told = f"{type(self).__name__} of {self.group} holds {sorted(self.holds)}, has seen {len(self.seen)}"
        return f"{told}, after {self.changes}, error {self.error!r}, thread alive {self._thread.is_alive()}"

    def stop(self) -> None:
        """Leave soon."""
        self._stopped.set()

    def leave(self) -> None:
        """Close the consumer: a dynamic member says goodbye, a static one does not."""
        self.stop()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def _guarded(self) -> None:
        try:
            self._live()
        except BaseException as error:  # told by `leave`, in the thread of the test
            self.error = error

    def _live(self) -> None:
        raise NotImplementedError

    def _saw(self, places: Sequence[tuple[int, int]]) -> bool:
        """Whether there is something to commit now."""
        self.seen += places
        self._uncommitted = self.commits and (self._uncommitted or bool(places))
        return self._uncommitted

    def _assigned(self, partitions: Iterable[Any]) -> None:
        which = frozenset(each.partition for each in partitions)
        self.changes.append(("assigned", which))
        self.holds |= which

    def _revoked(self, partitions: Iterable[Any]) -> None:
        which = frozenset(each.partition for each in partitions)
        self.changes.append(("revoked", which))
        self.holds -= which

    def _settings(self) -> dict[str, Any]:
        static = {} if self.instance is None else {"group_instance_id": self.instance}
        times = {"session_timeout_ms": self.session_ms, "heartbeat_interval_ms": BEAT_MS}
        return {"group_id": self.group, "auto_offset_reset": "earliest", **times, **static}


class ConfluentMember(Member):
    strategies = ("range", "roundrobin", "cooperative-sticky")
    name = "confluent"

    def _live(self) -> None:
        settings = {**self._settings(), "partition_assignment_strategy": self.strategy}
        consumer = confluent_consumer(self.bootstrap, **settings)
        consumer.subscribe(
            [self.topic],
            on_assign=lambda _, parts: self._assigned(parts),
            on_revoke=lambda _, parts: self._revoked(parts),
            on_lost=lambda _, parts: self._revoked(parts),
        )
        try:
            while not self._stopped.is_set():
                if self._saw(self._places(consumer.consume(100, POLL_S))):
                    self._commit(consumer)
        finally:
            consumer.close()

    def _places(self, messages: Sequence[Any]) -> list[tuple[int, int]]:
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
        return [(message.partition(), message.offset()) for message in messages]

    def _commit(self, consumer: Any) -> None:
        with suppress(KafkaException):
            consumer.commit(asynchronous=False)
            self._uncommitted = False


@cache
def _make_response_classes() -> None:
    """kafka-python 3.0 makes the class of a response when the first one arrives. If two consumers of one process do so
    at the same time, one of them is left with a class that is gone (ReferenceError), and never reads from that
    connection again."""
    for response in tuple(ResponseClassRegistry._response_class_registry.values()):
        first, last = response.valid_versions
        for version in range(first, last + 1):
            response[version]


class PythonMember(Member, PythonListener):  # type: ignore[misc]
    strategies = ("range", "roundrobin", "sticky", "cooperative-sticky")
    name = "kafka-python"

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        _make_response_classes()
        super().__init__(*arguments, **settings)

    def _live(self) -> None:
        assignors = [_PYTHON[self.strategy]]
        consumer = python_consumer(self.bootstrap, **self._settings(), partition_assignment_strategy=assignors)
        consumer.subscribe([self.topic], listener=self)
        try:
            while not self._stopped.is_set():
                if self._saw(self._poll(consumer)):
                    with suppress(PythonError):
                        consumer.commit()
                        self._uncommitted = False
        finally:
            consumer.close()

    def _poll(self, consumer: Any) -> list[tuple[int, int]]:
        """kafka-python 3.0 raises UnknownBrokerIdError from `poll` when it is about to send to a broker that a metadata
        response has just dropped, as any broker that dies is. It recovers with the next poll."""
        try:
            batches = consumer.poll(LONG_POLL_MS if self.holds else JOINING_POLL_MS)
        except UnknownBrokerIdError:
            return []
        return [(partition.partition, record.offset) for partition, batch in batches.items() for record in batch]

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._assigned(assigned)

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._revoked(revoked)

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self._revoked(lost)


class AioMember(Member, AioListener):  # type: ignore[misc]
    strategies = ("range", "roundrobin", "sticky")
    name = "aiokafka"

    def _live(self) -> None:
        asyncio.run(self._poll())

    async def _poll(self) -> None:
        assignors = (_AIO[self.strategy],)
        consumer = aio_consumer(self.bootstrap, **self._settings(), partition_assignment_strategy=assignors)
        consumer.subscribe([self.topic], listener=self)
        await consumer.start()
        try:
            while not self._stopped.is_set():
                found = await consumer.getmany(timeout_ms=int(POLL_S * 1_000))
                if self._saw([(where.partition, each.offset) for where, batch in found.items() for each in batch]):
                    with suppress(AioError):
                        await consumer.commit()
                        self._uncommitted = False
        finally:
            await consumer.stop()

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._assigned(assigned)

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._revoked(revoked)


def all_leave(members: Sequence[Member]) -> None:
    for member in members:
        member.stop()
    for member in members:
        member.leave()


MEMBERS: tuple[Any, ...] = (ConfluentMember, PythonMember, AioMember)


@contextmanager
def kcat_member(
    bootstrap: str, group: str, topic: str, *, strategy: str = "range", session_ms: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Killed in the end, if not before: it says no goodbye."""
    settings = {
        "session.timeout.ms": session_ms,
        "heartbeat.interval.ms": BEAT_MS,
        "partition.assignment.strategy": strategy,
    }
    words = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]
    command = kcat_command(bootstrap, *words, "-G", group, topic)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def share(members: Sequence[Member], partitions: int, *, others: bool = False) -> bool:
    """Whether each has a part, none is held twice, and all are held; `others` have a part that is not seen here."""
    for member in members:
        assert member.error is None, member.error
    held = [partition for member in members for partition in member.holds]
    complete = len(held) < partitions if others else len(held) == partitions
    return complete and len(set(held)) == len(held) and all(member.holds for member in members)
