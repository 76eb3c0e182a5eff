"""A Spark driver of its own, which is there to be killed: sink_driver.py BOOTSTRAP DIRECTORY.

First a batch job whose only task fails once, after some of its rows are stored. Then a stream over DIRECTORY/in that
never comes back from its first commit: the file DIRECTORY/written says that all rows are stored by then.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from insync.spark.data_source import InsyncDataSource
from insync.spark.sink.options import read_sink_options
from insync.spark.sink.writers import StreamWriter
from tests.spark.sink_data import PATIENCE_S, Planted, wait_until_written
from tests.spark.spark_session import start

RETRIED, KILLED = "retried", "killed"
ROWS = 30_000


class Stuck(InsyncDataSource):
    @classmethod
    def name(cls) -> str:
        return "stuck"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        return _StuckSink(self.options)


class _StuckSink(StreamWriter):
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(read_sink_options({name: value for name, value in options.items() if name != "mark"}))
        self._mark = options["mark"]

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        Path(self._mark).touch()
        time.sleep(10 * PATIENCE_S)


def fails_once(bootstrap: str) -> Any:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            wait_until_written(bootstrap, RETRIED)
            raise Planted

    return work


def main(bootstrap: str, directory: str) -> None:
    spark = start("local[2,3]")
    client = {"kafka.bootstrap.servers": bootstrap, "kafka.batch.size": "20000"}
    numbers = spark.range(0, ROWS, 1, 1).selectExpr("'v' || id as value")
    failing = numbers.mapInArrow(fails_once(bootstrap), "value string")
    failing.write.format("insync").options(**client, topic=RETRIED).mode("append").save()
    spark.dataSource.register(Stuck)
    stream = spark.readStream.text(f"{directory}/in").writeStream.format("stuck").options(**client, topic=KILLED)
    stream.option("mark", f"{directory}/written").option("checkpointLocation", f"{directory}/checkpoint").start()
    time.sleep(10 * PATIENCE_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
