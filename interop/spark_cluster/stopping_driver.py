"""A streaming driver that stops at a point of a micro-batch, where the test kills it or one of its executors.

    python stopping_driver.py copy|count MASTER BOOTSTRAP DIRECTORY POINT

`copy` streams the topic in to the topic out; `count` streams it through transformWithState to the topic counts. At
POINT the process that reaches it creates the file `at-POINT`, which has its executor's pid, and waits for the file
`go-on`. The points, in the order of a micro-batch:

    planned     the batch's end is known, and not yet in the checkpoint
    offsets     its offsets are in the checkpoint, and no task has started
    task        a task of the sink has started
    rows        some of its rows are stored
    stored      all rows of a task are stored, and the driver does not know yet
    commit      all tasks are done, and the sink's commit begins
    committed   the sink's commit has ended, and Spark has not recorded it
    next        Spark has recorded it, and asks for the next batch

With any other POINT the stream runs to its end.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql.datasource import InputPartition, WriterCommitMessage
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType

from insync.spark.data_source import InsyncDataSource
from insync.spark.read_task import COLUMNS, HEADERS
from insync.spark.sink.options import read_sink_options
from insync.spark.sink.writers import StreamWriter
from insync.spark.source_options import read_source_options
from insync.spark.stream_reader import StreamReader
from tests.polling import wait_until
from tests.spark.sink_data import end_offsets
from tests.spark.spark_session import start
from tests.spark.standalone import TIMEOUT_S, parent

POINTS = ("planned", "offsets", "task", "rows", "stored", "commit", "committed", "next")
INPUT, COPIES, COUNTS = "in", "out", "counts"
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Stops:
    """Where to stop; pickled to executors."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._point = options["stopAt"]
        self._directory = options["directory"]

    def at(self, point: str) -> bool:
        return point == self._point

    @property
    def is_over(self) -> bool:
        return Path(self._directory, "go-on").exists()

    def reach(self, point: str) -> None:
        if self.at(point) and not self.is_over:
            executor = parent(os.getppid())  # a worker's parent is the daemon
            Path(self._directory, f"at-{point}").write_text(str(executor))
            while not self.is_over:
                time.sleep(0.02)


def without_stops(options: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name.lower() not in ("stopat", "directory")}


class StoppingDataSource(InsyncDataSource):
    @classmethod
    def name(cls) -> str:
        return "stopping"

    def streamReader(self, schema: StructType) -> StoppingReader:  # noqa: N802
        return StoppingReader(self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StoppingWriter:  # noqa: N802
        return StoppingWriter(self.options)


class StoppingReader(StreamReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        columns = tuple(name for name in COLUMNS if name != HEADERS)
        super().__init__(read_source_options(without_stops(options), streaming=True), columns)
        self._stops = Stops(options)
        self._has_planned = False

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802
        if self._has_planned:
            self._stops.reach("next")
        end = super().latestOffset(start, limit)
        if end != start:
            self._stops.reach("planned")
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self._has_planned = True
        self._stops.reach("offsets")
        return list(super().partitions(start, end))


class StoppingWriter(StreamWriter):
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(read_sink_options(without_stops(options)))
        self._stops = Stops(options)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        self._stops.reach("task")
        message = super().write(self._pause_within(iterator))
        self._stops.reach("stored")
        return message

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        self._stops.reach("commit")
        super().commit(messages, batchId)
        self._stops.reach("committed")

    def _pause_within(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Before the last Arrow batch, when rows of this batch are stored."""
        before = self._count_stored() if self._stops.at("rows") else 0
        last: pa.RecordBatch | None = None
        for batch in batches:
            if last is not None:
                yield last
            last = batch
        if last is not None and self._stops.at("rows"):
            wait_until(
                lambda: self._stops.is_over or self._count_stored() > before, "rows are stored", timeout_s=TIMEOUT_S
            )
            self._stops.reach("rows")
        if last is not None:
            yield last

    def _count_stored(self) -> int:
        return sum(end_offsets(self.options.bootstrap, str(self.options.topic)))


class Counter(StatefulProcessor):
    """Numbers the records of each key, and returns the first and the last number of each batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._total = handle.getValueState("total", "total bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        (before,) = self._total.get() or (0,)
        after = before + sum(1 for _ in rows)
        self._total.update((after,))
        yield Row(value=f"{key[0]}:{before + 1}-{after}")

    def close(self) -> None:
        pass


def main(job: str, master: str, bootstrap: str, directory: Path, point: str) -> None:
    settings = {
        "spark.executor.cores": "1",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "200",
        "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
    }
    spark = start(master, **settings)
    spark.dataSource.register(StoppingDataSource)
    common = {"kafka.bootstrap.servers": bootstrap, "stopAt": point, "directory": str(directory)}
    source = spark.readStream.format("stopping").options(**common, subscribe=INPUT, startingOffsets="earliest").load()
    topic = COPIES if job == "copy" else COUNTS
    sink = (source.select("value") if job == "copy" else count(source)).writeStream.format("stopping")
    sink = sink.options(**common, topic=topic).option("kafka.batch.size", "2000").outputMode("append")
    query = sink.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


def count(source: DataFrame) -> DataFrame:
    keyed = source.selectExpr("cast(key as string) as key")
    counted = keyed.groupBy("key").transformWithState(Counter(), "value string", "append", "none")
    return counted.select("value")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), sys.argv[5])
