"""Records for tests with Spark: written by a client that is not ours, compared byte for byte."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame, Row, SparkSession

SET_BY_CLIENT = 0
"""librdkafka replaces a timestamp of 0 by the current time."""


def produce(
    bootstrap: str,
    topic: str,
    values: Iterable[bytes | None],
    *,
    partition: int = 0,
    codec: str = "none",
    timestamps: Iterable[int] = (),
    **settings: Any,
) -> None:
    """Send records to one partition and wait until all are acknowledged. Record i has the key `k<i>`."""
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5, **settings})
    next_timestamps = iter(timestamps)
    for i, value in enumerate(values):
        timestamp = next(next_timestamps, SET_BY_CLIENT)
        producer.produce(topic, value, f"k{i}".encode(), partition, timestamp=timestamp)
        producer.poll(0)
    assert producer.flush(60) == 0, "the producer has undelivered records after 60 s"


def read(spark: SparkSession, bootstrap: str, options: Mapping[str, str], schema: str = "") -> DataFrame:
    reader = spark.read.format("insync").option("kafka.bootstrap.servers", bootstrap).options(**options)
    return (reader.schema(schema) if schema else reader).load()


def values(frame: DataFrame) -> list[bytes | None]:
    """The values, ordered by partition and offset."""
    rows: list[Row] = frame.select("partition", "offset", "value").collect()
    return [bytes(row.value) if row.value is not None else None for row in sorted(rows, key=lambda row: row[:2])]


def numbered(first: int, end: int) -> list[bytes]:
    return [b"v%06d" % i for i in range(first, end)]


__all__ = ["numbered", "produce", "read", "values"]
