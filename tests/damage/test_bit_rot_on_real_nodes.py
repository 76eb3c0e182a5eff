"""Bytes that change in the segments of running nodes (D6): clients notice nothing, and all replicas are repaired."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from insync.client.sync_client import SyncClient
from insync.findings import Finding
from insync.ops import explain, facts, health
from insync.testing import Cluster
from insync.wire import batch
from tests.polling import TIMEOUT_S, wait_until

TOPICS = ("scrubbed", "rebuilt", "unreadable")
PLAN = {"partitions": 1, "replication_factor": 3, "min_insync_replicas": 2, "segment_bytes": 20_000}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"insync.scrub.interval.ms": 500, "insync.fetch.verify.checksums": "true"}
    with Cluster(brokers=3, topics=dict.fromkeys(TOPICS, PLAN), settings=settings) as running:
        yield running


class Writer:
    """Sends records with acks=all and keeps those that were acknowledged."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = topic
        self._sent = 0
        self.acknowledged: list[str] = []
        self.failed: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "batch.num.messages": 5,
                "linger.ms": 1,
            }
        )

    def write(self, count: int) -> None:
        for _ in range(count):
            value = f"{self._sent:06d}-{'x' * 200}"
            self._sent += 1

            def delivered(error: KafkaError | None, _: object, value: str = value) -> None:
                self.failed.append(error) if error else self.acknowledged.append(value)

            self._producer.produce(self._topic, value, partition=0, on_delivery=delivered)
            self._producer.poll(0)

    def finish(self) -> list[str]:
        assert self._producer.flush(TIMEOUT_S) == 0
        assert not self.failed, self.failed[0]
        return self.acknowledged


def write_records(cluster: Cluster, topic: str, count: int) -> list[str]:
    """The records, which are acknowledged."""
    writer = Writer(cluster, topic)
    writer.write(count)
    return writer.finish()


def segments(cluster: Cluster, node: int, topic: str) -> list[Path]:
    return sorted((cluster.nodes[node].directory / "data" / "data" / f"{topic}-0").glob("*.log"))


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0x5A]))


def contents(cluster: Cluster, topic: str) -> list[bytes]:
    """The bytes of each replica's segments."""
    return [b"".join(path.read_bytes() for path in segments(cluster, node, topic)) for node in cluster.nodes]


def is_intact(cluster: Cluster, topic: str) -> bool:
    first, *others = contents(cluster, topic)
    headers = list(batch.iter_headers(first))
    sound = bool(headers) and all(batch.crc_ok(first, at, header) for at, header in headers)
    return sound and all(other == first for other in others)


