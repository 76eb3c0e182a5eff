"""A driver program for a standalone master: reads a topic while one of its executors is killed, and says what it got.

    python standalone_driver.py MASTER BOOTSTRAP TOPIC DIRECTORY

Each task of the first attempt leaves `reached-<pid of its executor>` in the directory, and waits for `go-on`. A task of
a later attempt leaves `again`. The last line printed is a JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_session import start


def main(master: str, bootstrap: str, topic: str, directory: Path) -> None:
    quick = "-XX:TieredStopAtLevel=1"  # starts faster, and runs slower: here the start is nearly all there is
    settings = {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": quick,
        "spark.driver.extraJavaOptions": quick,
    }
    spark = start(master, **settings)
    try:
        print(json.dumps(read(spark, bootstrap, topic, directory)))
    finally:
        spark.stop()


def read(spark: SparkSession, bootstrap: str, topic: str, directory: Path) -> dict[str, int]:
    def hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        later = context is not None and context.attemptNumber() > 0
        for batch in batches:
            (directory / ("again" if later else f"reached-{_grandparent()}")).touch()
            while not later and not (directory / "go-on").exists():
                time.sleep(0.01)
            yield batch

    frame = (
        spark.read.format("insync")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .load()
        .select("partition", "offset", "value")
    )
    held = frame.mapInArrow(hold, frame.schema)
    number = F.col("value").cast("string").substr(2, 9).cast("bigint")
    (row,) = held.agg(
        F.count("*"), F.countDistinct("partition", "offset"), F.sum(number), F.countDistinct(number)
    ).collect()
    return dict(zip(("rows", "positions", "sum", "values"), row, strict=True))


def _grandparent() -> int:
    """Of a Python worker: its parent is the daemon, and the daemon's parent the executor."""
    return int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
