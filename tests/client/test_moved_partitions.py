"""A partition that has moved away from its leader: clients that know the old leader find the new one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from insync import Cluster
from insync.client import admin, offsets, topics
from insync.client.client import Client
from insync.client.consumer import Reader
from insync.client.errors import ErrorCode, raise_for_error
from insync.client.model import Topic
from insync.client.offsets import EARLIEST, LATEST
from insync.client.producer import Producer
from insync.client.sync_client import SyncClient
from insync.pipeline.archive import plan as archive_plan
from insync.pipeline.rounds import ClusterOptions
from insync.spark.cluster_view import ClusterView
from insync.wire.batch import NewRecord

KEY = ("t", 0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, topics={"t": {"partitions": 1, "replication_factor": 2}}) as made:
        yield made


@pytest.fixture
def client(cluster: Cluster) -> Iterator[SyncClient]:
    with SyncClient(cluster.bootstrap) as made:
        yield made


@pytest.fixture
def view(cluster: Cluster) -> Iterator[ClusterView]:
    made = archive_plan.open_view(
        ClusterOptions(bootstrap=cluster.bootstrap, timeout_s=30), ("t",), isolation="read_committed"
    )
    yield made
    made.close()


def move_leader(client: SyncClient) -> Topic:
    """Move t-0 away from its leader; returns the topic as it was before."""
    before = client.call(lambda cluster: topics.describe_one(cluster, "t"))
    old_leader = before.partitions[0].leader
    others = tuple(broker for broker in (1, 2, 3) if broker != old_leader)

    async def move(cluster: Client) -> None:
        for code, message in (await admin.reassign(cluster, {KEY: others})).values():
            raise_for_error(code, "moving t-0", message)
        while await admin.list_reassignments(cluster):
            await asyncio.sleep(0.01)
        while await _answer_of(cluster, old_leader) is ErrorCode.none:
            await asyncio.sleep(0.01)  # it has not learned yet that it was replaced

    client.call(move)
    return before


async def _answer_of(cluster: Client, broker: int, index: int = 0) -> ErrorCode:
    listed = await offsets.list_offsets_at_broker(cluster, broker, {("t", index): offsets.LATEST})
    return listed["t", index].error


def test_the_old_leader_answers_that_it_does_not_lead(client: SyncClient) -> None:
    """F3: an answer that the partition does not exist would not be retriable."""
    before = move_leader(client).partitions[0]
    old = before.leader
    assert client.call(lambda cluster: _answer_of(cluster, old)) is ErrorCode.not_leader_or_follower
    ended = client.call(lambda cluster: offsets.find_epoch_end(cluster, "t", before, 0))
    assert ended.error is ErrorCode.not_leader_or_follower
    assert client.call(lambda cluster: _answer_of(cluster, old, 7)) is ErrorCode.unknown_topic_or_partition


def test_clients_that_know_the_old_leader_write_and_read(client: SyncClient) -> None:
    async def write(cluster: Client) -> int:
        return (await Producer(cluster, old).send(0, [NewRecord(None, b"x")], 0)).offset

    async def read(cluster: Client) -> list[int]:
        reader = Reader(cluster, old, {0: 0}, {0: written + 1})
        return [consumed.record.offset async for consumed in reader.records()]

    old = move_leader(client)
    written = client.call(write)
    old = move_leader(client)
    assert client.call(read) == list(range(written + 1))


def test_a_plan_made_while_a_partition_moves_uses_the_new_leader(client: SyncClient, view: ClusterView) -> None:
    """A pipeline describes topics and then asks their leaders, which may have changed in between."""
    old = move_leader(client)
    for which in (EARLIEST, LATEST):
        assert view.list_offsets_and_epochs({KEY: which}, {"t": old})[KEY].error is ErrorCode.none
    leader_epoch = view.list_offsets_and_epochs({KEY: LATEST})[KEY].leader_epoch
    assert leader_epoch > old.partitions[0].leader_epoch
