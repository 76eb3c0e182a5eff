"""What changes between two runs of a mirror: partitions, groups, topics. Source and target are one cluster here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from insync.client import groups, topics
from insync.client.sync_client import SyncClient
from insync.pipeline.mirror.errors import MirrorError, SourceLossError
from insync.pipeline.mirror.target import TopicSettings
from insync.testing import Cluster
from tests.pipeline.lake_data import delete_records, numbered, produce
from tests.pipeline.mirror_here import compare, make_options, mirror


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1) as running:
        yield running


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[SyncClient]:
    with SyncClient(cluster.bootstrap) as connected:
        yield connected


def commit(cluster: Cluster, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def test_a_topic_is_created_with_its_configs_and_gets_new_partitions(
    cluster: Cluster, client: SyncClient, tmp_path: Path
) -> None:
    cluster.create_topic("grows", partitions=1, retention_ms=90_000_000)
    produce(cluster.bootstrap, "grows", [{"value": b"first"}])
    settings = TopicSettings(configs={"max.message.bytes": "2000000"})
    options = make_options(cluster.bootstrap, cluster.bootstrap, tmp_path, "grows=grown", topic_settings=settings)
    mirror(options)
    configs = client.call(lambda connected: topics.describe_configs(connected, "grown"))
    assert (configs["retention.ms"].value, configs["max.message.bytes"].value) == ("90000000", "2000000")
    client.call(lambda connected: topics.create_partitions(connected, "grows", 3))
    produce(cluster.bootstrap, "grows", numbered(0, 30, partitions=3))
    summary = mirror(options)
    assert (summary.rows, [report.rows for report in summary.partitions]) == (30, [11, 10, 10])
    assert summary.notes == ["topic 'grown': 1 partition became 3, as in the source"]
    assert compare(options).differences == []


def test_only_offsets_that_the_mirror_set_are_moved(cluster: Cluster, client: SyncClient, tmp_path: Path) -> None:
    """A group's name is the same in both clusters; here both are one, so each group has offsets of two topics."""

    def committed(group: str) -> int:
        return client.call(lambda connected: groups.list_committed_offsets(connected, group))["led-copy", 0]

    cluster.create_topic("led", partitions=1)
    produce(cluster.bootstrap, "led", numbered(0, 50))
    delete_records(cluster.bootstrap, "led", before=10)
    options = make_options(cluster.bootstrap, cluster.bootstrap, tmp_path, "led=led-copy", groups="follows|moved")
    commit(cluster, "follows", "led", 30)
    commit(cluster, "moved", "led", 30)
    commit(cluster, "ignored", "led", 30)
    assert mirror(options).groups == {"follows": {("led-copy", 0): 20}, "moved": {("led-copy", 0): 20}}
    commit(cluster, "follows", "led", 25)  # reset in the source
    commit(cluster, "moved", "led", 35)
    commit(cluster, "moved", "led-copy", 22)  # consumed in the target
    summary = mirror(options)
    assert (committed("follows"), committed("moved")) == (15, 22)
    assert summary.notes == [
        "group 'moved' on led-copy-0 is at 22 in the target, which this mirror did not set: left alone, where the "
        "source's offset would be 25"
    ]
    (difference,) = compare(options).differences
    assert (difference.kind, "3 offsets would be read again" in difference.text) == ("group", True)


def test_a_recreated_source_is_an_error(cluster: Cluster, client: SyncClient, tmp_path: Path) -> None:
    options = make_options(cluster.bootstrap, cluster.bootstrap, tmp_path, "again=again-copy", groups="")
    for count in (5, 9):
        cluster.create_topic("again", partitions=1)
        produce(cluster.bootstrap, "again", numbered(0, count))
        if count == 5:
            assert mirror(options).rows == 5
            client.call(lambda connected: topics.delete(connected, "again"))
    with pytest.raises(SourceLossError, match="the topic was deleted and recreated"):
        mirror(options)


def test_a_deleted_or_recreated_target_is_an_error(cluster: Cluster, client: SyncClient, tmp_path: Path) -> None:
    options = make_options(cluster.bootstrap, cluster.bootstrap, tmp_path, "kept=gone", groups="")
    cluster.create_topic("kept", partitions=1)
    mirror(options)
    client.call(lambda connected: topics.delete(connected, "gone"))
    with pytest.raises(MirrorError, match=r"of the target was deleted since this mirror began"):
        mirror(options)
    cluster.create_topic("gone", partitions=1)
    with pytest.raises(MirrorError, match=r"of the target was recreated since this mirror began"):
        mirror(options)


def test_what_cannot_be_mirrored_is_refused_before_anything_is_written(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("small", partitions=1)
    cluster.create_topic("large", partitions=3)
    cluster.create_topic("stamped", partitions=1, message_timestamp_type="LogAppendTime")
    bootstraps = cluster.bootstrap, cluster.bootstrap
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("small=small", {}, "source and target are the same cluster"),
        ("small=large", {}, "has 3 partitions and 'small' has 1: a mirror writes partition to partition"),
        ("small=stamped", {}, "message.timestamp.type LogAppendTime: timestamps would be lost"),
        ("small=absent", {"topic_settings": TopicSettings(create=False)}, "--no-create forbids creating it"),
        ("large=small", {"topic_settings": TopicSettings(create=False)}, "has 1 of 3 partitions, and --no-create"),
    ]
    for pair, changes, message in refused:
        with pytest.raises(MirrorError, match=message):
            mirror(make_options(*bootstraps, tmp_path / pair, pair, groups="", **changes))
    mirror(make_options(*bootstraps, tmp_path / "used", "small=fresh", groups=""))
    with pytest.raises(MirrorError, match="has the state of a mirror of 'small' into 'fresh', not into 'other'"):
        mirror(make_options(*bootstraps, tmp_path / "used", "small=other", groups=""))
