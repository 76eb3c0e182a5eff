"""The broker that coordinates a group, and leads some of what it reads, is killed while the group is at work.

Groups of three kinds of clients share a coordinator, so that one death meets them all: they go on, and nothing that was
acknowledged to the producer is left unread, and nothing that was committed is forgotten.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from insync.server.local_cluster import LocalCluster
from tests.interop.interop_clients import PATIENCE_S, SILENT, confluent_consumer
from tests.interop.interop_members import MEMBERS, Member, all_leave, eventually, share

PARTITIONS = 6
TOPIC = "worked-on"


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    local = LocalCluster(brokers=3)
    local.start()
    yield local
    logs = "".join(node.log.read_text() for node in local.nodes.values())
    local.stop()
    assert "Traceback" not in logs


class Stream:
    """An idempotent producer that never pauses; `acknowledged` is what must be read."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: set[tuple[int, int]] = set()
        self.errors: list[Any] = []
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        self._producer = Producer(settings, logger=SILENT)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for number in count():
            if self._stopped.is_set():
                break
            self._producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered)
            self._producer.poll(0.002)
        self._producer.flush(PATIENCE_S)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.add((message.partition(), message.offset()))
        else:
            self.errors.append(error)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        """Also after a failure, nothing goes on."""
        self._stopped.set()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        assert self.errors == []


def _coordinator(admin: AdminClient, group: str) -> int:
    (future,) = admin.describe_consumer_groups([group]).values()
    try:
        found: int = future.result(PATIENCE_S).coordinator.id
    except KafkaException:  # not there yet, or not there any longer
        return -1
    return found


def _groups_with_one_coordinator(admin: AdminClient) -> tuple[int, list[str]]:
    wanted: int = eventually(lambda: max(_coordinator(admin, "group-0"), 0), "there is a coordinator")
    named = (f"group-{number}" for number in count())
    groups = [name for name, _ in zip((n for n in named if _coordinator(admin, n) == wanted), MEMBERS, strict=False)]
    return wanted, groups


def test_groups_outlive_their_coordinator(cluster: LocalCluster) -> None:
    bootstrap = cluster.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=SILENT)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(PATIENCE_S)
    doomed, groups = _groups_with_one_coordinator(admin)
    with Stream(bootstrap) as stream, ExitStack() as members:
        crews = {
            group: [members.enter_context(kind(bootstrap, group, TOPIC, commits=True)) for _ in range(2)]
            for group, kind in zip(groups, MEMBERS, strict=True)
        }
        for crew in crews.values():
            eventually(
                lambda crew=crew: share(crew, PARTITIONS) and all(each.seen for each in crew), "a crew at work", crew
            )
        cluster.kill(doomed)
        for group, crew in crews.items():
            eventually(
                lambda group=group: _coordinator(admin, group) not in (-1, doomed), "there is another coordinator"
            )
            before = [len(member.seen) for member in crew]
            eventually(
                lambda crew=crew, before=before: all(len(m.seen) > n for m, n in zip(crew, before, strict=True)),
                "everybody reads on",
                crew,
            )
        stream.stop()
        assert sum(_ends(stream).values()) == len(stream.acknowledged)  # nothing is there twice
        for group, crew in crews.items():
            eventually(lambda crew=crew: _read(crew) >= stream.acknowledged, "all that was acknowledged is read", crew)
            with closing(confluent_consumer(bootstrap, group_id=group)) as observer:
                eventually(
                    lambda observer=observer: _committed(observer) == _ends(stream), "all of it is committed", crew
                )
            all_leave(crew)


def _read(crew: list[Member]) -> set[tuple[int, int]]:
    return {place for member in crew for place in member.seen}


def _ends(stream: Stream) -> dict[int, int]:
    ends = dict.fromkeys(range(PARTITIONS), 0)
    for partition, offset in stream.acknowledged:
        ends[partition] = max(ends[partition], offset + 1)
    return ends


def _committed(observer: Consumer) -> dict[int, int]:
    """By a consumer that does not join its group. librdkafka's AdminClient, which could be asked as well, crashes when
    the broker that it takes for the coordinator answers NOT_COORDINATOR (confluentinc/librdkafka issue 5315)."""
    partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    return {each.partition: each.offset for each in observer.committed(partitions, PATIENCE_S)}
