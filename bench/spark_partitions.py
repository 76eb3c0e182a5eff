"""How the source grows with the number of partitions: planning, a task of one record, a micro-batch, `count()`.

    python bench/spark_partitions.py [--quick] [--without-kafka] [--json FILE] [--partitions N ...]

Three brokers, `local[2]`, topics with one replica per partition. Each topic has ten records in every partition. Cold is
the first plan of a session for the topic, warm the best of three more. A trigger is a micro-batch of one record. With
the jars of Spark's own connector (`make spark-kafka`), it is measured beside the source.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from common import table
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from spark_measure import measure

from insync.pipeline.session import open_session
from insync.spark.executor import read_offsets
from insync.testing import Cluster

JARS = Path(__file__).parents[1] / "build" / "spark-kafka"
FORMATS = {"insync": "insync", "connector": "kafka"}
SIZES, QUICK_SIZES = (4, 500, 2_000, 5_000), (4, 200)
RECORDS = 10
"""In each partition."""
Figures = dict[str, dict[str, float]]


def main() -> int:
    arguments = _arguments()
    jars = [] if arguments.without_kafka else sorted(JARS.glob("*.jar"))
    sizes = arguments.partitions or (QUICK_SIZES if arguments.quick else SIZES)
    conf = {"spark.jars": ",".join(map(str, jars))} if jars else {}
    spark = open_session("local[2]", "insync-bench", **{"spark.driver.memory": "2g"}, **conf)
    formats = ("insync", "connector") if jars else ("insync",)
    try:
        with tempfile.TemporaryDirectory(prefix="insync-bench-") as directory, Cluster(brokers=3) as cluster:
            figures = measure_partitions(spark, cluster, sizes, formats, Path(directory))
    finally:
        spark.stop()
    if arguments.json:
        arguments.json.write_text(json.dumps({"load_average": os.getloadavg(), **figures}, indent=2))
    return 0


def measure_partitions(
    spark: SparkSession, cluster: Cluster, sizes: Sequence[int], formats: tuple[str, ...], directory: Path
) -> Figures:
    figures: Figures = {}
    for size in sizes:
        fill(cluster, size)
        for name in formats:
            row = figures.setdefault(f"{size:,} partitions, {name}", {})
            row["plan cold s"], row["plan warm s"], row["tasks"] = plan(source(spark, cluster, name, size))
            if name == "insync":
                row["task ms"] = one_record_task(cluster, size) * 1_000
            row["count s"] = measure(source(spark, cluster, name, size)().count, warm=1, runs=2).seconds
            row["trigger s"] = trigger(spark, cluster, name, size, directory)
            print(f"{size} {name}: {row}", flush=True)
    columns = ("plan cold s", "plan warm s", "tasks", "task ms", "count s", "trigger s")
    lines = [(title, *(row.get(column, "") for column in columns)) for title, row in figures.items()]
    table(f"by partitions (load average {os.getloadavg()[0]:.1f})", ("", *columns), lines)
    return figures


def fill(cluster: Cluster, size: int) -> None:
    cluster.create_topic(f"p{size}", partitions=size, replication_factor=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 50})
    for number in range(RECORDS * size):
        producer.produce(f"p{size}", b"%010d" % number, partition=number % size)
        producer.poll(0)
    if producer.flush(300):
        raise RuntimeError(f"p{size} could not be written")


def source(spark: SparkSession, cluster: Cluster, name: str, size: int) -> Callable[[], DataFrame]:
    reader = spark.read.format(FORMATS[name]).option("kafka.bootstrap.servers", cluster.bootstrap)
    return lambda: reader.option("subscribe", f"p{size}").load()


def plan(frame: Callable[[], DataFrame]) -> tuple[float, float, int]:
    """(cold, warm, tasks)"""
    began = time.perf_counter()
    tasks = frame().rdd.getNumPartitions()
    cold = time.perf_counter() - began

    def plan_again() -> None:
        frame().rdd.getNumPartitions()

    return cold, measure(plan_again, warm=0, runs=3).seconds, tasks


def one_record_task(cluster: Cluster, size: int) -> float:
    """As an executor runs it, without Spark: the median of some tasks in a process that has run one before."""
    from insync.spark.batch_reader import make_batch_reader
    from insync.spark.source_options import read_source_options

    offsets = {str(index): 1 if index < 1 else 0 for index in range(size)}
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap,
        "subscribe": f"p{size}",
        "startingOffsets": json.dumps({f"p{size}": {str(index): 0 for index in range(size)}}),
        "endingOffsets": json.dumps({f"p{size}": offsets}),
    }
    reader = make_batch_reader(read_source_options(options, streaming=False), ("value", "offset"))
    (task,) = reader.partitions()
    copied = pickle.dumps(task)

    def run() -> None:
        if sum(batch.num_rows for batch in read_offsets(pickle.loads(copied))) != 1:
            raise RuntimeError("the task did not read one record")

    return measure(run, warm=3, runs=20).seconds


def trigger(spark: SparkSession, cluster: Cluster, name: str, size: int, directory: Path) -> float:
    """Seconds of a micro-batch with one record: the median of five."""
    reader = spark.readStream.format(FORMATS[name]).option("kafka.bootstrap.servers", cluster.bootstrap)
    frame = reader.option("subscribe", f"p{size}").option("startingOffsets", "latest").load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(directory / f"{name}-{size}"))
    query = writer.trigger(processingTime="0 seconds").start()
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    try:
        _wait(lambda: query.lastProgress)
        seconds: list[float] = []
        for number in range(7):
            producer.produce(f"p{size}", b"one", partition=number % size)
            producer.flush(30)
            done = _wait(lambda: _progress_with_rows(query, len(seconds) + 1))
            seconds.append(done["durationMs"]["triggerExecution"] / 1_000)
    finally:
        query.stop()
    return sorted(seconds[2:])[2]


def _progress_with_rows(query: Any, count: int) -> Any:
    reports = [report for report in query.recentProgress if report["numInputRows"]]
    return reports[count - 1] if len(reports) >= count else None


def _wait(condition: Callable[[], Any]) -> Any:
    while not (value := condition()):
        time.sleep(0.02)
    return value


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few partitions")
    parser.add_argument("--partitions", type=int, nargs="*", metavar="N", help="topics of so many partitions")
    parser.add_argument("--without-kafka", action="store_true", help="without Spark's own connector")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
