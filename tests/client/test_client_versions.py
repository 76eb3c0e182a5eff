"""Whatever versions the brokers speak, the client says and hears the same things."""

from __future__ import annotations

import asyncio

import pytest

from fake_cluster import EVERY_API, FakeCluster, FakeGroup
from insync.client import admin, apis, groups, offsets, topics
from insync.client.client import Client
from insync.client.consumer import Reader
from insync.client.errors import ErrorCode, UnsupportedError
from insync.client.producer import Producer
from insync.wire.batch import NewRecord

MOST_STEPS = max(high - low for low, high in EVERY_API.values())


def ranges(step: int) -> dict[int, tuple[int, int]]:
    """Brokers that know no version more than `step` above the client's oldest one."""
    return {key: (low, min(high, low + step)) for key, (low, high) in EVERY_API.items()}


async def tour(fake: FakeCluster) -> None:
    """Every API once, with what it must have brought about."""
    async with Client.connect(fake.bootstrap, timeout_s=2) as cluster:
        await topics.create(cluster, "t", partitions=3, replication_factor=3, configs={"min.insync.replicas": "2"})
        await topics.alter_configs(cluster, "t", {"retention.ms": "5"})
        await topics.create_partitions(cluster, "t", 4)
        topic = await topics.describe_one(cluster, "t")
        assert [p.index for p in topic.partitions] == [0, 1, 2, 3]
        assert topic.partitions[0].isr == (1, 2, 3)
        configs = await topics.describe_configs(cluster, "t")
        assert {n: configs[n].value for n in configs} == {"min.insync.replicas": "2", "retention.ms": "5"}

        producer = Producer(cluster, topic)
        await producer.start()
        await producer.send(1, [NewRecord(b"k", b"a"), NewRecord(None, b"b")], now_ms=500)
        ends = await offsets.list_leader_offsets(cluster, [topic])
        assert ends["t", 1].offset == 2
        stops = {index: end.offset for (_, index), end in ends.items()}
        reader = Reader(cluster, topic, dict.fromkeys(range(4), 0), stops)
        assert [(c.partition, c.record.value) async for c in reader.records()] == [(1, b"a"), (1, b"b")]
        assert (await offsets.list_log_ends(cluster, 2, [("t", 1)]))["t", 1].offset == 2
        assert (await offsets.describe_log_dirs(cluster, 3))[0].replicas["t", 1].size > 60
        assert (await offsets.find_epoch_end(cluster, "t", topic.partitions[1], 0)).error is ErrorCode.none

        await groups.commit_offsets(cluster, "g", {("t", 1): 1})
        assert await groups.list_committed_offsets(cluster, "g") == {("t", 1): 1}
        assert [g.id for g in await groups.list_groups(cluster)] == ["g"]
        assert (await groups.describe(cluster, "g")).state == "Empty"
        await groups.delete(cluster, "g")

        assert await admin.reassign(cluster, {("t", 0): [3, 2]}) == {("t", 0): (ErrorCode.none, "")}
        assert [r.target for r in await admin.list_reassignments(cluster)] == [(3, 2)]
        assert await admin.elect_leaders(cluster, admin.PREFERRED, [("t", 0)]) == {("t", 0): (ErrorCode.none, "")}
        assert [v.id for v in (await admin.describe_quorum(cluster)).voters] == [1, 2, 3]
        assert [b.id for b in (await cluster.describe_cluster()).brokers] == [1, 2, 3]
        await topics.delete(cluster, "t")
        assert fake.topics == {}


@pytest.mark.parametrize("step", range(MOST_STEPS + 1))
def test_every_version_from_the_oldest_to_the_newest_works(step: int) -> None:
    with FakeCluster(versions=ranges(step)) as fake:
        asyncio.run(tour(fake))
        spoken = {name: version for _, name, version in fake.seen}
        assert spoken["Produce"] == min(3 + step, 13)
        assert spoken["Fetch"] == min(4 + step, 17)
        assert spoken["ListOffsets"] == min(1 + step, 10)


def test_the_newest_version_that_both_know_is_spoken() -> None:
    assert apis.newest_common_version(apis.FETCH, (4, 99)) == apis.FETCH.high
    assert apis.newest_common_version(apis.FETCH, (0, 11)) == 11
    assert apis.newest_common_version(apis.FETCH, (0, 3)) is None
    assert apis.newest_common_version(apis.FETCH, (18, 30)) is None
    assert apis.newest_common_version(apis.FETCH, None) is None


def test_brokers_without_the_newer_apis_are_described_by_metadata() -> None:
    old = {
        k: v for k, v in EVERY_API.items() if k not in (apis.DESCRIBE_CLUSTER.key, apis.DESCRIBE_TOPIC_PARTITIONS.key)
    }

    async def look(fake: FakeCluster) -> None:
        async with Client.connect(fake.bootstrap, timeout_s=2) as cluster:
            assert (await topics.describe_one(cluster, "t")).partitions[0].elr is None
            info = await cluster.describe_cluster()
            assert [broker.id for broker in info.brokers] == [1, 2, 3]
            assert not info.includes_fenced

    with FakeCluster(versions=old) as fake:
        fake.topic("t")
        asyncio.run(look(fake))


def test_an_api_that_no_broker_serves_is_named() -> None:
    versions = {k: v for k, v in EVERY_API.items() if k != apis.DESCRIBE_QUORUM.key}

    async def ask(fake: FakeCluster) -> None:
        async with Client.connect(fake.bootstrap, timeout_s=2) as cluster:
            await admin.describe_quorum(cluster)

    with FakeCluster(versions=versions) as fake, pytest.raises(UnsupportedError, match="needs DescribeQuorum 0 to 2"):
        asyncio.run(ask(fake))


def test_a_topic_cut_by_a_page_is_put_together_again() -> None:
    async def look(fake: FakeCluster) -> list[int]:
        async with Client.connect(fake.bootstrap, timeout_s=2) as cluster:
            found = await topics.describe(cluster)
            assert [topic.name for topic in found] == ["a", "b", "c"]
            return [len(topic.partitions) for topic in found]

    with FakeCluster() as fake:
        fake.topic("a", [1])
        fake.topic("b", *[[1]] * 5)
        fake.topic("c", *[[2]] * 2)
        assert asyncio.run(look(fake)) == [1, 5, 2]


def test_a_members_assignment_is_read() -> None:
    data = b"\x00\x01\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\xff\xff\xff\xff"
    assert groups.assigned_partitions(data) == (("t", 0), ("t", 3))
    assert groups.assigned_partitions(b"") == ()
    group = FakeGroup(state="Stable")
    group.members = [
        {"member_id": "m-1", "group_instance_id": None, "client_id": "c", "client_host": "/h", "member_metadata": b"",
         "member_assignment": data}
    ]  # fmt: skip

    async def look(fake: FakeCluster) -> groups.Group:
        async with Client.connect(fake.bootstrap, timeout_s=2) as cluster:
            return await groups.describe(cluster, "g")

    with FakeCluster() as fake:
        fake.groups["g"] = group
        (member,) = asyncio.run(look(fake)).members
    assert (member.id, member.assigned) == ("m-1", (("t", 0), ("t", 3)))
