"""The pipelines' tests share the Spark session of all tests with Spark."""

from __future__ import annotations

from tests.spark.spark_session import spark

__all__ = ["spark"]
