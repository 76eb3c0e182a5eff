"""A change returns when every broker has applied it, so that the next command sees it at any broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from insync.client import apis, propagation, topics
from insync.client.client import Client
from insync.client.errors import ClientError
from tests.fake_cluster import FakeCluster


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    with FakeCluster(3) as cluster:
        yield cluster


def test_the_slowest_broker_is_waited_for(fake: FakeCluster) -> None:
    calls = {1: 0, 2: 0, 3: 0}

    async def has_change(broker: int) -> bool:
        calls[broker] += 1
        if calls[broker] == 1:
            raise ClientError("not yet connected")
        return calls[broker] > broker

    async def wait() -> None:
        async with Client.connect(fake.bootstrap) as client:
            await propagation.wait_for_propagation(client, has_change)

    asyncio.run(wait())
    assert calls == {1: 2, 2: 3, 3: 4}


def test_a_broker_that_never_has_the_change_is_waited_for_until_the_timeout(fake: FakeCluster) -> None:
    calls = {1: 0, 2: 0, 3: 0}

    async def has_change(broker: int) -> bool:
        calls[broker] += 1
        return broker != 2

    async def wait() -> float:
        async with Client.connect(fake.bootstrap, timeout_s=0.2) as client:
            started = asyncio.get_running_loop().time()
            await propagation.wait_for_propagation(client, has_change)
            return asyncio.get_running_loop().time() - started

    assert asyncio.run(wait()) >= 0.2
    assert (calls[1], calls[3]) == (1, 1)
    assert calls[2] > 1


def test_each_broker_answers_for_itself(fake: FakeCluster) -> None:
    fake.add_topic("t", [1], [2], retention_ms="5")

    async def wait() -> list[object]:
        async with Client.connect(fake.bootstrap) as client:
            return [
                await propagation.count_partitions(client, 2, "t"),
                await propagation.count_partitions(client, 3, "nope"),
                await propagation.has_configs(client, 1, "t", {"retention.ms": " 5", "segment.bytes": None}),
                await propagation.has_configs(client, 1, "t", {"retention.ms": None}),
                await propagation.has_configs(client, 1, "t", {"retention.ms": "6"}),
            ]

    assert asyncio.run(wait()) == [2, 0, True, False, False]


def test_creating_a_topic_checks_every_broker(fake: FakeCluster) -> None:
    async def wait() -> None:
        async with Client.connect(fake.bootstrap) as client:
            fake.requests.clear()
            await topics.create(client, "made", assignment=[[1, 2, 3]])

    asyncio.run(wait())
    assert {broker for broker, _ in fake.requests_of(apis.METADATA)} == {1, 2, 3}
