"""Spark's own Kafka connector on our brokers, and our sources and sink on Apache Kafka: `make interop-spark`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import apache_kafka
from insync.testing import Cluster
from tests.spark import spark_session

JARS = Path(__file__).parents[2] / "build" / "spark-kafka"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    jars = ",".join(str(jar) for jar in sorted(JARS.glob("*.jar")))
    assert jars, f"there are no jars in {JARS}: run `make spark-kafka`"
    session = spark_session.start(**{"spark.jars": jars})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def insync_cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def apache() -> Iterator[apache_kafka.ApacheCluster]:
    settings = {
        **apache_kafka.SMALL,
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "log.cleaner.backoff.ms": "200",
    }
    with apache_kafka.ApacheCluster(1, settings=settings) as cluster:
        yield cluster