def read(cluster: Cluster, topic: str, count: int) -> list[str]:
    """The first records of the topic, at least `count` of them."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "rot", "enable.auto.commit": False, "check.crcs": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[str] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(values) < count:
        assert time.monotonic() < deadline, f"{len(values)} of {count} records read"
        for message in consumer.consume(500, 0.2):
            assert message.error() is None, message.error()
            values.append((message.value() or b"").decode())
    consumer.close()
    return values


def findings(cluster: Cluster) -> list[Finding]:
    with SyncClient(cluster.bootstrap) as client:
        picture = client.call(health.snapshot_cluster)
    return [finding for reported in picture.node_findings.values() for finding in reported]


def log_lines(cluster: Cluster, node: int, *words: str) -> list[str]:
    text = cluster.log_of(node).read_text(errors="replace").splitlines()
    return [line for line in text if all(word in line for word in words)]


def test_damage_on_a_follower_and_on_the_leader_is_repaired_under_load(cluster: Cluster) -> None:
    """D6: everything acknowledged is read while bytes change, and in the end all replicas hold the same bytes."""
    topic = "scrubbed"
    writer = Writer(cluster, topic)
    writer.write(300)
    writer.finish()
    leader = cluster.wait_for_leader(topic)
    follower = next(node for node in cluster.nodes if node != leader)
    flip(segments(cluster, follower, topic)[0], 5_000)  # in a record
    flip(segments(cluster, leader, topic)[1], 9)  # the length of a batch
    writer.write(300)
    assert read(cluster, topic, 300)[:300] == writer.acknowledged[:300]
    for node in (leader, follower):
        wait_until(partial(log_lines, cluster, node, "batch_repaired", topic), "the batch is repaired")
        (line, *_) = log_lines(cluster, node, "event=finding", "WARNING", "corrupt_batch", topic)
        assert f"{topic}-0/0" in line
        assert "offsets" in line
    handed_over = ("leader_elected", f"topic={topic}", f"before={leader}", "its replica is damaged")
    assert any(log_lines(cluster, node, *handed_over) for node in cluster.nodes)
    writer.finish()
    cluster.wait_for_isr(topic, timeout_s=TIMEOUT_S)
    wait_until(lambda: is_intact(cluster, topic), "all replicas are intact and equal")
    assert read(cluster, topic, len(writer.acknowledged)) == writer.acknowledged
    wait_until(lambda: findings(cluster) == [], "the findings are cleared")


def test_a_replica_is_rebuilt_from_an_intact_copy_while_its_leader_is_damaged(cluster: Cluster) -> None:
    """D6: the third replica, which is intact, takes over from the leader, and both others copy from it."""
    topic = "rebuilt"
    acknowledged = write_records(cluster, topic, 300)
    leader = cluster.wait_for_leader(topic)
    rebuilt = next(node for node in cluster.nodes if node != leader)
    directory = segments(cluster, rebuilt, topic)[0].parent
    cluster.kill(rebuilt)
    shutil.rmtree(directory)
    flip(segments(cluster, leader, topic)[0], 5_000)
    cluster.start(rebuilt)
    cluster.wait_for_isr(topic, timeout_s=TIMEOUT_S)
    wait_until(lambda: is_intact(cluster, topic), "all replicas are intact and equal")
    assert read(cluster, topic, len(acknowledged)) == acknowledged
    wait_until(lambda: findings(cluster) == [], "the findings are cleared")


def test_damage_without_an_intact_copy_is_shown_until_it_is_healed(cluster: Cluster) -> None:
    """D6: by health and explain, with topic, offsets and file."""
    topic = "single"
    cluster.create_topic(topic, partitions=1, replication_factor=1)
    write_records(cluster, topic, 50)
    leader = cluster.wait_for_leader(topic)
    path = segments(cluster, leader, topic)[0]
    flip(path, 2_000)
    wait_until(lambda: any(finding.subject == "single-0" for finding in findings(cluster)), "the damage is found")
    with SyncClient(cluster.bootstrap) as client:
        problems = health.find_problems(client.call(health.snapshot_cluster))
        explanation = explain.explain(client.call(lambda connected: facts.gather_facts(connected, topic, 0, 0.0)))
    (problem,) = [problem for problem in problems if "single-0" in problem.where]
    assert (problem.severity, problem.what) == ("critical", "corrupt batch")
    assert "data/single-0/00000000000000000000.log" in problem.text
    assert explanation.state == "degraded"
    assert "corrupt batch: offsets" in explanation.replicas[0].why
    flip(path, 2_000)  # as if the file had been restored from a backup
    wait_until(lambda: findings(cluster) == [], "the finding is cleared")


def test_a_bad_sector_of_a_leader_ends_no_node_and_loses_no_record(cluster: Cluster) -> None:
    """D6: a consumer reads it first and gets all records nevertheless, and the leader's log is repaired."""
    topic = "unreadable"
    acknowledged = write_records(cluster, topic, 300)
    leader = cluster.leader_of(topic)
    pid = cluster.nodes[leader].process.pid  # type: ignore[union-attr]
    cluster.break_sectors(leader, segments(cluster, leader, topic)[1], 4_096, 8_192)
    assert read(cluster, topic, len(acknowledged)) == acknowledged
    wait_until(lambda: bool(log_lines(cluster, leader, "batch_repaired", topic)), "repaired")
    wait_until(lambda: not findings(cluster), "all findings cleared")
    assert is_intact(cluster, topic)
    assert cluster.nodes[leader].process.pid == pid  # type: ignore[union-attr]
    cluster.mend()
