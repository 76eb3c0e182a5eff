"""Write tests/data/apache-kafka-logs: log directories of two brokers of Apache Kafka.

    make apache-kafka && .venv/bin/python tools/apache_log_data.py

The README beside them describes their contents; tests/logdir/test_apache_directories.py checks that we read them.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from apache_kafka import ApacheCluster

TARGET = Path(__file__).resolve().parent.parent / "tests" / "data" / "apache-kafka-logs"
FIRST_TIMESTAMP_MS = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PER_CODEC = 20
TIMEOUT_S = 60.0
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.cleaner.backoff.ms": "100",
    "controlled.shutdown.enable": "false",  # the second of two nodes to stop has no controller
    "log.retention.ms": "-1",
}
TOPICS: dict[str, dict[str, str]] = {
    "codecs": {"segment.ms": "45000", "index.interval.bytes": "200"},
    "appended": {"message.timestamp.type": "LogAppendTime"},
    "compacted": {
        "cleanup.policy": "compact",
        "segment.ms": "10000",
        "min.cleanable.dirty.ratio": "0.001",
        "delete.retention.ms": str(2**40),
    },
    "transactions": {},
    "epochs": {},
}
KEPT_FILES = ("meta.properties", "replication-offset-checkpoint", "log-start-offset-checkpoint")
KEPT_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", "leader-epoch-checkpoint", "partition.metadata")


def main() -> int:
    with ApacheCluster(brokers=2, settings=SETTINGS) as kafka:
        create_topics(kafka.bootstrap)
        write_codecs(kafka.bootstrap)
        write_appended(kafka.bootstrap)
        write_transactions(kafka.bootstrap)
        write_compacted(kafka.bootstrap)
        write_epochs(kafka)
        for node in kafka.nodes.values():
            kafka.stop_node(node.id)
        for node in kafka.nodes.values():
            copy_logs(node.directory / "data", TARGET / f"broker-{node.id}")
    return 0


def create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, 1, 2, config=config) for name, config in TOPICS.items()]
    for future in admin.create_topics(topics).values():
        future.result(TIMEOUT_S)


def make_producer(bootstrap: str, **settings: str) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "enable.idempotence": True, **settings})


def write_codecs(bootstrap: str) -> None:
    """Five codecs, in batches of four records; timestamps are a second apart, and every second record has headers."""
    for number, codec in enumerate(CODECS):
        producer = make_producer(bootstrap, **{"compression.type": codec})
        for i in range(number * PER_CODEC, (number + 1) * PER_CODEC):
            headers: Any = [("number", b"%d" % i), ("empty", None)] if i % 2 else None
            producer.produce(
                "codecs",
                value(codec, i),
                b"k%d" % i,
                partition=0,
                timestamp=FIRST_TIMESTAMP_MS + 1_000 * i,
                headers=headers,
            )
            if i % 4 == 3:
                producer.flush()


def value(codec: str, i: int) -> bytes:
    return f"{codec} {i} ".encode() * 10


def write_appended(bootstrap: str) -> None:
    producer = make_producer(bootstrap)
    for i in range(10):
        producer.produce("appended", b"%d" % i, timestamp=FIRST_TIMESTAMP_MS)
    producer.flush()


def write_transactions(bootstrap: str) -> None:
    """Five committed records, five aborted ones, one without a transaction, and three committed ones."""
    producer = make_producer(bootstrap, **{"transactional.id": "one"})
    producer.init_transactions(TIMEOUT_S)
    for outcome, count in (("committed", 5), ("aborted", 5)):
        producer.begin_transaction()
        for i in range(count):
            producer.produce("transactions", f"{outcome} {i}".encode())
        producer.flush()
        (producer.commit_transaction if outcome == "committed" else producer.abort_transaction)(TIMEOUT_S)
    plain = make_producer(bootstrap)
    plain.produce("transactions", b"plain")
    plain.flush()
    producer.begin_transaction()
    for i in range(3):
        producer.produce("transactions", f"last {i}".encode())
    producer.commit_transaction(TIMEOUT_S)


def write_compacted(bootstrap: str) -> None:
    """Keys a to e, three times; then a tombstone for b. A last record rolls the segment, so that it can be cleaned."""
    producer = make_producer(bootstrap)
    timestamp_ms = FIRST_TIMESTAMP_MS
    for turn in range(3):
        for key in "abcde":
            producer.produce("compacted", f"{key}{turn}".encode(), key.encode(), timestamp=timestamp_ms)
        producer.flush()
        timestamp_ms += 1_000
    producer.produce("compacted", None, b"b", timestamp=timestamp_ms)
    producer.flush()
    producer.produce("compacted", b"end", b"end", timestamp=timestamp_ms + 60_000)
    producer.flush()
    deadline = time.monotonic() + TIMEOUT_S
    while len(read_offsets(bootstrap, "compacted")) > 6:
        if time.monotonic() > deadline:
            raise SystemExit(f"topic compacted was not compacted within {TIMEOUT_S:.0f} s")
        time.sleep(0.5)
    time.sleep(5)  # the follower cleans its replica by itself


def read_offsets(bootstrap: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    end = consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S)[1]
    offsets: list[Any] = []
    while not offsets or offsets[-1] < end - 1:
        offsets += [message.offset() for message in consumer.consume(100, 1.0) if message.error() is None]
    consumer.close()
    return offsets


def write_epochs(kafka: ApacheCluster) -> None:
    """Three records in each of two leader epochs."""
    for turn in range(2):
        producer = make_producer(kafka.bootstrap)
        for i in range(3):
            producer.produce("epochs", f"{turn} {i}".encode())
        producer.flush()
        if turn == 0:
            described = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics("epochs", timeout=TIMEOUT_S)
            leader = described.topics["epochs"].partitions[0].leader
            kafka.stop_node(leader)
            kafka.start_node(leader)
            kafka.wait_until_ready()
    time.sleep(6)  # high watermarks are checkpointed every five seconds


def copy_logs(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    for topic in TOPICS:
        (target / f"{topic}-0").mkdir(parents=True)
        for path in sorted((source / f"{topic}-0").iterdir()):
            if path.name.endswith(KEPT_SUFFIXES):
                shutil.copy(path, target / f"{topic}-0" / path.name)
    for name in KEPT_FILES:
        shutil.copy(source / name, target / name)


if __name__ == "__main__":
    sys.exit(main())
