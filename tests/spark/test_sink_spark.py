"""The sink on real Spark and real brokers: batch jobs, streams, every codec, and whatever may die in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from insync.testing import Cluster
from tests.spark.sink_data import PATIENCE_S, records
from tests.spark.sink_driver import KILLED, RETRIED, ROWS
from tests.spark.standalone import QUICK_JVM

pytestmark = pytest.mark.xdist_group("spark")


def written(bootstrap: str, topic: str) -> list[bytes]:
    return sorted(record.value for record in records(bootstrap, topic))


def numbers(count: int) -> list[bytes]:
    return sorted(b"v%d" % i for i in range(count))


def save(frame: DataFrame, bootstrap: str, **options: str) -> None:
    frame.write.format("insync").option("kafka.bootstrap.servers", bootstrap).options(**options).mode("append").save()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_come_out_of_the_log_as_they_went_in(spark: SparkSession, spark_cluster: Cluster, codec: str) -> None:
    topic = f"sink-codec-{codec}"
    spark_cluster.create_topic(topic, partitions=3)
    frame = spark.range(0, 700, 1, 2).selectExpr(
        "case when id % 3 > 0 then cast('k' || id as binary) end as key",
        "case when id % 7 > 0 then 'v' || repeat('é', cast(id % 5 as int)) || id end as value",
        "case when id % 2 = 0 then array(named_struct('key', 'n', 'value', cast('' || id as binary))) end as headers",
        "id as other",
    )
    save(frame, spark_cluster.bootstrap, topic=topic, **{"kafka.compression.type": codec})
    found = {(r.key, r.value, str(r.headers)) for r in records(spark_cluster.bootstrap, topic)}
    wanted = {
        (
            b"k%d" % i if i % 3 else None,
            ("v" + "é" * (i % 5) + str(i)).encode() if i % 7 else None,
            str([("n", b"%d" % i)] if i % 2 == 0 else None),
        )
        for i in range(700)
    }
    assert found == wanted


def test_records_keep_their_time_if_asked_to(spark: SparkSession, spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("sink-times")
    frame = spark.sql("select 'v' as value, timestamp_millis(1700000000123) as timestamp")
    save(frame, spark_cluster.bootstrap, topic="sink-times", includeTimestamp="true")
    save(frame, spark_cluster.bootstrap, topic="sink-times")
    kept, written_now = [record.timestamp_ms for record in records(spark_cluster.bootstrap, "sink-times")]
    assert kept == 1_700_000_000_123
    assert written_now > kept


def test_a_batch_job_that_is_started_again_under_its_name_writes_nothing(
    spark: SparkSession, spark_cluster: Cluster
) -> None:
    spark_cluster.create_topic("sink-named", partitions=2)
    frame = spark.range(0, 100, 1, 2).selectExpr("'v' || id as value")
    for _ in range(2):
        save(frame, spark_cluster.bootstrap, topic="sink-named", fenceId="load-of-monday")
    assert written(spark_cluster.bootstrap, "sink-named") == numbers(100)


def test_a_stream_writes_each_row_once(spark: SparkSession, spark_cluster: Cluster, tmp_path: Path) -> None:
    spark_cluster.create_topic("sink-stream", partitions=3)
    (tmp_path / "in").mkdir()
    for first in (0, 500):
        (tmp_path / "in" / f"{first}.txt").write_text("".join(f"v{i}\n" for i in range(first, first + 500)))
        stream(spark, spark_cluster.bootstrap, "sink-stream", tmp_path)
    assert written(spark_cluster.bootstrap, "sink-stream") == numbers(1_000)


def stream(spark: SparkSession, bootstrap: str, topic: str, directory: Path) -> None:
    """Everything that is in directory/in and was not written yet."""
    query = (
        spark.readStream.text(str(directory / "in"))
        .writeStream.format("insync")
        .options(**{"kafka.bootstrap.servers": bootstrap, "kafka.batch.size": "20000", "topic": topic})
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(5 * PATIENCE_S)
    assert query.exception() is None


def test_tasks_that_fail_and_a_driver_that_is_killed_before_it_commits_double_nothing(
    spark: SparkSession, spark_cluster: Cluster, tmp_path: Path
) -> None:
    spark_cluster.create_topic(RETRIED, partitions=2)
    spark_cluster.create_topic(KILLED, partitions=2)
    (tmp_path / "in").mkdir()
    for part in range(3):
        lines = "".join(f"v{i}\n" for i in range(part * 3_000, (part + 1) * 3_000))
        (tmp_path / "in" / f"{part}.txt").write_text(lines)
    command = [sys.executable, str(Path(__file__).with_name("sink_driver.py")), spark_cluster.bootstrap, str(tmp_path)]
    with open(tmp_path / "driver.log", "wb") as log:
        driver = subprocess.Popen(
            command,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "JAVA_TOOL_OPTIONS": QUICK_JVM},
            stdout=log,
            stderr=log,
        )
    try:
        wait_for(tmp_path / "written", driver)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)  # the driver, its JVM and its workers
        driver.wait()
    assert written(spark_cluster.bootstrap, RETRIED) == numbers(ROWS)
    assert written(spark_cluster.bootstrap, KILLED) == numbers(9_000)
    assert not list((tmp_path / "checkpoint" / "commits").glob("0"))
    stream(spark, spark_cluster.bootstrap, KILLED, tmp_path)
    assert written(spark_cluster.bootstrap, KILLED) == numbers(9_000)


def wait_for(path: Path, driver: subprocess.Popen[bytes] | None = None) -> None:
    deadline = time.monotonic() + 5 * PATIENCE_S
    while not path.exists():
        assert time.monotonic() < deadline, path
        assert driver is None or driver.poll() is None, path.with_name("driver.log").read_text()[-2_000:]
        time.sleep(0.1)


def test_a_leader_that_is_killed_in_the_middle_costs_and_doubles_no_row(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster(brokers=3, topics={"orders": 2}) as cluster:

        def kill() -> None:
            wait_for(tmp_path / "half")
            cluster.kill(cluster.leader_of("orders", 0))
            (tmp_path / "go").touch()

        killing = threading.Thread(target=kill)
        killing.start()
        frame = spark.range(0, 20_000, 1, 1).selectExpr("'v' || id as value", "'k' || id as key")
        paused = frame.mapInArrow(pausing(str(tmp_path)), frame.schema)
        save(paused, cluster.bootstrap, topic="orders", **{"kafka.batch.size": "20000"})
        killing.join()
        assert written(cluster.bootstrap, "orders") == numbers(20_000)


def pausing(directory: str) -> Any:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            yield batch
            if number == 0:
                Path(directory, "half").touch()
                deadline = time.monotonic() + 5 * PATIENCE_S
                while not Path(directory, "go").exists() and time.monotonic() < deadline:
                    time.sleep(0.05)

    return work


def test_a_mistake_names_the_column(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="column 'value' is of type int: it must be string or binary"):
        save(spark.sql("select 1 as value"), "localhost:1", topic="t")
