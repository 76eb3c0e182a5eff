"""The broker that coordinates groups, and leads some of the partitions that they read, is killed while they read.

Groups of three kinds of clients share the coordinator, so that its death affects all of them. They continue, read every
record that was acknowledged to the producer, and lose no committed offset.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import count, islice

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from insync.server.local_cluster import LocalCluster
from tests.interop.interop_clients import NO_LOGGER, confluent_consumer
from tests.interop.interop_members import (
    MEMBER_CLASSES,
    Member,
    Position,
    close_all,
    is_fully_assigned,
    positions_read,
    wait_for_members,
)
from tests.polling import TIMEOUT_S, wait_until

PARTITIONS = 6
TOPIC = "work"
NO_COORDINATOR = -1


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3) as local:
        yield local
        logs = "".join(node.log.read_text() for node in local.nodes.values())
    assert "Traceback" not in logs


class ProducerThread:
    """An idempotent producer that never pauses."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: set[Position] = set()
        self.errors: list[KafkaError] = []
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        self._producer = Producer(settings, logger=NO_LOGGER)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for number in count():
            if self._stopped.is_set():
                break
            self._producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._on_delivery)
            self._producer.poll(0.002)
        self._producer.flush(TIMEOUT_S)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if error is not None:
            self.errors.append(error)
        elif partition is not None and offset is not None:
            self.acknowledged.add((partition, offset))

    def __enter__(self) -> ProducerThread:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive(), f"the producer has not flushed after {TIMEOUT_S:.0f} s"
        assert self.errors == []

    def end_offsets(self) -> dict[int, int]:
        ends = dict.fromkeys(range(PARTITIONS), 0)
        for partition, offset in self.acknowledged:
            ends[partition] = max(ends[partition], offset + 1)
        return ends


def _coordinator(admin: AdminClient, group: str) -> int:
    (future,) = admin.describe_consumer_groups([group]).values()
    try:
        coordinator: int = future.result(TIMEOUT_S).coordinator.id
    except KafkaException:  # there is none at the moment
        return NO_COORDINATOR
    return coordinator


def _groups_with_one_coordinator(admin: AdminClient) -> tuple[int, list[str]]:
    """A broker, and as many groups that it coordinates as there are clients."""
    wait_until(lambda: _coordinator(admin, "group-0") != NO_COORDINATOR, "there is a coordinator")
    coordinator = _coordinator(admin, "group-0")
    names = (f"group-{number}" for number in count())
    groups = (name for name in names if _coordinator(admin, name) == coordinator)
    return coordinator, list(islice(groups, len(MEMBER_CLASSES)))


def test_groups_survive_the_death_of_their_coordinator(cluster: LocalCluster) -> None:
    bootstrap = cluster.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=NO_LOGGER)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(TIMEOUT_S)
    coordinator, groups = _groups_with_one_coordinator(admin)
    with ProducerThread(bootstrap) as producer, ExitStack() as open_members:
        members_by_group = {
            group: [open_members.enter_context(member_class(bootstrap, group, TOPIC, commits=True)) for _ in range(2)]
            for group, member_class in zip(groups, MEMBER_CLASSES, strict=True)
        }
        for members in members_by_group.values():
            wait_for_members(_all_are_reading(members), "all partitions are assigned and read", members)
        cluster.kill(coordinator)
        for group, members in members_by_group.items():
            wait_until(_has_moved(admin, group, coordinator), f"{group} has another coordinator")
            wait_for_members(_all_read_more(members), "every member reads on", members)
        producer.stop()
        assert sum(producer.end_offsets().values()) == len(producer.acknowledged), "a record is stored twice"
        for group, members in members_by_group.items():
            wait_for_members(_all_is_read(members, producer), "every acknowledged record is read", members)
            with closing(confluent_consumer(bootstrap, group_id=group)) as observer:
                wait_for_members(_all_is_committed(observer, producer), "all offsets are committed", members)
            close_all(members)


def _all_are_reading(members: Sequence[Member]) -> Callable[[], bool]:
    return lambda: is_fully_assigned(members, PARTITIONS) and all(member.read for member in members)


def _all_read_more(members: Sequence[Member]) -> Callable[[], bool]:
    before = [len(member.read) for member in members]
    return lambda: all(len(member.read) > count for member, count in zip(members, before, strict=True))


def _all_is_read(members: Sequence[Member], producer: ProducerThread) -> Callable[[], bool]:
    return lambda: positions_read(members) >= producer.acknowledged


def _all_is_committed(observer: Consumer, producer: ProducerThread) -> Callable[[], bool]:
    return lambda: _committed(observer) == producer.end_offsets()


def _has_moved(admin: AdminClient, group: str, coordinator: int) -> Callable[[], bool]:
    return lambda: _coordinator(admin, group) not in (NO_COORDINATOR, coordinator)


def _committed(observer: Consumer) -> dict[int, int]:
    """By a consumer that does not join its group. librdkafka's AdminClient crashes when the broker that it takes for
    the coordinator answers NOT_COORDINATOR (confluentinc/librdkafka issue 5315)."""
    partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    return {place.partition: place.offset for place in observer.committed(partitions, TIMEOUT_S)}
