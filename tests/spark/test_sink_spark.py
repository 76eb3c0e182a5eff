"""The sink on real Spark and real brokers: batch jobs, streams, every codec, and failures in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from insync.testing import Cluster
from tests.polling import wait_until
from tests.spark.sink_data import read_records
from tests.spark.sink_driver import KILLED, RETRIED, ROWS, ArrowMap

pytestmark = pytest.mark.xdist_group("spark")

LONG_TIMEOUT_S = 300


def stored_values(bootstrap: str, topic: str) -> list[bytes]:
    return sorted(record.value or b"" for record in read_records(bootstrap, topic))


def expected_values(count: int) -> list[bytes]:
    return sorted(b"v%d" % i for i in range(count))


def save(frame: DataFrame, bootstrap: str, **options: str) -> None:
    frame.write.format("insync").option("kafka.bootstrap.servers", bootstrap).options(**options).mode("append").save()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_are_stored_unchanged_with_every_codec(spark: SparkSession, spark_cluster: Cluster, codec: str) -> None:
    topic = f"sink-codec-{codec}"
    spark_cluster.create_topic(topic, partitions=3)
    frame = spark.range(0, 700, 1, 2).selectExpr(
        "case when id % 3 > 0 then cast('k' || id as binary) end as key",
        "case when id % 7 > 0 then 'v' || repeat('é', cast(id % 5 as int)) || id end as value",
        "case when id % 2 = 0 then array(named_struct('key', 'n', 'value', cast('' || id as binary))) end as headers",
        "id as other",
    )
    save(frame, spark_cluster.bootstrap, topic=topic, **{"kafka.compression.type": codec})
    stored = {(r.key, r.value, str(r.headers)) for r in read_records(spark_cluster.bootstrap, topic)}
    expected = {
        (
            b"k%d" % i if i % 3 else None,
            ("v" + "é" * (i % 5) + str(i)).encode() if i % 7 else None,
            str([("n", b"%d" % i)] if i % 2 == 0 else None),
        )
        for i in range(700)
    }
    assert stored == expected


def test_records_keep_their_timestamps_on_request(spark: SparkSession, spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("sink-times")
    frame = spark.sql("select 'v' as value, timestamp_millis(1700000000123) as timestamp")
    save(frame, spark_cluster.bootstrap, topic="sink-times", includeTimestamp="true")
    save(frame, spark_cluster.bootstrap, topic="sink-times")
    kept, set_by_sink = [record.timestamp_ms for record in read_records(spark_cluster.bootstrap, "sink-times")]
    assert kept == 1_700_000_000_123
    assert set_by_sink > kept


def test_records_above_the_maximum_size_fail_the_job(spark: SparkSession, spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("sink-sizes")
    frame = spark.sql("select 'v0' as value")
    save(frame, spark_cluster.bootstrap, topic="sink-sizes", **{"kafka.max.request.size": "87"})
    with pytest.raises(Exception, match=r"has 87 bytes, more than option 'kafka\.max\.request\.size' allows"):
        save(frame, spark_cluster.bootstrap, topic="sink-sizes", **{"kafka.max.request.size": "86"})
    assert stored_values(spark_cluster.bootstrap, "sink-sizes") == expected_values(1)


def test_a_batch_job_that_is_repeated_with_its_fence_id_writes_nothing(
    spark: SparkSession, spark_cluster: Cluster
) -> None:
    spark_cluster.create_topic("sink-named", partitions=2)
    frame = spark.range(0, 100, 1, 2).selectExpr("'v' || id as value")
    for _ in range(2):
        save(frame, spark_cluster.bootstrap, topic="sink-named", fenceId="monday")
    assert stored_values(spark_cluster.bootstrap, "sink-named") == expected_values(100)


def test_a_stream_writes_each_row_once(spark: SparkSession, spark_cluster: Cluster, tmp_path: Path) -> None:
    spark_cluster.create_topic("sink-stream", partitions=3)
    (tmp_path / "in").mkdir()
    for first in (0, 500):
        (tmp_path / "in" / f"{first}.txt").write_text("".join(f"v{i}\n" for i in range(first, first + 500)))
        run_stream(spark, spark_cluster.bootstrap, "sink-stream", tmp_path)
    assert stored_values(spark_cluster.bootstrap, "sink-stream") == expected_values(1_000)


def run_stream(spark: SparkSession, bootstrap: str, topic: str, directory: Path) -> None:
    """Write what is new in directory/in."""
    query = (
        spark.readStream.text(str(directory / "in"))
        .writeStream.format("insync")
        .options(**{"kafka.bootstrap.servers": bootstrap, "kafka.batch.size": "20000", "topic": topic})
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(LONG_TIMEOUT_S)
    assert query.exception() is None


def test_no_row_is_repeated_after_a_failed_task_or_a_driver_killed_before_its_commit(
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
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=log,
            stderr=log,
        )
    try:
        wait_for_file(tmp_path / "written", driver)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)  # the driver, its JVM and its workers
        driver.wait()
    assert stored_values(spark_cluster.bootstrap, RETRIED) == expected_values(ROWS)
    assert stored_values(spark_cluster.bootstrap, KILLED) == expected_values(9_000)
    assert not list((tmp_path / "checkpoint" / "commits").glob("0"))
    run_stream(spark, spark_cluster.bootstrap, KILLED, tmp_path)
    assert stored_values(spark_cluster.bootstrap, KILLED) == expected_values(9_000)


def wait_for_file(path: Path, driver: subprocess.Popen[bytes]) -> None:
    """Fails with the end of the driver's log if the driver ends first."""

    def exists() -> bool:
        assert driver.poll() is None, path.with_name("driver.log").read_text()[-2_000:]
        return path.exists()

    wait_until(exists, f"there is {path}", timeout_s=LONG_TIMEOUT_S)


def test_no_row_is_lost_or_repeated_when_a_leader_is_killed_in_the_middle(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster(brokers=3, topics={"orders": 2}) as cluster:

        def kill_leader() -> None:
            wait_until((tmp_path / "half").exists, "half of the rows are written", timeout_s=LONG_TIMEOUT_S)
            cluster.kill(cluster.leader_of("orders", 0))
            (tmp_path / "go").touch()

        killer = threading.Thread(target=kill_leader)
        killer.start()
        frame = spark.range(0, 20_000, 1, 1).selectExpr("'v' || id as value", "'k' || id as key")
        paused = frame.mapInArrow(make_pausing_task(str(tmp_path)), frame.schema)
        save(paused, cluster.bootstrap, topic="orders", **{"kafka.batch.size": "20000"})
        killer.join()
        assert stored_values(cluster.bootstrap, "orders") == expected_values(20_000)


def make_pausing_task(directory: str) -> ArrowMap:
    def pause(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            yield batch
            if number == 0:
                Path(directory, "half").touch()
                wait_until(Path(directory, "go").exists, "the leader is killed", timeout_s=LONG_TIMEOUT_S)

    return pause


def test_the_error_for_a_wrong_type_names_the_column(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="column 'value' is of type int: it must be string or binary"):
        save(spark.sql("select 1 as value"), "localhost:1", topic="t")
