"""Settings given to `spark-submit` win over ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from insync.pipeline.session import open_session

pytestmark = pytest.mark.xdist_group("spark")

ZONE = "spark.sql.session.timeZone"


def jvm_properties(spark: SparkSession) -> Any:
    """java.lang.System of the session's JVM."""
    assert spark._jvm is not None
    return spark._jvm.java.lang.System


@pytest.fixture
def submitted(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """As in a program of `spark-submit`, which finds its JVM by this port and `--conf` in the JVM's properties."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    before = spark.conf.get(ZONE)
    assert before is not None
    spark.conf.set(ZONE, "Asia/Tokyo")
    yield spark
    jvm_properties(spark).clearProperty(ZONE)
    spark.conf.set(ZONE, before)


def test_settings_of_spark_submit_are_kept(submitted: SparkSession) -> None:
    jvm_properties(submitted).setProperty(ZONE, "Asia/Tokyo")
    assert open_session().conf.get(ZONE) == "Asia/Tokyo"


def test_other_settings_are_ours(submitted: SparkSession) -> None:
    assert open_session().conf.get(ZONE) == "UTC"
