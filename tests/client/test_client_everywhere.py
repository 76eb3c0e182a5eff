"""A change is made when every broker has heard of it, so that the next command finds it wherever it asks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from fake_cluster import FakeCluster
from insync.client import apis, propagation, topics
from insync.client.client import Client
from insync.client.errors import ClientError


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    with FakeCluster(3) as cluster:
        yield cluster


def test_the_slowest_broker_is_waited_for(fake: FakeCluster) -> None:
    looks = {1: 0, 2: 0, 3: 0}

    async def seen(broker: int) -> bool:
        looks[broker] += 1
        if looks[broker] == 1:
            raise ClientError("not yet connected")
        return looks[broker] > broker

    async def act() -> None:
        async with Client.connect(fake.bootstrap) as cluster:
            await propagation.wait_for_propagation(cluster, seen)

    asyncio.run(act())
    assert looks == {1: 2, 2: 3, 3: 4}


def test_a_broker_that_never_hears_of_it_does_not_undo_it(fake: FakeCluster) -> None:
    async def seen(broker: int) -> bool:
        return broker != 2

    async def act() -> None:
        async with Client.connect(fake.bootstrap, timeout_s=0.2) as cluster:
            await propagation.wait_for_propagation(cluster, seen)

    asyncio.run(act())


def test_each_broker_is_asked_what_it_knows_itself(fake: FakeCluster) -> None:
    fake.topic("t", [1], [2], retention_ms="5")

    async def act() -> list[object]:
        async with Client.connect(fake.bootstrap) as cluster:
            return [
                await propagation.count_partitions(cluster, 2, "t"),
                await propagation.count_partitions(cluster, 3, "nope"),
                await propagation.has_configs(cluster, 1, "t", {"retention.ms": " 5", "segment.bytes": None}),
                await propagation.has_configs(cluster, 1, "t", {"retention.ms": None}),
                await propagation.has_configs(cluster, 1, "t", {"retention.ms": "6"}),
            ]

    assert asyncio.run(act()) == [2, 0, True, False, False]


def test_a_topic_that_was_made_is_asked_for_at_every_broker(fake: FakeCluster) -> None:
    async def act() -> None:
        async with Client.connect(fake.bootstrap) as cluster:
            fake.seen.clear()
            await topics.create(cluster, "made", assignment=[[1, 2, 3]])

    asyncio.run(act())
    assert {broker for broker, _ in fake.asked(apis.METADATA)} == {1, 2, 3}
