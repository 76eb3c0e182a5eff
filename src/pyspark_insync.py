"""Spark looks for data sources in top-level modules whose names begin with `pyspark_`: with insync installed where the
driver runs, `format("insync")` works without `insync.spark.register`."""

from insync.spark.data_source import InsyncDataSource as DefaultSource

__all__ = ["DefaultSource"]
