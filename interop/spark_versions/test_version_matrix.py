"""What every supported version of PySpark does, and what an older one refuses: `make spark-versions`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import insync.spark
from insync.spark import describe_progress
from insync.testing import Cluster
from tests.spark.spark_data import numbered, produce, read, values

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
LOGS = Path(__file__).parents[2] / "tests" / "data" / "apache-kafka-logs" / "broker-1"
TIMEOUT_S = 120


@pytest.fixture(scope="module", autouse=True)
def bootstrap(cluster: Cluster) -> str:
    cluster.create_topic("versions", partitions=2)
    for partition in (0, 1):
        produce(cluster.bootstrap, "versions", numbered(100 * partition, 100 * partition + 50), partition=partition)
    return cluster.bootstrap


def stream(spark: SparkSession, bootstrap: str, **options: str) -> DataFrame:
    given = {"subscribe": "versions", "startingOffsets": "earliest", **options}
    return spark.readStream.format("insync").option("kafka.bootstrap.servers", bootstrap).options(**given).load()


def run(writer: Any, checkpoint: Path) -> Any:
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(TIMEOUT_S)
    return query


def test_this_is_the_version_that_was_asked_for() -> None:
    assert pyspark.__version__ == os.environ.get("INSYNC_PYSPARK", pyspark.__version__)


def test_sources_can_be_registered_again(spark: SparkSession, bootstrap: str) -> None:
    insync.spark.register(spark)
    insync.spark.register(spark)
    assert read(spark, bootstrap, {"subscribe": "versions"}).count() == 100


def test_batches(spark: SparkSession, bootstrap: str) -> None:
    frame = read(spark, bootstrap, {"subscribe": "versions", "includeHeaders": "true"})
    assert values(frame) == numbered(0, 50) + numbered(100, 150)


def test_rows_without_columns_are_counted_or_refused(spark: SparkSession, bootstrap: str) -> None:
    reader = spark.read.format("insync").option("kafka.bootstrap.servers", bootstrap).option("subscribe", "versions")
    if VERSION >= (4, 1):
        assert reader.schema(StructType([])).load().count() == 100
    else:
        with pytest.raises(Exception, match=r"since version 4\.1; this is 4\.0"):
            reader.schema(StructType([])).load().count()


def test_log_directories(spark: SparkSession) -> None:
    assert spark.read.format("insync-log").load(str(LOGS)).count() == 136


@pytest.mark.parametrize("setting", ["false", "true"])
def test_conditions_are_pushed_where_spark_can(spark: SparkSession, bootstrap: str, setting: str) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", setting)
    try:
        frame = read(spark, bootstrap, {"subscribe": "versions", "pushFilters": "true"})
        pushed = frame.where("offset >= 45 and partition = 1")
        assert values(pushed) == numbered(145, 150)
        if VERSION >= (4, 1) and setting == "true":
            assert pushed.rdd.getNumPartitions() == 1
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_stream_continues_from_its_checkpoint(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("growing", partitions=1)
    produce(cluster.bootstrap, "growing", numbered(0, 20))
    received: list[bytes | None] = []

    def collect(frame: DataFrame, _batch: int) -> None:
        received.extend(values(frame))

    frame = stream(spark, cluster.bootstrap, subscribe="growing")
    for count in (20, 20, 30):
        produce(cluster.bootstrap, "growing", numbered(len(received), count) if received else [])
        query = run(frame.writeStream.foreachBatch(collect), tmp_path / "checkpoint")
        assert received == numbered(0, count)
    if VERSION >= (4, 2):
        source = describe_progress(query.lastProgress or query.recentProgress[-1])["sources"][0]
        assert source["description"] == "insync[Subscribe[growing]]"
        assert source["metrics"]["maxOffsetsBehindLatest"] == "0"


def test_limits_work_or_are_refused(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    batches: list[int] = []
    frame = stream(spark, bootstrap, maxOffsetsPerTrigger="40")
    writer = frame.writeStream.foreachBatch(lambda rows, _: batches.append(rows.count()))
    if VERSION >= (4, 2):
        run(writer, tmp_path / "checkpoint")
        assert batches == [40, 40, 20]
    else:
        with pytest.raises(Exception, match=r"since version 4\.2; this is 4"):
            run(writer, tmp_path / "checkpoint")


def test_the_sink_stores_batches_and_streams(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("sunk", partitions=1)
    rows = read(spark, cluster.bootstrap, {"subscribe": "versions"}).select("key", "value")
    save = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": "sunk"}
    rows.write.format("insync").options(**save).mode("append").save()
    run(stream(spark, cluster.bootstrap).select("key", "value").writeStream.format("insync").options(**save), tmp_path)
    stored = values(read(spark, cluster.bootstrap, {"subscribe": "sunk"}))
    assert sorted(value or b"" for value in stored) == sorted([*numbered(0, 50), *numbered(100, 150)] * 2)


def test_errors_in_the_options_of_a_stream_are_shown(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    frame = stream(spark, bootstrap, startingOffsets="sometime")
    with pytest.raises(Exception, match="'startingOffsets' is 'sometime'"):
        run(frame.writeStream.foreachBatch(lambda rows, _: rows.foreach(print)), tmp_path)
