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
from interop.spark.kafka_topics import create_topic, run_transaction
from tests.polling import wait_until
from tests.spark.spark_data import numbered

TIMEOUT_S = 120
KEYS, ROUNDS = 10, 30


@pytest.fixture
def bootstrap(apache: apache_kafka.ApacheCluster) -> str:
    return apache.bootstrap


def run_archive(spark: SparkSession, bootstrap: str, topic: str, lake: Path, isolation: str = "read_committed") -> int:
    """Archive, and verify that the ledger covers every offset, markers included. Returns the number of new rows."""
    options = ArchiveOptions(bootstrap=bootstrap, lake=str(lake), topics=(topic,), isolation=isolation)
    rows = archive.run(spark, options).rows
    verification = verify_lake(lake, bootstrap)
    assert (verification.problems, [partition.behind for partition in verification.partitions]) == ([], [0])
    return rows


def lake_values(spark: SparkSession, lake: Path) -> list[bytes]:
    rows = spark.read.parquet(str(lake)).orderBy("offset").select("value").collect()
    return [bytes(row.value) for row in rows]


def test_an_archive_has_committed_records_and_covers_aborted_ones(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, "sales")
    run_transaction(bootstrap, "sales", numbered(0, 5), commit=True)
    run_transaction(bootstrap, "sales", numbered(5, 8), commit=False)
    assert run_archive(spark, bootstrap, "sales", tmp_path / "committed") == 5
    run_transaction(bootstrap, "sales", numbered(8, 9), commit=False)
    assert run_archive(spark, bootstrap, "sales", tmp_path / "committed") == 0
    run_transaction(bootstrap, "sales", numbered(9, 11), commit=True)
    assert run_archive(spark, bootstrap, "sales", tmp_path / "committed") == 2
    assert lake_values(spark, tmp_path / "committed") == numbered(0, 5) + numbered(9, 11)
    assert run_archive(spark, bootstrap, "sales", tmp_path / "all", "read_uncommitted") == 11


def test_a_compacted_topic_is_archived_and_replayed(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    create_topic(bootstrap, "state", cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, segment_ms=500)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for i in range(KEYS * ROUNDS):
        producer.produce("state", b"v%d" % i, key=b"k%d" % (i % KEYS), partition=0)
    producer.flush(60)

    def is_compacted() -> bool:
        """Writes a record: the first one after a segment's time rolls it, and only rolled segments are compacted."""
        producer.produce("state", b"later", key=b"later", partition=0)
        producer.flush(60)
        return sum(value != b"later" for value in read_values(bootstrap, "state")) == KEYS

    wait_until(is_compacted, "only the last record of each key is left", timeout_s=TIMEOUT_S)
    left = read_values(bootstrap, "state")
    assert run_archive(spark, bootstrap, "state", tmp_path) >= KEYS
    assert lake_values(spark, tmp_path)[:KEYS] == left[:KEYS]
    create_topic(bootstrap, "state-again")
    replayed = replay.run(
        spark, ReplayOptions(bootstrap=bootstrap, lake=str(tmp_path), topics={"state": "state-again"})
    )
    assert read_values(bootstrap, "state-again") == lake_values(spark, tmp_path)
    assert replayed.rows == len(lake_values(spark, tmp_path))


def read_values(bootstrap: str, topic: str) -> list[bytes]:
    """All values of the first partition, read by a client that is not ours."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    while (message := consumer.poll(TIMEOUT_S)) is not None and message.error() is None:
        values.append(message.value() or b"")
    consumer.close()
    return values
