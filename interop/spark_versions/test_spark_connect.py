"""The sources and the sink in a session of Spark Connect: `make spark-connect`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import insync.spark
from insync.testing import Cluster
from tests.spark.spark_data import numbered, produce, values

TIMEOUT_S = 120


@pytest.fixture(scope="module")
def connected() -> Iterator[SparkSession]:
    """A session with a server of its own."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.remote("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    insync.spark.register(session)
    yield session
    session.stop()


def test_batches_streams_and_the_sink(connected: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    assert "connect" in type(connected).__module__
    for topic in ("remote", "copied"):
        cluster.create_topic(topic, partitions=1)
    produce(cluster.bootstrap, "remote", numbered(0, 40))
    brokers = {"kafka.bootstrap.servers": cluster.bootstrap}
    batch = connected.read.format("insync").options(**brokers, subscribe="remote").load()
    assert values(batch) == numbered(0, 40)
    batch.select("value").write.format("insync").options(**brokers, topic="copied").mode("append").save()
    source = {**brokers, "subscribe": "remote", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "15"}
    stream = connected.readStream.format("insync").options(**source).load().select("value")
    writer = stream.writeStream.format("insync").options(**brokers, topic="copied")
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(TIMEOUT_S)
    described = [insync.spark.describe_progress(progress)["sources"][0] for progress in query.recentProgress]
    assert described[0]["description"] == "insync[Subscribe[remote]]"
    assert [source["metrics"]["maxOffsetsBehindLatest"] for source in described if source["numInputRows"]] == [
        "25",
        "10",
        "0",
    ]
    copies = connected.read.format("insync").options(**brokers, subscribe="copied").load()
    assert sorted(value or b"" for value in values(copies)) == sorted(numbered(0, 40) * 2)
