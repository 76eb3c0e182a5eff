"""Spark data sources for Kafka topics and log directories, in Python and without a connector jar (`insync[spark]`).

    import insync.spark
    insync.spark.register(spark)
    spark.read.format("insync").option("kafka.bootstrap.servers", "localhost:9092").option("subscribe", "orders").load()

`format("insync")` reads and writes topics, as batch and as stream, with the options and columns of Spark's Kafka
connector. `format("insync-log")` reads log directories from disk. docs/guides/spark.md describes both. The names in
`__all__` are public; the submodules are not.
"""

from __future__ import annotations

import os
import sys

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from insync.spark.data_loss import Cause, DataLossError, Loss
from insync.spark.data_source import InsyncDataSource
from insync.spark.log_source import LogDataSource
from insync.spark.option_values import OptionError
from insync.spark.progress import describe_progress
from insync.spark.stream_offsets import lag
from insync.spark.worker import suppress_idle_worker_traceback

_INTERPRETER_SETTINGS = ("spark.pyspark.python", "spark.pyspark.driver.python")


def register(spark: SparkSession) -> None:
    """Make `format("insync")` and `format("insync-log")` available in a session."""
    _use_this_interpreter(spark)
    for source in (InsyncDataSource, LogDataSource):
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:  # PySpark 4.0 does not replace a source that it found by itself
            if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
                raise


def _use_this_interpreter(spark: SparkSession) -> None:
    """On a local master, run workers with the driver's interpreter, where insync is installed.

    By default Spark starts the first python3 of the PATH, which is another one if the virtual environment is not
    activated.
    """
    context = getattr(spark, "_sc", None)  # a Spark Connect session has none
    if context is None or not context.master.startswith("local"):
        return
    if "PYSPARK_PYTHON" not in os.environ and not any(context.getConf().contains(n) for n in _INTERPRETER_SETTINGS):
        context.pythonExec = sys.executable


suppress_idle_worker_traceback()

__all__ = [
    "Cause",
    "DataLossError",
    "InsyncDataSource",
    "LogDataSource",
    "Loss",
    "OptionError",
    "describe_progress",
    "lag",
    "register",
]
