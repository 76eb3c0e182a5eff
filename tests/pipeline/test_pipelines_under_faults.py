"""An archive and a stream read a topic under faults, and another stream copies it: each acknowledged record is in all
three, once.

The faults are those of `insync chaos` that affect clients most: a leader that is cut off or paused and does not know
its successor, a partition that moves to other brokers, a time without any broker. INSYNC_FAULT_ROUNDS makes the test
longer, with all faults.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from insync import lake
from insync.chaos.faults import FAULTS, FaultContext, inject
from insync.chaos.workload.load import Load
from insync.chaos.workload.workload import Workload
from insync.history import history_file
from insync.pipeline.archive import job as archive
from insync.pipeline.archive.job import ArchiveOptions
from insync.pipeline.archive.verify import verify_lake
from insync.testing import Cluster
from tests.polling import wait_until

pytestmark = pytest.mark.xdist_group("spark")

ROUNDS = int(os.environ.get("INSYNC_FAULT_ROUNDS", "0"))
SHORT_RUN = ("cut", "reassign", "pause", "kill-all")
TOPIC, COPY = "faults", "faults-copy"
TIMEOUT_S = 120.0
WHERE = ["topic", "partition", "offset"]


class FollowingArchive:
    """`archive --follow` in a thread; if it fails, the error is raised at the end."""

    def __init__(self, spark: SparkSession, bootstrap: str, directory: Path) -> None:
        self._spark = spark
        self._options = ArchiveOptions(
            bootstrap=bootstrap, lake=str(directory), topics=(TOPIC,), follow=True, interval_s=0.2, roll_interval_s=0.0
        )
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> FollowingArchive:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()
        if self._error is not None and kind is None:
            raise self._error

    def _run(self) -> None:
        try:
            archive.run(self._spark, self._options, stop=self._stop)
        except BaseException as error:
            self._error = error


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    topic = {"partitions": 3, "replication_factor": 3, "min_insync_replicas": 2}
    with Cluster(brokers=4, topics={TOPIC: topic, COPY: topic}) as running:
        yield running


def test_each_acknowledged_record_is_read_once(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    load = Load(bootstrap=cluster.bootstrap, topic=TOPIC, partitions=3, rate=200, producers=1, consumers=0)
    with (
        Workload(load, tmp_path / "history.jsonl") as workload,
        FollowingArchive(spark, cluster.bootstrap, tmp_path / "lake"),
    ):
        context = FaultContext(cluster, workload, random.Random(ROUNDS))
        context.wait_for_recovery()
        queries = [
            start_archive_stream(spark, cluster.bootstrap, tmp_path),
            start_copy_stream(spark, cluster.bootstrap, tmp_path),
        ]
        for query in queries:
            wait_until(partial(_has_progress, query), "the query has run its first batch", timeout_s=TIMEOUT_S)
        for fault in SHORT_RUN if not ROUNDS else list(FAULTS) * ROUNDS:
            inject(fault, context)
            assert [query.exception() for query in queries] == [None, None]
        assert workload.finish().ok
    for query in queries:
        query.processAllAvailable()
        query.stop()
    archive.run(spark, ArchiveOptions(bootstrap=cluster.bootstrap, lake=str(tmp_path / "lake"), topics=(TOPIC,)))
    assert verify_lake(tmp_path / "lake", cluster.bootstrap).problems == []
    acknowledged = read_acknowledgements(spark, tmp_path / "history.jsonl")
    assert acknowledged.count() > 100
    for rows in (lake.read(spark, tmp_path / "lake"), spark.read.parquet(str(tmp_path / "stream"))):
        offsets = rows.select(*WHERE)
        assert offsets.count() == offsets.distinct().count()
        assert acknowledged.join(offsets, WHERE, "left_anti").count() == 0
    assert read_topic(spark, cluster.bootstrap, COPY) == read_topic(spark, cluster.bootstrap, TOPIC)


def _has_progress(query: StreamingQuery) -> bool:
    return query.lastProgress is not None


def read(spark: SparkSession, bootstrap: str) -> DataFrame:
    source = spark.readStream.format("insync").option("kafka.bootstrap.servers", bootstrap).option("subscribe", TOPIC)
    return source.option("startingOffsets", "earliest").load()


def start_archive_stream(spark: SparkSession, bootstrap: str, directory: Path) -> StreamingQuery:
    sink = read(spark, bootstrap).writeStream.format("parquet").option("checkpointLocation", str(directory / "stored"))
    return sink.start(str(directory / "stream"))


def start_copy_stream(spark: SparkSession, bootstrap: str, directory: Path) -> StreamingQuery:
    rows = read(spark, bootstrap).select("key", "value", "partition")
    sink = rows.writeStream.format("insync").option("kafka.bootstrap.servers", bootstrap).option("topic", COPY)
    return sink.option("checkpointLocation", str(directory / "copied")).start()


def read_topic(spark: SparkSession, bootstrap: str, topic: str) -> list[tuple[int, bytes]]:
    """(partition, value) in the order of the log."""
    rows = spark.read.format("insync").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()
    ordered = rows.select("partition", "offset", "value").orderBy("partition", "offset").collect()
    return [(row.partition, bytes(row.value)) for row in ordered]


def read_acknowledgements(spark: SparkSession, path: Path) -> DataFrame:
    events = spark.read.schema("kind string, topic string, partition int, offset long").json(str(path))
    return events.where(f"kind = '{history_file.ACK}' and offset >= 0").select(*WHERE)
