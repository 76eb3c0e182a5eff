"""Our source on Apache Kafka's brokers: transactions, which insync's brokers do not have, and a stream with a group."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import apache_kafka
from insync.client import groups
from insync.client.sync_client import SyncClient
from insync.spark.executor import read_offsets
from insync.spark.planning import OffsetRange
from insync.spark.read_task import ReadTask
from insync.spark.source_options import read_source_options
from interop.spark.kafka_topics import create_topic, run_transaction
from tests.spark.spark_data import numbered, produce, values

TIMEOUT_S = 180


@pytest.fixture(scope="module")
def bootstrap(apache: apache_kafka.ApacheCluster) -> str:
    """With the topic deals: records 0-4 committed, 5-7 aborted, 8-9 committed, and a marker after each transaction."""
    create_topic(apache.bootstrap, "deals")
    run_transaction(apache.bootstrap, "deals", numbered(0, 5), commit=True)
    run_transaction(apache.bootstrap, "deals", numbered(5, 8), commit=False)
    run_transaction(apache.bootstrap, "deals", numbered(8, 10), commit=True)
    return apache.bootstrap


def read(spark: SparkSession, bootstrap: str, source: str, **options: str) -> DataFrame:
    reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap).option("subscribe", "deals")
    return reader.options(**options).load()


def test_aborted_records_and_markers_are_not_rows(spark: SparkSession, bootstrap: str) -> None:
    committed = {"kafka.isolation.level": "read_committed"}
    assert values(read(spark, bootstrap, "insync", **committed)) == numbered(0, 5) + numbered(8, 10)
    assert values(read(spark, bootstrap, "insync")) == numbered(0, 10)
    assert values(read(spark, bootstrap, "kafka", **committed)) == numbered(0, 5) + numbered(8, 10)


def test_a_range_of_markers_is_logged(bootstrap: str, caplog: pytest.LogCaptureFixture) -> None:
    options = read_source_options({"kafka.bootstrap.servers": bootstrap, "subscribe": "deals"}, streaming=False)
    with caplog.at_level(logging.INFO, "insync.spark"):
        assert list(read_offsets(ReadTask(OffsetRange("deals", 0, 5, 6), options, ("value",)))) == []
    assert (
        "deals-0: offset 5 missing (markers): nothing is lost: the range holds transaction markers (1) and no record"
        in caplog.text
    )


def test_a_stream_commits_to_a_group_on_kafka(
    spark: SparkSession, apache: apache_kafka.ApacheCluster, tmp_path: Path
) -> None:
    create_topic(apache.bootstrap, "stream", 2)
    produce(apache.bootstrap, "stream", numbered(0, 20), partition=1)
    received: list[bytes | None] = []
    frame = (
        spark.readStream.format("insync")
        .option("kafka.bootstrap.servers", apache.bootstrap)
        .options(subscribe="stream", startingOffsets="earliest", groupId="spark-lag", maxOffsetsPerTrigger="15")
        .load()
    )
    writer = frame.writeStream.foreachBatch(lambda rows, _: received.extend(values(rows)))
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(TIMEOUT_S)
    assert received == numbered(0, 20)
    with SyncClient(apache.bootstrap) as client:
        committed = client.call(lambda cluster: groups.list_committed_offsets(cluster, "spark-lag"))
    assert committed == {("stream", 0): 0, ("stream", 1): 20}
