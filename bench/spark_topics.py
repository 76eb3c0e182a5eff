"""Topics for the benchmarks with Spark, and what a plain consumer makes of them."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition

from insync.testing import Cluster

DISTINCT = 1_000


@dataclass(frozen=True, slots=True)
class Load:
    """Values of hexadecimal digits: they pack to about half."""

    size: int
    codec: str
    rows: int
    partitions: int = 2
    segment_bytes: int = 64 << 20

    @property
    def topic(self) -> str:
        return f"{self.codec}-{self.size}-{self.rows}-{self.partitions}-{self.segment_bytes}"

    @property
    def title(self) -> str:
        size = f"{self.size} B" if self.size < 1_000 else f"{self.size // 1_000} KB"
        return f"{size}, {'uncompressed' if self.codec == 'none' else self.codec}"


_filled: dict[Load, None] = {}


def fill(cluster: Cluster, load: Load) -> None:
    """Once for each load."""
    if load in _filled:
        return
    _filled[load] = None
    cluster.create_topic(load.topic, partitions=load.partitions, **{"segment.bytes": load.segment_bytes})
    numbers = random.Random(load.size)
    values = [numbers.randbytes(load.size // 2).hex().encode() for _ in range(DISTINCT)]
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "compression.type": load.codec,
            "linger.ms": 20,
            "batch.size": 1 << 18,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    for i in range(load.rows):
        while True:
            try:
                producer.produce(load.topic, values[i % DISTINCT], partition=i % load.partitions)
                break
            except BufferError:
                producer.poll(0.05)
        if i % 5_000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise RuntimeError(f"{load.topic} could not be written")


def consume(cluster: Cluster, load: Load) -> float:
    """Seconds that a plain confluent-kafka consumer takes to see every value."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "bench", "enable.auto.commit": False}
    restless = {"fetch.message.max.bytes": 4 << 20, "fetch.queue.backoff.ms": 1}
    consumer = Consumer({**settings, **restless})  # else it pauses for a second whenever 100,000 messages wait
    consumer.assign([TopicPartition(load.topic, partition, 0) for partition in range(load.partitions)])
    seen = 0
    began = time.perf_counter()
    while seen < load.rows:
        seen += sum(message.value() is not None for message in consumer.consume(10_000, 1.0))
    took = time.perf_counter() - began
    consumer.close()
    return took
