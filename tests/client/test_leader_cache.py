"""A leader of an older epoch than the newest known one is ignored, whatever brokers answer (F3)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from copy import deepcopy
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insync.client import apis, offsets, topics
from insync.client.client import Client, LeaderCache
from insync.client.consumer import Reader
from insync.client.errors import NoBrokerError
from insync.client.model import NO_NODE, Offset, Partition, Topic
from insync.client.sync_client import SyncClient
from insync.wire.types import ZERO_UUID
from tests.fake_cluster import FakeCluster
from tests.fake_state import FakePartition

ID, OTHER = UUID(int=1), UUID(int=2)


def topic_with(epoch: int, leader: int = 1, topic_id: UUID = ID) -> Topic:
    partition = Partition(index=0, leader=leader, leader_epoch=epoch, replicas=(1, 2), isr=(1, 2))
    return Topic(name="t", id=topic_id, partitions=(partition,))


@given(st.lists(st.integers(0, 5), min_size=1))
def test_leaders_only_get_newer(epochs: list[int]) -> None:
    leaders = LeaderCache()
    newest = [leaders.with_newest_leaders(topic_with(epoch)).partitions[0].leader_epoch for epoch in epochs]
    assert newest == [max(epochs[: i + 1]) for i in range(len(epochs))]


def test_within_an_epoch_the_latest_answer_counts() -> None:
    """The ISR changes within an epoch."""
    leaders = LeaderCache()
    leaders.with_newest_leaders(topic_with(3, leader=1))
    assert leaders.with_newest_leaders(topic_with(3, leader=NO_NODE)).partitions[0].leader == NO_NODE


def test_a_noted_epoch_has_an_unknown_leader() -> None:
    leaders = LeaderCache()
    leaders.note_epoch(ID, 0, 4)
    assert leaders.with_newest_leaders(topic_with(3)).partitions[0].leader == NO_NODE
    assert leaders.with_newest_leaders(topic_with(4)).partitions[0].leader == 1
    leaders.note_epoch(ID, 0, 4)
    assert leaders.with_newest_leaders(topic_with(3)).partitions[0].leader == 1


def test_a_recreated_topic_starts_again() -> None:
    leaders = LeaderCache()
    for topic_id in (ID, ZERO_UUID):
        leaders.with_newest_leaders(topic_with(7, topic_id=topic_id))
    assert leaders.with_newest_leaders(topic_with(0, topic_id=OTHER)).partitions[0].leader_epoch == 0
    assert leaders.with_newest_leaders(topic_with(0, topic_id=ZERO_UUID)).partitions[0].leader_epoch == 0


@pytest.fixture
def moved() -> Iterator[FakeCluster]:
    """Broker 2 leads t-0, and broker 1 has not learned of it."""
    with FakeCluster() as fake:
        topic = fake.add_topic("t", (1, 2, 3))
        fake.stale_topics[1] = {"t": deepcopy(topic)}
        topic.partitions[0] = FakePartition([1, 2, 3], leader=2, isr=[2, 3], epoch=5)
        fake.write("t", 0, "a", "b")
        yield fake


def latest(client: SyncClient) -> Offset:
    return client.call(lambda cluster: offsets.list_offsets_with_retry(cluster, {("t", 0): offsets.LATEST}))["t", 0]


def test_an_outdated_broker_is_not_trusted(moved: FakeCluster) -> None:
    with SyncClient(first_of(moved), timeout_s=10) as client:
        stale = client.call(lambda cluster: topics.describe_one(cluster, "t"))
        assert (stale.partitions[0].leader, stale.partitions[0].leader_epoch) == (1, 0)
        client.note_leader_epochs([(stale.id, 0, 5)])
        assert latest(client).offset == 2
        assert {broker for broker, _ in moved.requests_of(apis.LIST_OFFSETS)} == {2}


def test_records_are_read_from_the_newest_leader(moved: FakeCluster) -> None:
    """The reader starts with the metadata of broker 1 and continues at broker 2."""

    async def read(cluster: Client) -> list[bytes | None]:
        old = await topics.describe_one(cluster, "t")
        return [consumed.record.value async for consumed in Reader(cluster, old, {0: 0}, {0: 2}).records()]

    with SyncClient(first_of(moved), timeout_s=10) as client:
        assert client.call(read) == [b"a", b"b"]


def test_a_broker_that_does_not_answer_is_skipped(moved: FakeCluster) -> None:
    """Broker 1 is outdated and broker 2, which is next, hangs; broker 3 is up to date."""
    moved.silent = [2]
    moved.topics["t"].partitions[0].leader = 3
    with SyncClient(first_of(moved), timeout_s=30) as client:
        client.note_leader_epochs([(moved.topics["t"].id, 0, 5)])
        started = time.monotonic()
        assert latest(client).offset == 2
        assert time.monotonic() - started < 10  # less than the timeout of a request


def test_a_hanging_broker_does_not_block_requests_to_others() -> None:
    """Its connections stay open, so only a timeout detects it."""
    with FakeCluster() as fake:
        fake.add_topic("t", (2, 3))
        fake.write("t", 0, "a", "b", "c")
        with SyncClient(fake.bootstrap, timeout_s=1.5) as before:
            fake.silent = [1]
            assert latest(before).offset == 3
        with SyncClient(fake.bootstrap, timeout_s=1.5) as after:
            assert latest(after).offset == 3


def test_retry_connect_waits_for_the_first_broker() -> None:
    """A task starts while the whole cluster is down for a moment."""
    with FakeCluster(brokers=1) as fake:
        fake.add_topic("t", (1,))
        fake.write("t", 0, "a")
        fake.stop(1)
        with pytest.raises(NoBrokerError):
            SyncClient(fake.bootstrap, timeout_s=30)
        later = threading.Timer(0.3, fake.start, [1])
        later.start()
        with SyncClient(fake.bootstrap, timeout_s=30, retry_connect=True) as client:
            assert latest(client).offset == 1
        later.join()


def first_of(fake: FakeCluster) -> str:
    return fake.bootstrap.split(",")[0]
