"""Archive and replay on Apache Kafka's brokers, where offsets are missing: of transactions, and by compaction."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

import apache_kafka
from insync.pipeline.archive import job as archive
from insync.pipeline.archive.job import ArchiveOptions
from insync.pipeline.archive.verify import verify_lake
from insync.pipeline.replay import job as replay
from insync.pipeline.replay.job import ReplayOptions
from interop.spark.kafka_topics import create, transaction
from tests.spark.spark_data import numbered
from tests.spark.standalone import until

PATIENCE_S = 120
KEYS, ROUNDS = 10, 30


@pytest.fixture
def bootstrap(apache: apache_kafka.ApacheCluster) -> str:
    return apache.bootstrap


def archived(spark: SparkSession, bootstrap: str, topic: str, lake: Path, isolation: str = "read_committed") -> int:
    """How many rows were new. The lake is whole, and so is its ledger: transaction markers are covered too."""
    options = ArchiveOptions(bootstrap=bootstrap, lake=str(lake), topics=(topic,), isolation=isolation)
    rows = archive.run(spark, options).rows
    verdict = verify_lake(lake, bootstrap)
    assert (verdict.problems, [each.behind for each in verdict.partitions]) == ([], [0])
    return rows


def lake_values(spark: SparkSession, lake: Path) -> list[bytes]:
    rows = spark.read.parquet(str(lake)).orderBy("offset").select("value").collect()
    return [bytes(row.value) for row in rows]


def test_an_archive_has_what_was_committed_and_covers_what_was_not(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    create(bootstrap, "sales")
    transaction(bootstrap, "sales", numbered(0, 5), commit=True)
    transaction(bootstrap, "sales", numbered(5, 8), commit=False)
    assert archived(spark, bootstrap, "sales", tmp_path / "committed") == 5
    transaction(bootstrap, "sales", numbered(8, 9), commit=False)
    assert archived(spark, bootstrap, "sales", tmp_path / "committed") == 0
    transaction(bootstrap, "sales", numbered(9, 11), commit=True)
    assert archived(spark, bootstrap, "sales", tmp_path / "committed") == 2
    assert lake_values(spark, tmp_path / "committed") == numbered(0, 5) + numbered(9, 11)
    assert archived(spark, bootstrap, "sales", tmp_path / "all", "read_uncommitted") == 11


def test_a_compacted_topic_is_archived_and_comes_back(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    cleaned = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_ms": "500"}
    create(bootstrap, "state", **cleaned)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for i in range(KEYS * ROUNDS):
        producer.produce("state", b"v%d" % i, key=b"k%d" % (i % KEYS), partition=0)
    producer.flush(60)

    def roll() -> bool:
        """A segment is closed by the first record after its time, and only closed ones are compacted."""
        producer.produce("state", b"later", key=b"later", partition=0)
        producer.flush(60)
        return sum(value != b"later" for value in consumed(bootstrap, "state")) == KEYS

    until(roll, "all but the last of each key are gone")
    left = consumed(bootstrap, "state")
    assert archived(spark, bootstrap, "state", tmp_path) >= KEYS
    assert lake_values(spark, tmp_path)[:KEYS] == left[:KEYS]
    create(bootstrap, "state-again")
    done = replay.run(spark, ReplayOptions(bootstrap=bootstrap, lake=str(tmp_path), topics={"state": "state-again"}))
    assert consumed(bootstrap, "state-again") == lake_values(spark, tmp_path)
    assert done.rows == len(lake_values(spark, tmp_path))


def consumed(bootstrap: str, topic: str) -> list[bytes]:
    """What a plain consumer gets from beginning to end."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while (message := consumer.poll(PATIENCE_S)) is not None and message.error() is None:
        found.append(message.value())
    consumer.close()
    return found
