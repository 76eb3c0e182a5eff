"""Spark's own Kafka connector reads and writes our brokers, and hands its checkpoints over to our source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from insync.testing import Cluster
from tests.spark.spark_data import numbered, produce, values

PATIENCE_S = 180


def read(spark: SparkSession, form: str, bootstrap: str, topic: str, **options: str) -> DataFrame:
    reader = spark.read.format(form).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    return reader.options(**options).load()


def run(spark: SparkSession, form: str, bootstrap: str, topic: str, checkpoint: Path, **options: str) -> list[Any]:
    """What one AvailableNow run from the checkpoint got."""
    got: list[Any] = []
    frame = (
        spark.readStream.format(form)
        .option("kafka.bootstrap.servers", bootstrap)
        .options(subscribe=topic, startingOffsets="earliest", **options)
        .load()
    )
    writing = frame.writeStream.foreachBatch(lambda rows, _: got.extend(values(rows)))
    query = writing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)
    return got


def test_both_read_the_same_rows(spark: SparkSession, ours: Cluster) -> None:
    ours.create_topic("same", partitions=2)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        produce(ours.bootstrap, "same", [*numbered(0, 200), None, b""], partition=1, codec=codec)
    mine, theirs = (read(spark, form, ours.bootstrap, "same", includeHeaders="true") for form in ("insync", "kafka"))
    assert mine.schema.simpleString() == theirs.schema.simpleString()
    assert mine.count() == theirs.count() == 5 * 202
    assert mine.exceptAll(theirs).count() == 0
    assert theirs.exceptAll(mine).count() == 0


def test_both_understand_the_same_positions(spark: SparkSession, ours: Cluster) -> None:
    ours.create_topic("positions", partitions=2)
    for partition in (0, 1):
        times = [1_700_000_000_000 + 1_000 * i for i in range(50)]
        produce(ours.bootstrap, "positions", numbered(0, 50), partition=partition, timestamps=times)
    for options in (
        {"startingOffsets": '{"positions":{"0":7,"1":-2}}', "endingOffsets": '{"positions":{"0":-1,"1":9}}'},
        {"startingTimestamp": "1700000010500", "endingTimestamp": "1700000020000"},
        {"startingOffsetsByTimestamp": '{"positions":{"0":1700000001000,"1":1700000049000}}'},
        {"minPartitions": "7"},
    ):
        mine, theirs = (read(spark, form, ours.bootstrap, "positions", **options) for form in ("insync", "kafka"))
        assert sorted(map(tuple, mine.select("partition", "offset").collect())) == sorted(
            map(tuple, theirs.select("partition", "offset").collect())
        )


def test_the_connector_writes_to_our_brokers(spark: SparkSession, ours: Cluster) -> None:
    ours.create_topic("written")
    frame = spark.range(1_000).selectExpr("cast(id as string) key", "repeat('x', 100) value", "'written' topic")
    frame.write.format("kafka").option("kafka.bootstrap.servers", ours.bootstrap).save()
    found = read(spark, "insync", ours.bootstrap, "written")
    assert sorted(int(bytes(row.key)) for row in found.collect()) == list(range(1_000))


def test_a_job_moves_over_with_its_checkpoint(spark: SparkSession, ours: Cluster, tmp_path: Path) -> None:
    """Only the name of the format changes."""
    ours.create_topic("moving")
    produce(ours.bootstrap, "moving", numbered(0, 10))
    assert run(spark, "kafka", ours.bootstrap, "moving", tmp_path) == numbered(0, 10)
    produce(ours.bootstrap, "moving", numbered(10, 15))
    assert run(spark, "insync", ours.bootstrap, "moving", tmp_path) == numbered(10, 15)
    produce(ours.bootstrap, "moving", numbered(15, 17))
    assert run(spark, "insync", ours.bootstrap, "moving", tmp_path) == numbered(15, 17)
