"""`format("insync-log")` on real Spark: the replicas of a running cluster, and log directories of Apache Kafka."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from insync.testing import Cluster
from tests.spark.spark_data import numbered, produce

pytestmark = pytest.mark.xdist_group("spark")

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
APACHE = Path(__file__).parent.parent / "data" / "apache-kafka-logs"


def load(spark: SparkSession, path: str, schema: str = "", **options: str) -> DataFrame:
    reader = spark.read.format("insync-log").options(**options)
    return (reader.schema(schema) if schema else reader).load(path)


def test_every_replica_of_a_running_cluster_is_read(spark: SparkSession, spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("log-source", partitions=2)
    for partition in (0, 1):
        produce(spark_cluster.bootstrap, "log-source", numbered(0, 500), partition=partition, codec="lz4")
    paths = json.dumps([str(node.directory / "data") for node in spark_cluster.nodes.values()])
    frame = load(spark, paths, topics="log-source", bound="end")
    rows = frame.select("broker", "partition", "offset", "key", "value", "codec", "crc_ok").collect()
    expected = [
        (broker, partition, i, b"k%d" % i, b"v%06d" % i, "lz4", True)
        for broker in (1, 2, 3)
        for partition in (0, 1)
        for i in range(500)
    ]
    assert sorted(tuple(row) for row in rows) == expected


def test_columns_have_the_documented_types(spark: SparkSession) -> None:
    frame = load(spark, f"{APACHE}/broker-1")
    assert {field.name: field.dataType.simpleString() for field in frame.schema} == {
        "broker": "int",
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "leader_epoch": "int",
        "timestamp": "timestamp",
        "timestampType": "int",
        "key": "binary",
        "value": "binary",
        "headers": "array<struct<key:string,value:binary>>",
        "base_offset": "bigint",
        "batch_position": "bigint",
        "batch_size": "int",
        "codec": "string",
        "producer_id": "bigint",
        "producer_epoch": "smallint",
        "sequence": "int",
        "control": "boolean",
        "transactional": "boolean",
        "segment": "string",
        "crc_ok": "boolean",
        "error": "string",
    }


def test_logs_of_apache_kafka_are_read_with_one_task_per_segment(spark: SparkSession) -> None:
    frame = load(spark, f"{APACHE}/broker-*")
    counts = {(row.broker, row.topic): row["count"] for row in frame.groupBy("broker", "topic").count().collect()}
    expected = {"codecs": 100, "appended": 10, "compacted": 6, "transactions": 14, "epochs": 6}
    assert counts == {(broker, topic): count for broker in (1, 2) for topic, count in expected.items()}
    assert frame.rdd.getNumPartitions() == 2 * (3 + 1 + 2 + 1 + 1)


def test_a_schema_selects_columns(spark: SparkSession) -> None:
    frame = load(spark, f"{APACHE}/broker-1", "offset long, codec string", topics="codecs", startingOffset="98")
    assert [tuple(row) for row in frame.collect()] == [(98, "zstd"), (99, "zstd")]


def test_damage_fails_the_query_or_is_returned_as_rows(spark: SparkSession, tmp_path: Path) -> None:
    shutil.copytree(APACHE / "broker-1", tmp_path, dirs_exist_ok=True)
    log = tmp_path / "codecs-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    with pytest.raises(Exception, match=rf"{log.name} at position 0: the checksum is wrong"):
        load(spark, str(tmp_path), topics="codecs").collect()
    frame = load(spark, str(tmp_path), topics="codecs", corrupt="rows")
    assert [(row.offset, row.error) for row in frame.where("not crc_ok").collect()] == [
        (0, f"{log} at position 0: the checksum is wrong")
    ]
    assert frame.where("crc_ok").count() == 96


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        ("size long", {}, "there is no column 'size'"),
        ("offset int", {}, "column 'offset' is bigint; the schema declares it as int"),
        ("", {"bond": "end"}, "unknown option 'bond' ('end')"),
        ("", {"topics": "nope"}, "topic 'nope' is in none of the log directories"),
    ],
)
def test_errors_name_the_column_or_option(
    spark: SparkSession, schema: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception) as failure:  # noqa: PT011  Spark wraps it
        load(spark, f"{APACHE}/broker-1", schema, **options).collect()
    assert message in str(failure.value)


def test_a_log_without_records_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "empty-0"
    log.mkdir()
    (log / "00000000000000000000.log").touch()
    assert load(spark, str(tmp_path), brokers="7", bound="end").collect() == []


def test_conditions_leave_segments_out(spark: SparkSession) -> None:
    frame = load(spark, f"{APACHE}/broker-1")
    every = frame.groupBy("topic", "partition").agg({"offset": "max", "*": "count"}).collect()
    tasks = frame.rdd.getNumPartitions()
    spark.conf.set(PUSH_DOWN, "true")
    try:
        for topic, partition, *_ in every:
            part = load(spark, f"{APACHE}/broker-1", pushFilters="true").where(
                f"topic = '{topic}' and partition = {partition}"
            )
            expected = [tuple(row) for row in every if row[:2] == (topic, partition)]
            assert [
                tuple(row) for row in part.groupBy("topic", "partition").agg({"offset": "max", "*": "count"}).collect()
            ] == expected
            assert part.rdd.getNumPartitions() < tasks
    finally:
        spark.conf.unset(PUSH_DOWN)
