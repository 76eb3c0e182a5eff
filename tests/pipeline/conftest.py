"""The pipelines' tests share the Spark session of all tests with Spark, and those of a module a
cluster. Lakes are in directories and object stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from insync.testing import Cluster
from tests.lake.lake_stores import place
from tests.spark.spark_session import spark

__all__ = ["cluster", "place", "spark"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1) as running:
        yield running
