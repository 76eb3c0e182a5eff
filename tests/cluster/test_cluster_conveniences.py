"""What a test of a service needs besides faults: topics, records, faults that end with a block, and an event loop."""

from __future__ import annotations

import asyncio
import time

import pytest

from insync import AsyncCluster, Cluster, ClusterError
from insync.cluster.faults import CLIENTS


@pytest.fixture
def cluster(insync_session_cluster: Cluster) -> Cluster:
    return insync_session_cluster


def test_records_are_written_and_read_back(cluster: Cluster) -> None:
    topic = cluster.fresh_topic(partitions=3)
    assert cluster.produce(topic, "a", b"b", None, partition=1) == [(1, 0), (1, 1), (1, 2)]
    assert cluster.produce(topic, "keyed", key="k", headers={"h": b"v"}) == [(2, 0)]
    read = cluster.consume(topic)
    assert [(record.partition, record.offset, record.value) for record in read] == [
        (1, 0, b"a"),
        (1, 1, b"b"),
        (1, 2, None),
        (2, 0, b"keyed"),
    ]
    assert (read[3].key, read[3].headers, read[3].text) == (b"k", (("h", b"v"),), "keyed")
    assert [record.text for record in cluster.consume(topic, 2, partition=1)] == ["a", "b"]
    assert cluster.consume(topic, 0) == []
    with pytest.raises(ClusterError, match=r"read 3 records, but not 4 records, in 0\.5 s"):
        cluster.consume(topic, 4, partition=1, timeout_s=0.5)
    with pytest.raises(ClusterError, match="has no partition 3, only 0 to 2"):
        cluster.consume(topic, partition=3)
    with pytest.raises(ClusterError, match="has no partition 7, only 0 to 2"):
        cluster.produce(topic, "x", partition=7)


def test_a_deleted_topic_is_unknown(cluster: Cluster) -> None:
    topic = cluster.fresh_topic("short-lived")
    assert topic.startswith("short-lived-")
    cluster.delete_topic(topic)
    with pytest.raises(ClusterError, match=f"no broker knows topic '{topic}'"):
        cluster.leader_of(topic)
    with pytest.raises(ClusterError, match=topic):
        cluster.delete_topic(topic)


def test_faults_of_a_block_end_with_it_and_others_stay(cluster: Cluster) -> None:
    topic = cluster.fresh_topic()
    leader = cluster.kill_leader_of(topic)
    assert not cluster.nodes[leader].is_running
    cluster.start(leader)
    node = cluster.wait_for_leader(topic)
    with cluster.killed(node):
        other = cluster.wait_for_leader(topic, other_than=node)
        assert f"{node} down" in repr(cluster)
    with cluster.paused(other):
        assert f"{other} paused" in repr(cluster)
    assert "down" not in repr(cluster)
    assert "paused" not in repr(cluster)
    cluster.partition({1}, {2})

    def fail_in_a_cut() -> None:
        with cluster.cut({1}), cluster.cut("clients", {3}):
            assert cluster._processes.faults[1].cut_from == {2, 3}
            assert cluster._processes.faults[3].deaf_to == {1, CLIENTS}
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_a_cut()
    assert cluster._processes.faults[1].cut_from == {2}
    assert cluster._processes.faults[3].deaf_to == frozenset()
    cluster.heal()
    assert cluster._processes.faults[1].cut_from == frozenset()


def test_a_client_that_is_cut_off_gets_no_answer(cluster: Cluster) -> None:
    topic = cluster.fresh_topic()
    cluster.produce(topic, "before")
    with cluster.cut("clients"):
        assert cluster.leader_of(topic) in cluster.nodes  # the supervisor still gets one
        with pytest.raises(ClusterError, match="not answer"):
            cluster.produce(topic, "during", timeout_s=0.5)
    cluster.produce(topic, "after")
    assert [record.text for record in cluster.consume(topic)] == ["before", "after"]


def test_a_slow_network_delays_clients(cluster: Cluster) -> None:
    topic = cluster.fresh_topic()
    with cluster.slowed("clients", latency_ms=100):
        began = time.monotonic()
        cluster.produce(topic, "late")
        assert time.monotonic() - began > 0.4  # at least two round trips: versions or metadata, and the record


def test_a_clock_that_jumps_shows_in_timestamps(cluster: Cluster) -> None:
    topic = cluster.fresh_topic(replication_factor=1, message_timestamp_type="LogAppendTime")
    leader = cluster.leader_of(topic)
    cluster.jump_clock(leader, 86_400)
    cluster.wait_for_leader(topic)
    cluster.produce(topic, "tomorrow")
    ahead_s = cluster.consume(topic)[0].timestamp_ms / 1_000 - time.time()
    assert 86_000 < ahead_s < 87_000


def test_a_reset_cluster_is_as_after_its_start(insync_cluster_factory: type[Cluster]) -> None:
    cluster = insync_cluster_factory(brokers=1, topics={"kept": 2})
    cluster.produce("kept", "gone after the reset")
    cluster.create_topic("other")
    cluster.kill(1)
    cluster.reset()
    assert cluster.consume("kept") == []
    assert cluster.isr_of("kept", 1) == (1,)
    with pytest.raises(ClusterError, match="no broker knows topic 'other'"):
        cluster.leader_of("other")


def test_methods_as_coroutines(cluster: Cluster) -> None:
    async def fail_over() -> tuple[int, int]:
        aio = AsyncCluster.of(cluster)
        topic = await aio.fresh_topic()
        async with aio.slowed(latency_ms=1):
            await aio.produce(topic, "value")
        leader = await aio.kill_leader_of(topic)
        new, _ = await asyncio.gather(aio.wait_for_leader(topic, other_than=leader), asyncio.sleep(0))
        assert [record.text for record in await aio.consume(topic)] == ["value"]
        return leader, new

    leader, new = asyncio.run(fail_over())
    assert leader != new


def test_every_method_has_a_coroutine() -> None:
    public = {name for name in vars(Cluster) if not name.startswith("_")}
    assert public - vars(AsyncCluster).keys() == {
        "client_certificate",
        "is_secured",
        "last_lines_of",
        "replace_certificate",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"brokers": 0}, "brokers=0: must be a whole number from 1"),
        ({"brokers": "3"}, "brokers='3': must be a whole number"),
        ({"controllers": -1}, "controllers=-1: must be a whole number from 0"),
    ],
)
def test_wrong_options_are_refused_before_anything_starts(options: dict[str, object], message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        Cluster(**options)  # type: ignore[arg-type]


def test_what_cannot_come_true_is_not_waited_for(cluster: Cluster) -> None:
    topic = cluster.fresh_topic()
    with pytest.raises(ClusterError, match="has 3 replicas: size=4 is impossible"):
        cluster.wait_for_isr(topic, size=4)
    with pytest.raises(ClusterError, match=f"topic '{topic}' has no partition 5"):
        cluster.leader_of(topic, 5)
    with pytest.raises(ClusterError, match="fsync_ms=-1"):
        cluster.slow_disk(1, -1)
