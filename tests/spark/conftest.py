"""What tests with Spark share: one session, and one cluster of three brokers that nobody may break."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from insync.testing import Cluster
from tests.spark.spark_session import spark


@pytest.fixture(scope="session")
def spark_cluster() -> Iterator[Cluster]:
    """Each test makes topics of its own; whoever kills nodes starts a cluster of its own."""
    with Cluster(brokers=3) as cluster:
        yield cluster


__all__ = ["spark", "spark_cluster"]
