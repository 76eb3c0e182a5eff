"""Throughput, latency and memory under load, with a stock client: one topic, six partitions, three replicas.

Before the measurement, the side is warmed up with the same traffic: a JVM compiles meanwhile.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import cluster_clients as clients
from cluster_results import Results, Row, at_least_kafka
from cluster_sides import Side

PARTITIONS = 6
SMALL = 100
LARGE = 1_000

PRODUCE = {
    size: Row(f"produce.{size}", f"produce acks=all, {size} B", "records/s", False, "at least Kafka's", at_least_kafka)
    for size in (SMALL, LARGE)
}
CONSUME = {
    size: Row(f"consume.{size}", f"consume, {size} B", "records/s", False, "at least Kafka's", at_least_kafka)
    for size in (SMALL, LARGE)
}
LATENCY_RATE = Row("latency.rate", "latency is measured at", "records/s", False)
LATENCY = {
    "p50": Row("latency.p50", "produce latency p50", "ms"),
    "p99": Row("latency.p99", "produce latency p99", "ms"),
    "p99.9": Row("latency.p99.9", "produce latency p99.9", "ms"),
}
TAIL_MB_PER_SECOND = (5, 20, 40)
TAIL_CUTS = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "worst": 1.0}
TAIL = {
    (rate, cut): Row(f"tail.{rate}.{cut}", f"produce latency at {rate} MB/s, {cut}", "ms")
    for rate in TAIL_MB_PER_SECOND
    for cut in TAIL_CUTS
}
LOADED_NODE = Row("memory.loaded.node", "memory loaded, largest node", "MB")
LOADED = Row("memory.loaded", "memory loaded, whole cluster", "MB")


@dataclass(frozen=True, slots=True)
class Load:
    """How long each measurement takes; for the warm-up, at least."""

    warm_up_s: float = 12.0
    produce_s: float = 5.0
    latency_s: float = 6.0
    tail_s: float = 40.0
    """Longer than the kernel keeps dirty pages (30 s): the stalls come when it writes them to disk."""


def throughput(side: Side, results: Results, load: Load) -> dict[int, float]:
    """Produce, then consume the same records; returns records per second by size."""
    rates = {}
    for size, warm_up_s in ((SMALL, load.warm_up_s), (LARGE, 1.0)):
        topic = f"load-{size}"
        clients.create_topic(side.bootstrap, topic, PARTITIONS)
        places = [(topic, clients.ANY)]
        clients.warm_up(side.bootstrap, places, size, warm_up_s)
        rates[size] = clients.produce_for(side.bootstrap, places, size, load.produce_s).per_second
        results.add(PRODUCE[size], side.name, rates[size])
        results.add(CONSUME[size], side.name, clients.consume_all(side.bootstrap, topic, PARTITIONS).per_second)
    return rates


def latency(side: Side, results: Results, load: Load, rate: float) -> None:
    """Latency at half of the throughput measured before."""
    topic = "latency"
    clients.create_topic(side.bootstrap, topic, PARTITIONS)
    clients.produce_for(side.bootstrap, [(topic, clients.ANY)], LARGE, 1.0)
    half = rate / 2
    latencies = clients.latencies_ms(side.bootstrap, topic, LARGE, half, load.latency_s)
    quantiles = statistics.quantiles(latencies, n=1_000)
    results.add(LATENCY_RATE, side.name, half)
    for name, at in (("p50", 500), ("p99", 990), ("p99.9", 999)):
        results.add(LATENCY[name], side.name, quantiles[at - 1])


def tail(side: Side, results: Results, load: Load) -> None:
    """Tail latency at steady rates."""
    topic = "tail"
    clients.create_topic(side.bootstrap, topic, PARTITIONS)
    clients.warm_up(side.bootstrap, [(topic, clients.ANY)], LARGE, load.warm_up_s)
    for rate in TAIL_MB_PER_SECOND:
        latencies = sorted(clients.latencies_ms(side.bootstrap, topic, LARGE, rate * 1_000_000 / LARGE, load.tail_s))
        for name, share in TAIL_CUTS.items():
            results.add(TAIL[rate, name], side.name, latencies[min(int(len(latencies) * share), len(latencies) - 1)])


def memory(side: Side, results: Results) -> None:
    resident = side.resident_mb()
    results.add(LOADED_NODE, side.name, max(resident))
    results.add(LOADED, side.name, sum(resident))
