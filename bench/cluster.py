"""Compares a cluster of three nodes with one of Apache Kafka: start, memory, throughput, latency, failover, size.

python bench/cluster.py [--quick] [--without-kafka] [--json FILE] [group...]

Both sides are measured alternately, in rounds, each with only its own processes running, by the same client on the
same machine. The results are medians. Groups: startup, load, tail, cpu, failover, partitions; see
docs/guides/benchmarks.md.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import cluster_cpu
import cluster_failover
import cluster_load
import cluster_partitions
import cluster_startup
from cluster_load import Load
from cluster_results import INSYNC, KAFKA, Results
from cluster_sides import Side, cluster_of, kafka_says

DEFAULT_LOAD = Load()
GROUPS = ("startup", "load", "tail", "cpu", "failover", "partitions")


@dataclass(frozen=True, slots=True)
class Effort:
    rounds: int = 2
    load: Load = DEFAULT_LOAD
    requests: int = 4_000
    trials: int = 3
    counts: tuple[int, ...] = cluster_partitions.COUNTS
    spread_s: float = 3.0


QUICK = Effort(
    rounds=1,
    load=Load(warm_up_s=4, produce_s=2, latency_s=3, tail_s=10),
    requests=1_000,
    trials=1,
    counts=(1, 100, 1_000),
    spread_s=1.0,
)


def main() -> None:
    arguments = _arguments()
    groups = tuple(arguments.groups) or GROUPS
    effort = QUICK if arguments.quick else Effort()
    available, head = kafka_says()
    if arguments.without_kafka:
        available, head = False, "Kafka: left out"
    results = Results(head, available)
    began = time.monotonic()
    for number in range(effort.rounds if groups != ("partitions",) else 0):
        for name in _sides(results):
            _visit(name, groups, effort, results, first=number == 0)
    if "failover" in groups:
        _production_failover(effort, results)
    if "partitions" in groups:
        for name in _sides(results):
            _scale(name, effort, results)
    results.print()
    print(f"\n  measured in {time.monotonic() - began:.0f} s")
    if arguments.json:
        results.write(arguments.json)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="cluster")
    parser.add_argument("groups", nargs="*", choices=(*GROUPS, []), metavar="group", help=", ".join(GROUPS))
    parser.add_argument("--quick", action="store_true", help="one round, shorter, up to 1,000 partitions")
    parser.add_argument("--without-kafka", action="store_true", help="measure insync only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to this file")
    return parser.parse_args()


def _sides(results: Results) -> tuple[str, ...]:
    return (INSYNC, KAFKA) if results.kafka_measured else (INSYNC,)


def _visit(name: str, groups: tuple[str, ...], effort: Effort, results: Results, first: bool) -> None:
    """One run of one side, with all groups that need no cluster of their own. Nodes are killed last."""
    with cluster_of(name) as side:
        print(f"  {name}", flush=True)
        cluster_startup.start(side, results)
        if "startup" in groups:
            cluster_startup.idle_memory(side, results)
        if "load" in groups:
            _load(side, effort.load, results)
        if "tail" in groups:
            cluster_load.tail(side, results, effort.load)
        if "cpu" in groups:
            cluster_cpu.measure(side, results, effort.requests)
        if "failover" in groups and first:
            rows = (cluster_failover.FAST,) if name == INSYNC else (cluster_failover.FAST, cluster_failover.PRODUCTION)
            cluster_failover.measure(side, results, rows, effort.trials)


def _load(side: Side, load: Load, results: Results) -> None:
    rates = cluster_load.throughput(side, results, load)
    cluster_load.latency(side, results, load, rates[cluster_load.LARGE])
    cluster_load.memory(side, results)


def _production_failover(effort: Effort, results: Results) -> None:
    with cluster_of(INSYNC, profile="production") as side:
        print("  insync, production profile", flush=True)
        side.launch()
        side.wait_until_ready()
        cluster_failover.measure(side, results, (cluster_failover.PRODUCTION,), effort.trials)


def _scale(name: str, effort: Effort, results: Results) -> None:
    with cluster_of(name) as side:
        print(f"  {name}, many partitions", flush=True)
        side.launch()
        side.wait_until_ready()
        cluster_partitions.measure(side, results, effort.counts, effort.spread_s)


if __name__ == "__main__":
    main()
