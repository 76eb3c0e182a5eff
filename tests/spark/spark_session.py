"""One Spark session for all tests that need Spark: starting a JVM takes longer than most of them.

    pytestmark = pytest.mark.xdist_group("spark")   # they run in one process, one after the other

`from tests.spark.spark_session import spark` in a conftest.py gives its directory the fixture. The session is a plain
`local[2]`: a test that needs another master starts a process with its own session.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import insync.spark

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.metricsEnabled": "false",
}


def start(master: str = "local[2]", **settings: str) -> SparkSession:
    """The session of this process; the first call decides its master."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("insync-tests")
    for name, value in (SETTINGS | settings).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    insync.spark.register(session)
    return session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = start()
    yield session
    session.stop()


__all__ = ["SETTINGS", "spark", "start"]
