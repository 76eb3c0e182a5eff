"""Decoded keys and values on real Spark: batch, stream and log directories, with a registry whose schema evolves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import sum as sum_of

from insync.testing import Cluster
from tests.formats.registry_server import RegistryServer, serve_registry
from tests.formats.test_avro_values import encode, field, record
from tests.formats.test_registry import framed
from tests.spark.spark_data import produce, read

pytestmark = pytest.mark.xdist_group("spark")

TIME = {"type": "long", "logicalType": "timestamp-micros"}
OLD = record(field("id", "int"), field("at", TIME), name="Order")
NEW = record(
    field("id", "long"),
    field("at", TIME),
    field("tags", {"type": "array", "items": "string"}, default=[]),
    field("prices", {"type": "map", "values": "double"}, default={}),
    name="Order",
)
NEWEST = record(*NEW["fields"], field("extra", "int", default=0), name="Order")
AT = datetime(2024, 2, 29, tzinfo=UTC)


@pytest.fixture(scope="module")
def registry() -> Iterator[RegistryServer]:
    with serve_registry("reader:secret") as server:
        yield server


@pytest.fixture(scope="module")
def options(spark_cluster: Cluster, registry: RegistryServer) -> dict[str, str]:
    """Two records of the old schema, two of the new one, a tombstone and one that is malformed."""
    spark_cluster.create_topic("typed-orders", partitions=1)
    old, new = (registry.register("typed-orders-value", json.dumps(schema)) for schema in (OLD, NEW))
    values: list[bytes | None] = [framed(old, encode(OLD, {"id": i, "at": AT})) for i in range(2)]
    values += [
        framed(new, encode(NEW, {"id": i, "at": AT, "tags": ["a"] * i, "prices": {"x": 0.5}})) for i in range(2, 4)
    ]
    produce(spark_cluster.bootstrap, "typed-orders", [*values, None, b"text"])
    return {
        "subscribe": "typed-orders",
        "keyFormat": "string",
        "valueFormat": "avro-confluent",
        "schema.registry.url": registry.url,
        "basic.auth.user.info": "reader:secret",
    }


def collect(frame: Any) -> list[Any]:
    rows = frame.select("offset", "key", "value.id", "value.tags", "value.prices", "_corrupt_record.reason").collect()
    return [tuple(row)[1:] for row in sorted(rows)]


EXPECTED = [
    ("k0", 0, [], {}, None),
    ("k1", 1, [], {}, None),
    ("k2", 2, ["a", "a"], {"x": 0.5}, None),
    ("k3", 3, ["a", "a", "a"], {"x": 0.5}, None),
    ("k4", None, None, None, None),
    ("k5", None, None, None, "it does not begin with a zero byte and a schema id"),
]


def test_batches_have_the_readers_schema_whatever_wrote_them(
    spark: SparkSession, spark_cluster: Cluster, options: dict[str, str]
) -> None:
    frame = read(spark, spark_cluster.bootstrap, options)
    assert collect(frame) == EXPECTED
    assert frame.where("value.at = timestamp'2024-02-29 00:00:00'").count() == 4
    assert frame.where("value.id >= 2").agg(sum_of("value.id")).collect()[0][0] == 5
    narrow = read(spark, spark_cluster.bootstrap, options, "value struct<id: bigint>")
    assert sorted(row.value.id for row in narrow.collect() if row.value) == [0, 1, 2, 3]


def test_a_stream_keeps_its_schema_when_the_registry_has_a_newer_one(
    spark: SparkSession, spark_cluster: Cluster, registry: RegistryServer, options: dict[str, str], tmp_path: Path
) -> None:
    stream = spark.readStream.format("insync").option("kafka.bootstrap.servers", spark_cluster.bootstrap)
    frame = stream.options(**options).option("startingOffsets", "earliest").load()
    newest = registry.register("typed-orders-value", json.dumps(NEWEST))
    late = encode(NEWEST, {"id": 9, "at": AT, "tags": [], "prices": {}, "extra": 5})
    produce(spark_cluster.bootstrap, "typed-orders", [framed(newest, late)])
    writer = frame.writeStream.format("memory").queryName("typed").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert collect(spark.table("typed")) == [*EXPECTED, ("k0", 9, [], {}, None)]
    assert read(spark, spark_cluster.bootstrap, options).select("value.extra").count() == 7


def test_log_directories_are_decoded_too(spark: SparkSession, spark_cluster: Cluster, options: dict[str, str]) -> None:
    given = {name: value for name, value in options.items() if name != "subscribe"}
    directory = str(next(iter(spark_cluster.nodes.values())).directory / "data")
    reader = spark.read.format("insync-log").options(**given, topics="typed-orders", bound="end", mode="permissive")
    assert collect(reader.load(directory))[: len(EXPECTED)] == EXPECTED


def test_failfast_fails_the_query_with_the_record(
    spark: SparkSession, spark_cluster: Cluster, options: dict[str, str]
) -> None:
    with pytest.raises(Exception, match="the value of typed-orders-0 at offset 5 cannot be decoded as avro"):
        read(spark, spark_cluster.bootstrap, {**options, "mode": "FAILFAST"}).collect()
