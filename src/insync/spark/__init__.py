"""Spark reads and writes the log through its Python data source API, without a connector jar (`insync[spark]`).

    import insync.spark
    insync.spark.register(spark)
    spark.read.format("insync").option("kafka.bootstrap.servers", "localhost:9092").option("subscribe", "orders").load()

Options and rows are those of Spark's own Kafka connector. `source` is the batch and streaming source, `sink` the sink,
`log_source` reads log directories straight from disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.spark import dismissal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make `format("insync")` and `format("insync-log")` known to a session."""
    from insync.spark.log_source import LogDataSource
    from insync.spark.source import InsyncDataSource

    spark.dataSource.register(InsyncDataSource)
    spark.dataSource.register(LogDataSource)


dismissal.arrange()
