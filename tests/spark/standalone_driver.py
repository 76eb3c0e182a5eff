"""A driver program for a standalone master; the test kills one of its executors while it works.

    python standalone_driver.py read|write MASTER BOOTSTRAP DIRECTORY

`read` counts the topic far; `write` streams from far to the topic back. In the middle of its first attempt a task
creates `reached-<pid of its executor>` in the directory and waits for `go-on`: it has read all records by then, and
some of those that it writes are stored. A task of a later attempt creates `again`. The driver prints a JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.spark.sink_data import end_offsets, wait_until_written
from tests.spark.spark_session import start
from tests.spark.standalone import parent

Batches = Iterator[pa.RecordBatch]


def main(job: str, master: str, bootstrap: str, directory: Path) -> None:
    settings = {"spark.executor.cores": "1", "spark.sql.execution.arrow.maxRecordsPerBatch": "2000"}
    spark = start(master, **settings)
    try:
        print(json.dumps({"read": read, "write": write}[job](spark, bootstrap, directory)))
    finally:
        spark.stop()


def read(spark: SparkSession, bootstrap: str, directory: Path) -> dict[str, int]:
    source = spark.read.format("insync").option("kafka.bootstrap.servers", bootstrap).option("subscribe", "far")
    paused = _with_pause(source.load(), directory, lambda: None)
    number = F.col("value").cast("string").substr(2, 9).cast("bigint")
    (row,) = paused.agg(
        F.count("*"), F.countDistinct("partition", "offset"), F.sum(number), F.countDistinct(number)
    ).collect()
    return dict(zip(("rows", "positions", "sum", "values"), row, strict=True))


def write(spark: SparkSession, bootstrap: str, directory: Path) -> dict[str, int]:
    client = {"kafka.bootstrap.servers": bootstrap}
    source = spark.readStream.format("insync").options(**client, subscribe="far", startingOffsets="earliest")

    def note_stored() -> None:
        wait_until_written(bootstrap, "back")
        (directory / "stored").write_text(str(sum(end_offsets(bootstrap, "back"))))

    paused = _with_pause(source.load(), directory, note_stored)
    sink = paused.select("value").writeStream.format("insync").options(**client, topic="back")
    query = sink.option("kafka.batch.size", "2000").option("checkpointLocation", str(directory / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    return {"stored": int((directory / "stored").read_text())}


def _with_pause(frame: DataFrame, directory: Path, before_pause: Callable[[], None]) -> DataFrame:
    """The same rows. First attempts wait for `go-on` before their last Arrow batch."""
    columns = frame.select("partition", "offset", "value")

    def pause(batches: Batches) -> Batches:
        context = TaskContext.get()
        is_retry = context is not None and context.attemptNumber() > 0
        last: pa.RecordBatch | None = None
        for batch in batches:
            if last is not None:
                yield last
            last = batch
        if is_retry:
            (directory / "again").touch()
        else:
            before_pause()
            (directory / f"reached-{parent(os.getppid())}").touch()  # a worker's parent is the daemon
            while not (directory / "go-on").exists():
                time.sleep(0.01)
        if last is not None:
            yield last

    return columns.mapInArrow(pause, columns.schema)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
