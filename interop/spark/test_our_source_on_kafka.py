"""Our source on Apache Kafka's brokers: transactions, which only they write, and the stream with its group."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import apache_kafka
from insync.client import groups
from insync.client.sync_client import SyncClient
from insync.spark.executor import read_offsets
from insync.spark.planning import OffsetRange
from insync.spark.read_task import ReadTask
from insync.spark.source_options import read_source_options
from interop.spark.kafka_topics import create, transaction
from tests.spark.spark_data import numbered, produce, values

PATIENCE_S = 180


@pytest.fixture(scope="module")
def bootstrap(apache: apache_kafka.ApacheCluster) -> str:
    """Topic `deals`: 0-4 committed, 5-7 aborted, 8-9 committed, with a marker after each."""
    create(apache.bootstrap, "deals")
    transaction(apache.bootstrap, "deals", numbered(0, 5), commit=True)
    transaction(apache.bootstrap, "deals", numbered(5, 8), commit=False)
    transaction(apache.bootstrap, "deals", numbered(8, 10), commit=True)
    return apache.bootstrap


def read(spark: SparkSession, bootstrap: str, form: str, **options: str) -> Any:
    reader = spark.read.format(form).option("kafka.bootstrap.servers", bootstrap).option("subscribe", "deals")
    return reader.options(**options).load()


def test_aborted_transactions_and_markers_are_no_rows(spark: SparkSession, bootstrap: str) -> None:
    committed = {"kafka.isolation.level": "read_committed"}
    assert values(read(spark, bootstrap, "insync", **committed)) == numbered(0, 5) + numbered(8, 10)
    assert values(read(spark, bootstrap, "insync")) == numbered(0, 10)
    theirs = read(spark, bootstrap, "kafka", **committed)
    assert values(theirs) == numbered(0, 5) + numbered(8, 10)


def test_a_range_of_markers_is_told(bootstrap: str, caplog: pytest.LogCaptureFixture) -> None:
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
    create(apache.bootstrap, "stream", 2)
    produce(apache.bootstrap, "stream", numbered(0, 20), partition=1)
    got: list[Any] = []
    frame = (
        spark.readStream.format("insync")
        .option("kafka.bootstrap.servers", apache.bootstrap)
        .options(subscribe="stream", startingOffsets="earliest", groupId="spark-lag", maxOffsetsPerTrigger="15")
        .load()
    )
    writing = frame.writeStream.foreachBatch(lambda rows, _: got.extend(values(rows)))
    query = writing.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)
    assert got == numbered(0, 20)
    with SyncClient(apache.bootstrap) as client:
        found = client.call(lambda cluster: groups.list_committed_offsets(cluster, "spark-lag"))
    assert found == {("stream", 0): 0, ("stream", 1): 20}
