"""Whose settings count: those that `spark-submit` was told, then ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from insync.pipeline.session import open_session

pytestmark = pytest.mark.xdist_group("spark")

ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def submitted(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """As in a program of `spark-submit`, which finds its JVM by this port, and `--conf` among its JVM's properties."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, "Asia/Tokyo")
    yield spark
    spark._jvm.java.lang.System.clearProperty(ZONE)
    spark.conf.set(ZONE, before)


def test_what_spark_submit_was_told_stays(submitted: SparkSession) -> None:
    submitted._jvm.java.lang.System.setProperty(ZONE, "Asia/Tokyo")
    assert open_session().conf.get(ZONE) == "Asia/Tokyo"


def test_what_it_was_not_told_is_ours(submitted: SparkSession) -> None:
    assert open_session().conf.get(ZONE) == "UTC"
