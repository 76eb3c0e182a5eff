"""A million records, byte for byte: written by the sink, read by the source, archived, replayed, and read from the log
directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from insync import lake
from insync.pipeline.archive import job as archive
from insync.pipeline.archive.job import ArchiveOptions
from insync.pipeline.replay import job as replay
from insync.pipeline.replay.job import ReplayOptions
from insync.testing import Cluster

pytestmark = pytest.mark.xdist_group("spark")

RECORDS = 1_000_000
PARTITIONS = 4
CONTENT = ("partition", "key", "value", "headers", "timestamp")


def records(spark: SparkSession) -> DataFrame:
    """Keys and values of all lengths, some null or empty, arbitrary bytes, some headers, two dates."""
    n = f.col("id")
    noise = f.unhex(f.sha2(n.cast("string"), 256))
    header = f.struct(f.lit("trace").alias("key"), noise.alias("value"))
    nothing = f.struct(f.lit("empty").alias("key"), f.lit(None).cast("binary").alias("value"))
    return spark.range(0, RECORDS, 1, PARTITIONS).select(
        (n % PARTITIONS).cast("int").alias("partition"),
        f.when(n % 11 != 0, n.cast("string").cast("binary")).alias("key"),
        f.when(n % 13 != 0, f.substring(f.concat(noise, noise, noise, noise), 1, (n % 120).cast("int"))).alias("value"),
        f.when(n % 100 == 0, f.array(header, nothing)).alias("headers"),
        f.timestamp_millis(f.lit(1_700_006_000_000) + n).alias("timestamp"),
    )


def fingerprint(frame: DataFrame, *columns: str) -> Any:
    """Number of rows, and sums over their hashes: equal for equal rows in any order."""
    hashed = frame.select(f.xxhash64(*columns).alias("hash"))
    halves = f.sum(f.col("hash").bitwiseAND(0xFFFFFFFF)), f.sum(f.shiftright("hash", 32))
    return tuple(hashed.agg(f.count("*"), *halves, f.bit_xor("hash")).first() or ())


def test_a_million_records_are_unchanged_byte_for_byte(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster(brokers=1, topics={"there": PARTITIONS, "back": PARTITIONS}, directory=tmp_path / "c") as cluster:
        expected = fingerprint(records(spark), *CONTENT)
        kafka = {"kafka.bootstrap.servers": cluster.bootstrap}
        sink = records(spark).write.format("insync").options(**kafka, topic="there", includeTimestamp="true")
        sink.mode("append").save()

        def source(topic: str) -> DataFrame:
            options = {**kafka, "subscribe": topic, "includeHeaders": "true"}
            return spark.read.format("insync").options(**options).load()

        assert expected[0] == RECORDS
        assert fingerprint(source("there"), *CONTENT) == expected
        archive.run(spark, ArchiveOptions(bootstrap=cluster.bootstrap, lake=str(tmp_path / "lake"), topics=("there",)))
        with_offsets = fingerprint(lake.read(spark, tmp_path / "lake"), "offset", *CONTENT)
        assert fingerprint(lake.read(spark, tmp_path / "lake"), *CONTENT) == expected
        replay.run(
            spark,
            ReplayOptions(
                bootstrap=cluster.bootstrap, lake=str(tmp_path / "lake"), topics={"there": "back"}, codec="lz4"
            ),
        )
        assert fingerprint(source("back"), "offset", *CONTENT) == with_offsets
        cluster.stop(1)
        logs = (
            spark.read.format("insync-log")
            .option("path", str(tmp_path / "c" / "node-1" / "data"))
            .option("topics", "back")
            .load()
        )
        assert fingerprint(logs, "offset", *CONTENT) == with_offsets
