"""Shared by tests with Spark: one session, and one cluster of three brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from insync.testing import Cluster
from tests.spark.spark_session import spark


@pytest.fixture(scope="session")
def spark_cluster() -> Iterator[Cluster]:
    """Tests create their own topics. A test that kills nodes starts its own cluster."""
    with Cluster(brokers=3) as cluster:
        yield cluster


__all__ = ["spark", "spark_cluster"]
