"""Make tests/data/apache-kafka-logs: log directories of two brokers, written by Apache Kafka.

    make apache-kafka && .venv/bin/python tools/apache_log_data.py

What is in them is described in the README beside them, and tested by tests/logdir/test_apache_directories.py.
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
FIRST = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PER_CODEC = 20
PATIENCE_S = 60.0
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.cleaner.backoff.ms": "100",
    "controlled.shutdown.enable": "false",  # the last node of two has no controller to ask
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
KEPT = ("meta.properties", "replication-offset-checkpoint", "log-start-offset-checkpoint")
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", "leader-epoch-checkpoint", "partition.metadata")


def main() -> int:
    with ApacheCluster(brokers=2, settings=SETTINGS) as kafka:
        create(kafka.bootstrap)
        codecs(kafka.bootstrap)
        appended(kafka.bootstrap)
        transactions(kafka.bootstrap)
        compacted(kafka.bootstrap)
        epochs(kafka)
        for node in kafka.nodes.values():
            kafka.stop_node(node.id)
        for node in kafka.nodes.values():
            keep(node.directory / "data", TARGET / f"broker-{node.id}")
    return 0


def create(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [NewTopic(name, 1, 2, config=config) for name, config in TOPICS.items()]
    for future in admin.create_topics(wanted).values():
        future.result(PATIENCE_S)


def producer(bootstrap: str, **settings: str) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "enable.idempotence": True, **settings})


def codecs(bootstrap: str) -> None:
    """Five codecs, a batch of four records every four seconds; every second record has headers."""
    for number, codec in enumerate(CODECS):
        sending = producer(bootstrap, **{"compression.type": codec})
        for i in range(number * PER_CODEC, (number + 1) * PER_CODEC):
            headers: Any = [("number", b"%d" % i), ("empty", None)] if i % 2 else None
            sending.produce(
                "codecs", value(codec, i), b"k%d" % i, partition=0, timestamp=FIRST + 1_000 * i, headers=headers
            )
            if i % 4 == 3:
                sending.flush()


def value(codec: str, i: int) -> bytes:
    return f"{codec} {i} ".encode() * 10


def appended(bootstrap: str) -> None:
    sending = producer(bootstrap)
    for i in range(10):
        sending.produce("appended", b"%d" % i, timestamp=FIRST)
    sending.flush()


def transactions(bootstrap: str) -> None:
    """Five records that are committed, five that are aborted, one without a transaction, three committed."""
    sending = producer(bootstrap, **{"transactional.id": "one"})
    sending.init_transactions(PATIENCE_S)
    for verdict, count in (("committed", 5), ("aborted", 5)):
        sending.begin_transaction()
        for i in range(count):
            sending.produce("transactions", f"{verdict} {i}".encode())
        sending.flush()
        (sending.commit_transaction if verdict == "committed" else sending.abort_transaction)(PATIENCE_S)
    plain = producer(bootstrap)
    plain.produce("transactions", b"plain")
    plain.flush()
    sending.begin_transaction()
    for i in range(3):
        sending.produce("transactions", f"last {i}".encode())
    sending.commit_transaction(PATIENCE_S)


def compacted(bootstrap: str) -> None:
    """Keys a to e, three times; then b is deleted. A last record closes the segment that is to be cleaned."""
    sending = producer(bootstrap)
    at = FIRST
    for turn in range(3):
        for key in "abcde":
            sending.produce("compacted", f"{key}{turn}".encode(), key.encode(), timestamp=at)
        sending.flush()
        at += 1_000
    sending.produce("compacted", None, b"b", timestamp=at)
    sending.flush()
    sending.produce("compacted", b"end", b"end", timestamp=at + 60_000)
    sending.flush()
    deadline = time.monotonic() + PATIENCE_S
    while len(offsets(bootstrap, "compacted")) > 6:
        if time.monotonic() > deadline:
            raise SystemExit("nothing was compacted")
        time.sleep(0.5)
    time.sleep(5)  # the other replica has a cleaner of its own


def offsets(bootstrap: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "look", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    end = consumer.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE_S)[1]
    found: list[Any] = []
    while not found or found[-1] < end - 1:
        found += [message.offset() for message in consumer.consume(100, 1.0) if message.error() is None]
    consumer.close()
    return found


def epochs(kafka: ApacheCluster) -> None:
    """Two leaders, one after the other, three records each."""
    for turn in range(2):
        sending = producer(kafka.bootstrap)
        for i in range(3):
            sending.produce("epochs", f"{turn} {i}".encode())
        sending.flush()
        if turn == 0:
            described = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics("epochs", timeout=PATIENCE_S)
            leader = described.topics["epochs"].partitions[0].leader
            kafka.stop_node(leader)
            kafka.start(leader)
            kafka.wait_until_ready()
    time.sleep(6)  # high watermarks are written down every five seconds


def keep(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    for topic in TOPICS:
        (target / f"{topic}-0").mkdir(parents=True)
        for path in sorted((source / f"{topic}-0").iterdir()):
            if path.name.endswith(SUFFIXES):
                shutil.copy(path, target / f"{topic}-0" / path.name)
    for name in KEPT:
        shutil.copy(source / name, target / name)


if __name__ == "__main__":
    sys.exit(main())
