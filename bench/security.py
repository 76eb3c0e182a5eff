"""What security costs: a cluster of three with PLAINTEXT and with SASL_SSL, TLS between its nodes and an authorizer.

    python bench/security.py [--seconds S] [--rounds N]

One confluent-kafka producer writes records of 1 kB with acks=all to six partitions, and one consumer reads them, for S
seconds on each cluster in turn. What counts are the ratios. The CPU time of the nodes is that of the same seconds, per
MB that was produced. Then one TLS handshake of a client with SCRAM, from the connection to the first answer.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from insync.cluster.cluster import Cluster

PARTITIONS = 6
VALUE = os.urandom(1_000)
TICKS = os.sysconf("SC_CLK_TCK")
QUEUE = 20_000
HANDSHAKES = 20


def measure_produce(settings: dict[str, Any], seconds: float) -> float:
    """MB/s that were acknowledged."""
    producer = Producer({**settings, "acks": "all", "linger.ms": 5, "queue.buffering.max.messages": QUEUE})
    started, sent = time.monotonic(), 0
    while time.monotonic() - started < seconds:
        try:
            producer.produce("load", VALUE)
            sent += 1
        except BufferError:
            producer.poll(0.01)
    if producer.flush(60):
        raise SystemExit("records were not delivered")
    return sent * len(VALUE) / 1e6 / (time.monotonic() - started)


def measure_consume(settings: dict[str, Any], seconds: float) -> float:
    """MB/s, from the start of all partitions on."""
    consumer = Consumer({**settings, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition("load", index, 0) for index in range(PARTITIONS)])
    consumer.consume(1, 30)
    started, size = time.monotonic(), 0
    while time.monotonic() - started < seconds:
        messages = consumer.consume(5_000, 1)
        size += sum(len(message.value() or b"") for message in messages)
        if not messages:
            break
    rate = size / 1e6 / (time.monotonic() - started)
    consumer.close()
    return rate


def measure_logins(settings: dict[str, Any]) -> float:
    """Milliseconds from the connection to the first answer, the median of several."""
    times = []
    for _ in range(HANDSHAKES):
        started = time.monotonic()
        AdminClient(settings).list_topics(timeout=30)
        times.append((time.monotonic() - started) * 1e3)
    return statistics.median(times)


def cpu_seconds(cluster: Cluster) -> float:
    """Of all nodes, in user and kernel mode."""
    total = 0.0
    for node in cluster.nodes.values():
        with open(f"/proc/{node.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / TICKS
    return total


def measure(security: str | None, seconds: float) -> dict[str, float]:
    topics = {"load": {"partitions": PARTITIONS}}
    with Cluster(
        brokers=3, topics=topics, security=security, users={"alice": "secret"} if security else None
    ) as cluster:
        settings = cluster.client_config("alice") if security else {"bootstrap.servers": cluster.bootstrap}
        measure_produce(settings, 1.0)
        before = cpu_seconds(cluster)
        produced = measure_produce(settings, seconds)
        cpu = (cpu_seconds(cluster) - before) / (produced * seconds)
        return {
            "produce, MB/s": produced,
            "nodes' CPU, ms per MB produced": cpu * 1e3,
            "consume, MB/s": measure_consume(settings, seconds),
            "connect and list topics, ms": measure_logins(settings),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    samples: dict[str | None, list[dict[str, float]]] = {None: [], "sasl_ssl": []}
    for _ in range(arguments.rounds):
        for security, rows in samples.items():
            rows.append(measure(security, arguments.seconds))
    print(f"{f'median of {arguments.rounds}':34} {'PLAINTEXT':>10} {'SASL_SSL':>10} {'ratio':>6}")
    for row in samples[None][0]:
        plain, secured = (statistics.median(sample[row] for sample in rows) for rows in samples.values())
        print(f"{row:34} {plain:10.1f} {secured:10.1f} {secured / plain:6.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
