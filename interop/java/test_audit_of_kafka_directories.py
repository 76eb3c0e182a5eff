"""Audits of directories that Apache Kafka's brokers wrote: stopped cleanly, killed, and damaged."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import apache_kafka
from insync.logdir.options import ReadOptions
from insync.pipeline.audit.findings import group_by_cause
from insync.pipeline.audit.logs import audit_logs

TIMEOUT_S = 60.0
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "log.retention.check.interval.ms": "500",
    "log.cleaner.backoff.ms": "500",
    "log.initial.task.delay.ms": "100",
}
TOPICS = {
    "orders": {"segment.bytes": "1048576", "segment.ms": "600000"},
    "old": {"segment.ms": "300", "retention.ms": "1000", "file.delete.delay.ms": "100"},
    "latest": {"cleanup.policy": "compact", "segment.ms": "300", "min.cleanable.dirty.ratio": "0.01"},
    "payments": {},
    "empty": {},
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directories of three brokers. Brokers 3 and 1 were killed, 2 was stopped cleanly in between."""
    directory = tmp_path_factory.mktemp("kafka")
    with apache_kafka.ApacheCluster(3, str(directory), SETTINGS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topics = [NewTopic(name, 2, 3, config=config) for name, config in TOPICS.items()]
        for created in admin.create_topics(topics).values():
            created.result(TIMEOUT_S)
        for _ in range(6):
            _produce(cluster.bootstrap, "orders", 20_000)
            _produce(cluster.bootstrap, "old", 200)
            _produce(cluster.bootstrap, "latest", 200)
            time.sleep(0.5)  # so that segments are old enough to be closed, deleted and compacted
        _produce_transactions(cluster.bootstrap)
        cluster.kill(3)
        _produce(cluster.bootstrap, "orders", 1_000)
        cluster.stop_node(2)
        cluster.kill(1)  # without a quorum it would wait for minutes
    return directory


def _produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for number in range(count):
        producer.produce(topic, b"value %d " % number * 5, b"key %d" % (number % 50))
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def _produce_transactions(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
    producer.init_transactions(TIMEOUT_S)
    for number in range(4):
        producer.begin_transaction()
        for i in range(10):
            producer.produce("payments", b"payment %d" % i)
        if number % 2:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)


def audit(directory: Path) -> list[str]:
    paths = tuple(str(path) for path in sorted(directory.glob("node-*/data")))
    return [str(cause) for cause in group_by_cause(audit_logs(ReadOptions(paths=paths)).findings)]


def test_directories_of_kafka_have_no_findings(kafka: Path) -> None:
    """Retention, compaction, transactions, snapshots of producers and of the metadata, a broker that was killed."""
    assert list(kafka.glob("node-1/data/__cluster_metadata-0/*-*.checkpoint"))
    assert int(sorted(kafka.glob("node-1/data/old-0/*.log"))[0].stem) > 0, "retention has deleted nothing"
    assert audit(kafka) == []


def test_damage_in_directories_of_kafka_is_named_once(kafka: Path, tmp_path: Path) -> None:
    shutil.copytree(kafka, tmp_path / "kafka")
    one, two = tmp_path / "kafka/node-1/data", tmp_path / "kafka/node-2/data"
    shutil.rmtree(one / "orders-0")
    state = one / "__cluster_metadata-0/quorum-state"
    state.write_bytes(state.read_bytes()[:-5])
    log = sorted((two / "orders-1").glob("*.log"))[0]
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    sorted((two / "orders-0").glob("*.snapshot"))[-1].write_bytes(b"")
    causes = audit(tmp_path / "kafka")
    assert [cause.partition(" offset")[0].partition(": is ")[0].partition(": there")[0] for cause in causes] == [
        "missing: broker 1 orders-0",
        "crc: broker 2 orders-1",
        "quorum: broker 1 __cluster_metadata-0: cannot be read: the file is unreadable (JSONDecodeError) ("
        + f"{state})",
        "producers: broker 2 orders-0",
    ]
