"""A session of the PySpark version under test, and a cluster: `make spark-versions`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from insync.testing import Cluster
from tests.spark import spark_session


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1) as running:
        yield running


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = spark_session.start()
    yield session
    session.stop()
