"""A standalone Spark cluster of three workers, and three brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from insync.testing import Cluster
from tests.spark.standalone import Standalone, standalone


@pytest.fixture(scope="session")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("standalone")) as running:
        yield running


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as running:
        yield running
