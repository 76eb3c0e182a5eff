"""A Spark driver in a process of its own, which the test kills: sink_driver.py BOOTSTRAP DIRECTORY.

It runs a batch job whose only task fails once, after some of its rows are stored. Then it runs a stream over
DIRECTORY/in whose first commit never returns; by then all rows are stored, and there is a file DIRECTORY/written.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from insync.spark.data_source import InsyncDataSource
from insync.spark.sink.options import read_sink_options
from insync.spark.sink.writers import StreamWriter
from tests.polling import TIMEOUT_S
from tests.spark.sink_data import InjectedError, wait_until_written
from tests.spark.spark_session import start

RETRIED, KILLED = "retried", "killed"
ROWS = 30_000
ArrowMap = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class StuckDataSource(InsyncDataSource):
    @classmethod
    def name(cls) -> str:
        return "stuck"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        return _StuckWriter(self.options)


class _StuckWriter(StreamWriter):
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(read_sink_options({name: value for name, value in options.items() if name != "mark"}))
        self._mark = options["mark"]

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        Path(self._mark).touch()
        time.sleep(10 * TIMEOUT_S)


def make_failing_task(bootstrap: str) -> ArrowMap:
    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            wait_until_written(bootstrap, RETRIED)
            raise InjectedError

    return fail_once


def main(bootstrap: str, directory: str) -> None:
    spark = start("local[2,3]")
    client = {"kafka.bootstrap.servers": bootstrap, "kafka.batch.size": "20000"}
    numbers = spark.range(0, ROWS, 1, 1).selectExpr("'v' || id as value")
    failing = numbers.mapInArrow(make_failing_task(bootstrap), "value string")
    failing.write.format("insync").options(**client, topic=RETRIED).mode("append").save()
    spark.dataSource.register(StuckDataSource)
    stream = spark.readStream.text(f"{directory}/in").writeStream.format("stuck").options(**client, topic=KILLED)
    stream.option("mark", f"{directory}/written").option("checkpointLocation", f"{directory}/checkpoint").start()
    time.sleep(10 * TIMEOUT_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
