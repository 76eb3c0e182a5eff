"""The client works the same with every API version that a broker may serve."""

from __future__ import annotations

import asyncio

import pytest

from insync.client import admin, apis, groups, offsets, topics
from insync.client.client import Client
from insync.client.consumer import Reader
from insync.client.errors import ErrorCode, UnsupportedError
from insync.client.model import Group
from insync.client.producer import Producer
from insync.wire.batch import NewRecord
from tests.fake_cluster import ALL_VERSIONS, FakeCluster
from tests.fake_state import FakeGroup

MAX_STEP = max(high - low for low, high in ALL_VERSIONS.values())


def ranges(step: int) -> dict[int, tuple[int, int]]:
    """Brokers that serve versions up to `step` above the client's oldest one."""
    return {key: (low, min(high, low + step)) for key, (low, high) in ALL_VERSIONS.items()}


async def use_every_api(fake: FakeCluster) -> None:
    """Use every API once and check its effect."""
    async with Client.connect(fake.bootstrap, timeout_s=2) as client:
        await topics.create(client, "t", partitions=3, replication_factor=3, configs={"min.insync.replicas": "2"})
        await topics.alter_configs(client, "t", {"retention.ms": "5"})
        await topics.create_partitions(client, "t", 4)
        topic = await topics.describe_one(client, "t")
        assert [p.index for p in topic.partitions] == [0, 1, 2, 3]
        assert topic.partitions[0].isr == (1, 2, 3)
        configs = await topics.describe_configs(client, "t")
        assert {n: configs[n].value for n in configs} == {"min.insync.replicas": "2", "retention.ms": "5"}

        producer = Producer(client, topic)
        await producer.start()
        await producer.send(1, [NewRecord(b"k", b"a"), NewRecord(None, b"b")], now_ms=500)
        ends = await offsets.list_leader_offsets(client, [topic])
        assert ends["t", 1].offset == 2
        stops = {index: end.offset for (_, index), end in ends.items()}
        reader = Reader(client, topic, dict.fromkeys(range(4), 0), stops)
        assert [(c.partition, c.record.value) async for c in reader.records()] == [(1, b"a"), (1, b"b")]
        assert (await offsets.list_log_ends(client, 2, [("t", 1)]))["t", 1].offset == 2
        assert (await offsets.describe_log_dirs(client, 3))[0].replicas["t", 1].size > 60
        assert (await offsets.find_epoch_end(client, "t", topic.partitions[1], 0)).error is ErrorCode.none

        await groups.commit_offsets(client, "g", {("t", 1): 1})
        assert await groups.list_committed_offsets(client, "g") == {("t", 1): 1}
        assert [g.id for g in await groups.list_groups(client)] == ["g"]
        assert (await groups.describe(client, "g")).state == "Empty"
        await groups.delete(client, "g")

        assert await admin.reassign(client, {("t", 0): [3, 2]}) == {("t", 0): (ErrorCode.none, "")}
        assert [r.target for r in await admin.list_reassignments(client)] == [(3, 2)]
        assert await admin.elect_leaders(client, admin.PREFERRED, [("t", 0)]) == {("t", 0): (ErrorCode.none, "")}
        assert [v.id for v in (await admin.describe_quorum(client)).voters] == [1, 2, 3]
        assert [b.id for b in (await client.describe_cluster()).brokers] == [1, 2, 3]
        await topics.delete(client, "t")
        assert fake.topics == {}


@pytest.mark.parametrize("step", range(MAX_STEP + 1))
def test_every_version_from_the_oldest_to_the_newest_works(step: int) -> None:
    with FakeCluster(versions=ranges(step)) as fake:
        asyncio.run(use_every_api(fake))
        versions = {name: version for _, name, version in fake.requests}
        assert versions["Produce"] == min(3 + step, 13)
        assert versions["Fetch"] == min(4 + step, 17)
        assert versions["ListOffsets"] == min(1 + step, 10)


def test_the_newest_common_version_is_used() -> None:
    assert apis.newest_common_version(apis.FETCH, (4, 99)) == apis.FETCH.high
    assert apis.newest_common_version(apis.FETCH, (0, 11)) == 11
    assert apis.newest_common_version(apis.FETCH, (0, 3)) is None
    assert apis.newest_common_version(apis.FETCH, (18, 30)) is None
    assert apis.newest_common_version(apis.FETCH, None) is None


def test_brokers_without_the_newer_apis_are_described_by_metadata() -> None:
    old = {
        k: v
        for k, v in ALL_VERSIONS.items()
        if k not in (apis.DESCRIBE_CLUSTER.key, apis.DESCRIBE_TOPIC_PARTITIONS.key)
    }

    async def describe(fake: FakeCluster) -> None:
        async with Client.connect(fake.bootstrap, timeout_s=2) as client:
            assert (await topics.describe_one(client, "t")).partitions[0].elr is None
            info = await client.describe_cluster()
            assert [broker.id for broker in info.brokers] == [1, 2, 3]
            assert not info.includes_fenced

    with FakeCluster(versions=old) as fake:
        fake.add_topic("t")
        asyncio.run(describe(fake))


def test_an_unsupported_api_is_named() -> None:
    versions = {k: v for k, v in ALL_VERSIONS.items() if k != apis.DESCRIBE_QUORUM.key}

    async def describe(fake: FakeCluster) -> None:
        async with Client.connect(fake.bootstrap, timeout_s=2) as client:
            await admin.describe_quorum(client)

    with FakeCluster(versions=versions) as fake, pytest.raises(UnsupportedError, match="needs DescribeQuorum 0 to 2"):
        asyncio.run(describe(fake))


def test_a_topic_on_several_pages_is_joined() -> None:
    async def describe(fake: FakeCluster) -> list[int]:
        async with Client.connect(fake.bootstrap, timeout_s=2) as client:
            described = await topics.describe(client)
            assert [topic.name for topic in described] == ["a", "b", "c"]
            return [len(topic.partitions) for topic in described]

    with FakeCluster() as fake:
        fake.add_topic("a", [1])
        fake.add_topic("b", *[[1]] * 5)
        fake.add_topic("c", *[[2]] * 2)
        assert asyncio.run(describe(fake)) == [1, 5, 2]


def test_the_assignment_of_a_member_is_parsed() -> None:
    data = b"\x00\x01\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\xff\xff\xff\xff"
    assert groups.parse_assignment(data) == (("t", 0), ("t", 3))
    assert groups.parse_assignment(b"") == ()
    group = FakeGroup(state="Stable")
    group.members = [
        {"member_id": "m-1", "group_instance_id": None, "client_id": "c", "client_host": "/h", "member_metadata": b"",
         "member_assignment": data}
    ]  # fmt: skip

    async def describe(fake: FakeCluster) -> Group:
        async with Client.connect(fake.bootstrap, timeout_s=2) as client:
            return await groups.describe(client, "g")

    with FakeCluster() as fake:
        fake.groups["g"] = group
        (member,) = asyncio.run(describe(fake)).members
    assert (member.id, member.assigned) == ("m-1", (("t", 0), ("t", 3)))
