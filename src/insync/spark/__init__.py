"""Spark reads and writes the log through its Python data source API, without a connector jar (`insync[spark]`).

    import insync.spark
    insync.spark.register(spark)
    spark.read.format("insync").option("kafka.bootstrap.servers", "localhost:9092").option("subscribe", "orders").load()

Options and rows are those of Spark's own Kafka connector. `source` is the batch and streaming source, `sink` the sink,
`log_source` reads log directories straight from disk.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from insync.spark import dismissal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SAID = ("spark.pyspark.python", "spark.pyspark.driver.python")


def register(spark: SparkSession) -> None:
    """Make `format("insync")` and `format("insync-log")` known to a session."""
    from insync.spark.log_source import LogDataSource
    from insync.spark.source import InsyncDataSource

    _same_interpreter(spark)
    spark.dataSource.register(InsyncDataSource)
    spark.dataSource.register(LogDataSource)


def _same_interpreter(spark: SparkSession) -> None:
    """On this machine, work where insync is installed. Unless told otherwise, Spark takes the first python3 of the
    PATH, and that is another one if a virtual environment was not activated."""
    context = getattr(spark, "_sc", None)  # there is none in a session of Spark Connect
    if context is None or not context.master.startswith("local"):
        return
    if "PYSPARK_PYTHON" not in os.environ and not any(context.getConf().contains(name) for name in _SAID):
        context.pythonExec = sys.executable


dismissal.arrange()
