"""A topic into another cluster: by the mirror, by a replay of its lake, and by a loop of a plain consumer and producer.

The loop is confluent-kafka with an idempotent producer. It stands for what one would write by hand, and is not exact: a
loop that is killed writes records twice or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import spark_topics
from common import table
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession
from spark_measure import emptied, measure
from spark_queries import Queries
from spark_topics import Load

from insync.pipeline.mirror import job as mirror
from insync.pipeline.mirror.job import MirrorOptions
from insync.pipeline.mirror.verify import compare_clusters
from insync.pipeline.replay import job as replay
from insync.pipeline.replay.job import ReplayOptions
from insync.pipeline.rounds import ClusterOptions
from insync.testing import Cluster

MB = 1e6
LOOP = "consumer and producer"


def measured(
    spark: SparkSession, cluster: Cluster, queries: Queries, directory: Path, rows: int, *, warm: int, runs: int
) -> dict[str, dict[str, float]]:
    results = {}
    numbers = count()
    with Cluster(brokers=1, directory=directory / "target") as target:
        for size, codec in ((100, "none"), (1_000, "none"), (1_000, "lz4")):
            load = Load(size, codec, rows if size == 100 else rows // 2)
            spark_topics.fill(cluster, load)
            queries.archived(load)
            ways = _ways(spark, cluster, target, directory, load)
            samples = {
                name: measure(lambda: copy(f"copy-{next(numbers)}"), warm=warm, runs=runs)  # noqa: B023  called at once
                for name, copy in ways.items()
            }
            volume = load.rows * load.size / MB
            loop = samples[LOOP].seconds
            table(
                f"{load.title}, {load.rows:,} records to another cluster (load average {os.getloadavg()[0]:.1f})",
                ("", "MB/s of values", "CPU s/GB", "of the loop"),
                [
                    (name, volume / s.seconds, s.cpu_seconds / volume * 1e3, f"{loop / s.seconds:.2f} x")
                    for name, s in samples.items()
                ],
            )
            results[load.title] = {name: volume / sample.seconds for name, sample in samples.items()}
    return results


def _ways(
    spark: SparkSession, cluster: Cluster, target: Cluster, directory: Path, load: Load
) -> dict[str, Callable[[str], None]]:
    options: list[MirrorOptions] = []

    def run_mirror(topic: str) -> None:
        options[:] = [
            MirrorOptions(
                source=ClusterOptions(bootstrap=cluster.bootstrap),
                target=ClusterOptions(bootstrap=target.bootstrap),
                topics={load.topic: topic},
                state=str(emptied(directory / "mirror")),
                groups="",
            )
        ]
        _check(mirror.run(spark, options[0]).rows, load)

    def run_verify(_: str) -> None:
        compared = compare_clusters(spark, options[0])
        if not compared.equal:
            raise RuntimeError(str(compared.differences[0]))
        _check(sum(partition.records for partition in compared.partitions), load)

    def run_replay(topic: str) -> None:
        summary = replay.run(
            spark,
            ReplayOptions(
                bootstrap=target.bootstrap,
                lake=str(directory / "lake"),
                topics={load.topic: topic},
                codec=load.codec,
                create=True,
            ),
        )
        _check(summary.rows, load)

    def run_loop(topic: str) -> None:
        target.create_topic(topic, partitions=load.partitions)
        _copy(cluster.bootstrap, target.bootstrap, topic, load)

    return {"mirror": run_mirror, "mirror --verify": run_verify, "replay": run_replay, LOOP: run_loop}


def _check(rows: int, load: Load) -> None:
    if rows != load.rows:
        raise RuntimeError(f"{rows} records of {load.topic} instead of {load.rows}")


def _copy(source: str, target: str, topic: str, load: Load) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": source, "group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer({**settings, "fetch.message.max.bytes": 4 << 20, "fetch.queue.backoff.ms": 1})
    consumer.assign([TopicPartition(load.topic, partition, 0) for partition in range(load.partitions)])
    producer = Producer(
        {
            "bootstrap.servers": target,
            "enable.idempotence": True,
            "compression.type": load.codec,
            "linger.ms": 20,
            "batch.size": 1 << 18,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    copied = 0
    while copied < load.rows:
        for message in consumer.consume(10_000, 1.0):
            if message.error() is not None:
                raise RuntimeError(str(message.error()))
            record: dict[str, Any] = {"key": message.key(), "value": message.value(), "partition": message.partition()}
            while True:
                try:
                    producer.produce(topic, **record, timestamp=message.timestamp()[1])
                    break
                except BufferError:
                    producer.poll(0.05)
            copied += 1
        producer.poll(0)
    if producer.flush(120):
        raise RuntimeError(f"{topic} could not be written")
    consumer.close()
