"""Spark's own Kafka connector reads from and writes to our brokers, and our source continues its checkpoints."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from insync.testing import Cluster
from tests.spark.spark_data import numbered, produce, values

TIMEOUT_S = 180


def read(spark: SparkSession, source: str, bootstrap: str, topic: str, **options: str) -> DataFrame:
    reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    return reader.options(**options).load()


def run_stream(spark: SparkSession, source: str, bootstrap: str, topic: str, checkpoint: Path) -> list[bytes | None]:
    """The values that one AvailableNow run from the checkpoint reads."""
    received: list[bytes | None] = []
    frame = (
        spark.readStream.format(source)
        .option("kafka.bootstrap.servers", bootstrap)
        .options(subscribe=topic, startingOffsets="earliest")
        .load()
    )
    writer = frame.writeStream.foreachBatch(lambda rows, _: received.extend(values(rows)))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(TIMEOUT_S)
    return received


def test_both_sources_read_the_same_rows(spark: SparkSession, insync_cluster: Cluster) -> None:
    insync_cluster.create_topic("same", partitions=2)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        produce(insync_cluster.bootstrap, "same", [*numbered(0, 200), None, b""], partition=1, codec=codec)
    ours, sparks = (
        read(spark, source, insync_cluster.bootstrap, "same", includeHeaders="true") for source in ("insync", "kafka")
    )
    assert ours.schema.simpleString() == sparks.schema.simpleString()
    assert ours.count() == sparks.count() == 5 * 202
    assert ours.exceptAll(sparks).count() == 0
    assert sparks.exceptAll(ours).count() == 0


def test_both_sources_take_the_same_positions(spark: SparkSession, insync_cluster: Cluster) -> None:
    insync_cluster.create_topic("positions", partitions=2)
    for partition in (0, 1):
        timestamps = [1_700_000_000_000 + 1_000 * i for i in range(50)]
        produce(insync_cluster.bootstrap, "positions", numbered(0, 50), partition=partition, timestamps=timestamps)
    for options in (
        {"startingOffsets": '{"positions":{"0":7,"1":-2}}', "endingOffsets": '{"positions":{"0":-1,"1":9}}'},
        {"startingTimestamp": "1700000010500", "endingTimestamp": "1700000020000"},
        {"startingOffsetsByTimestamp": '{"positions":{"0":1700000001000,"1":1700000049000}}'},
        {"minPartitions": "7"},
    ):
        ours, sparks = (
            read(spark, source, insync_cluster.bootstrap, "positions", **options)
            .select("partition", "offset")
            .collect()
            for source in ("insync", "kafka")
        )
        assert ours
        assert sorted(map(tuple, ours)) == sorted(map(tuple, sparks))


def test_the_connector_writes_to_our_brokers(spark: SparkSession, insync_cluster: Cluster) -> None:
    insync_cluster.create_topic("written")
    frame = spark.range(1_000).selectExpr("cast(id as string) key", "repeat('x', 100) value", "'written' topic")
    frame.write.format("kafka").option("kafka.bootstrap.servers", insync_cluster.bootstrap).save()
    rows = read(spark, "insync", insync_cluster.bootstrap, "written").collect()
    assert sorted(int(bytes(row.key)) for row in rows) == list(range(1_000))


def test_our_source_continues_a_checkpoint_of_the_connector(
    spark: SparkSession, insync_cluster: Cluster, tmp_path: Path
) -> None:
    """Only the name of the format changes in the job."""
    insync_cluster.create_topic("moving")
    produce(insync_cluster.bootstrap, "moving", numbered(0, 10))
    assert run_stream(spark, "kafka", insync_cluster.bootstrap, "moving", tmp_path) == numbered(0, 10)
    produce(insync_cluster.bootstrap, "moving", numbered(10, 15))
    assert run_stream(spark, "insync", insync_cluster.bootstrap, "moving", tmp_path) == numbered(10, 15)
    produce(insync_cluster.bootstrap, "moving", numbered(15, 17))
    assert run_stream(spark, "insync", insync_cluster.bootstrap, "moving", tmp_path) == numbered(15, 17)
