"""The streaming source on real Spark: restarts from checkpoints, limits, progress, and the death of a leader."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from insync.client import groups, topics
from insync.client.sync_client import SyncClient
from insync.spark.stream_offsets import lag
from insync.testing import Cluster
from tests.polling import wait_until
from tests.spark.spark_data import numbered, produce, values

pytestmark = pytest.mark.xdist_group("spark")

TIMEOUT_S = 120


class Job:
    """A query that collects its batches; it can be started again from its checkpoint."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str, checkpoint: Path, **options: str) -> None:
        self.batches: dict[int, list[bytes | None]] = {}
        self._checkpoint = checkpoint
        self._frame = (
            spark.readStream.format("insync")
            .option("kafka.bootstrap.servers", bootstrap)
            .options(**{"subscribe": topic, "startingOffsets": "earliest", **options})
            .load()
        )

    def _collect(self, frame: DataFrame, batch: int) -> None:
        self.batches[batch] = values(frame)

    def start(self, **trigger: Any) -> StreamingQuery:
        writer = self._frame.writeStream.foreachBatch(self._collect).option("checkpointLocation", str(self._checkpoint))
        return writer.trigger(**trigger).start()

    def run(self) -> StreamingQuery:
        """Read what there is now."""
        query = self.start(availableNow=True)
        assert query.awaitTermination(TIMEOUT_S)
        return query

    def received(self) -> list[bytes | None]:
        return [value for batch in sorted(self.batches) for value in self.batches[batch]]


def test_a_run_continues_from_the_checkpoint_and_repeats_the_uncommitted_batch(
    spark: SparkSession, spark_cluster: Cluster, tmp_path: Path
) -> None:
    spark_cluster.create_topic("runs", partitions=1)
    produce(spark_cluster.bootstrap, "runs", numbered(0, 25))
    job = Job(
        spark, spark_cluster.bootstrap, "runs", tmp_path / "checkpoint", maxOffsetsPerTrigger="10", groupId="spark-runs"
    )
    query = job.run()
    assert [len(batch) for batch in job.batches.values()] == [10, 10, 5]
    assert job.received() == numbered(0, 25)
    first = query.recentProgress[0]["sources"][0]
    assert lag(first) == {("runs", 0): 15}
    with SyncClient(spark_cluster.bootstrap) as client:
        assert client.call(lambda cluster: groups.list_committed_offsets(cluster, "spark-runs")) == {("runs", 0): 25}

    (tmp_path / "checkpoint" / "commits" / "2").unlink()  # as if the driver had died before it committed
    (tmp_path / "checkpoint" / "commits" / ".2.crc").unlink(missing_ok=True)
    produce(spark_cluster.bootstrap, "runs", numbered(25, 30))
    del job.batches[2]
    job.run()
    assert job.batches[2] == numbered(20, 25)
    assert job.received() == numbered(0, 30)


def test_a_running_stream_reads_new_partitions_and_fails_when_its_topic_is_deleted(
    spark: SparkSession, spark_cluster: Cluster, tmp_path: Path
) -> None:
    spark_cluster.create_topic("living", partitions=1)
    job = Job(spark, spark_cluster.bootstrap, "living", tmp_path / "checkpoint", startingOffsets="latest")
    query = job.start(processingTime="50 milliseconds")
    try:
        wait_for_query(lambda: 0 in job.batches, "the first batch is read", query)
        produce(spark_cluster.bootstrap, "living", numbered(0, 3))
        with SyncClient(spark_cluster.bootstrap) as client:
            client.call(lambda cluster: topics.create_partitions(cluster, "living", 2))
            spark_cluster.wait_for_leader("living", 1)
            produce(spark_cluster.bootstrap, "living", numbered(10, 13), partition=1)
            wait_for_query(lambda: len(job.received()) >= 6, "both partitions are read", query)
            assert sorted(value or b"" for value in job.received()) == numbered(0, 3) + numbered(10, 13)
            client.call(lambda cluster: topics.delete(cluster, "living"))
        with pytest.raises(Exception, match=r"cannot continue living-0 from offset 3 \(deleted\)"):
            query.awaitTermination(TIMEOUT_S)
    finally:
        query.stop()


def test_a_micro_batch_continues_with_the_next_leader(spark: SparkSession, tmp_path: Path) -> None:
    """The task has its first rows and waits until the leader is dead; it reads the rest from the next leader."""
    reached, go_on = tmp_path / "reached", tmp_path / "go-on"
    value = b"x" * 1_000
    count = 40_000

    def pause(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            reached.touch()
            while not go_on.exists():
                time.sleep(0.01)
            yield batch

    with Cluster(brokers=3, topics={"held": 1}) as cluster:
        produce(cluster.bootstrap, "held", [b"%06d" % i + value for i in range(count)], acks="all")
        frame = (
            spark.readStream.format("insync")
            .option("kafka.bootstrap.servers", cluster.bootstrap)
            .options(subscribe="held", startingOffsets="earliest")
            .load()
            .select("offset")
            .mapInArrow(pause, "offset bigint")
        )
        offsets: list[int] = []

        def collect(rows: DataFrame, _batch: int) -> None:
            offsets.extend(row.offset for row in rows.collect())

        writer = frame.writeStream.foreachBatch(collect).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            wait_for_query(reached.exists, "a task has its first rows", query)
            cluster.kill(cluster.leader_of("held"))
            go_on.touch()
            assert query.awaitTermination(TIMEOUT_S)
        finally:
            go_on.touch()
            query.stop()
        assert sorted(offsets) == list(range(count))


def wait_for_query(condition: Callable[[], bool], description: str, query: StreamingQuery) -> None:
    """As `wait_until`, but fails as soon as the query ends."""

    def condition_while_active() -> bool:
        assert query.isActive, query.exception()
        return condition()

    wait_until(condition_while_active, description, timeout_s=TIMEOUT_S)
