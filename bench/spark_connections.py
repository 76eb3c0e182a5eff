"""200 tasks against three brokers: how many connections the brokers see at most, and how long the tasks take.

    python bench/spark_connections.py [--quick] [--cores N] [--tasks N] [--json FILE]

`local[16]`: sixteen Python workers at a time. A topic of as many partitions as tasks is read, each partition by a task
of its own; then as many tasks write to a topic of twelve partitions. Connections are counted in the kernel's table of
sockets, every 20 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from common import table
from confluent_kafka import Producer

from insync.pipeline.session import open_session
from insync.testing import Cluster

ESTABLISHED, SYN_RECEIVED = "01", "03"
INTERVAL_S = 0.02


def main() -> int:
    arguments = _arguments()
    tasks = arguments.tasks
    figures: dict[str, dict[str, float]] = {}
    settings = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2"}
    spark = open_session(f"local[{arguments.cores}]", "insync-bench", **settings)
    try:
        with Cluster(brokers=3) as cluster:
            cluster.create_topic("many", partitions=tasks, replication_factor=1)
            cluster.create_topic("written", partitions=12)
            _fill(cluster.bootstrap, tasks)
            kafka = {"kafka.bootstrap.servers": cluster.bootstrap}
            source = spark.read.format("insync").options(**kafka, subscribe="many", minPartitions=str(tasks))
            rows = spark.range(0, 100 * tasks, 1, tasks).selectExpr("cast(id as string) as value")
            sink = rows.write.format("insync").options(**kafka, topic="written").mode("append")
            for name in ("read, first", "read"):
                figures[name] = _watch(cluster.bootstrap, lambda: source.load().count())
            for name in ("write, first", "write"):
                figures[name] = _watch(cluster.bootstrap, sink.save)
    finally:
        spark.stop()
    lines = [(name, *row.values()) for name, row in figures.items()]
    title = f"{tasks} tasks on {arguments.cores} workers, 3 brokers (load average {os.getloadavg()[0]:.1f})"
    table(title, ("", "connections at most", "of one broker", "opened", "s"), lines)
    if arguments.json:
        arguments.json.write_text(json.dumps({"load_average": os.getloadavg(), **figures}, indent=2))
    return 0


def _fill(bootstrap: str, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for number in range(100 * partitions):
        producer.produce("many", b"%010d" % number, partition=number % partitions)
        producer.poll(0)
    if producer.flush(120):
        raise RuntimeError("the topic could not be written")


def _watch(bootstrap: str, work: Callable[[], object]) -> dict[str, float]:
    """The most connections while it works, and how many were opened, as far as the samples show it."""
    ports = [int(address.rpartition(":")[2]) for address in bootstrap.split(",")]
    before = _list_connections(ports)
    seen = set(before)
    most = most_of_one = 0
    is_done = threading.Event()

    def sample() -> None:
        nonlocal most, most_of_one
        while not is_done.wait(INTERVAL_S):
            now = _list_connections(ports)
            seen.update(now)
            most = max(most, len(now))
            most_of_one = max(most_of_one, *(sum(end == port for end, _ in now) for port in ports))

    sampler = threading.Thread(target=sample)
    sampler.start()
    began = time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    is_done.set()
    sampler.join()
    return {"at most": most, "of a broker": most_of_one, "opened": len(seen) - len(before), "seconds": seconds}


def _list_connections(ports: list[int]) -> set[tuple[int, int]]:
    """(port of the broker, port of the client) of each connection to these ports, between brokers included."""
    connections = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        port, peer = (int(address.rpartition(":")[2], 16) for address in fields[1:3])
        if port in ports and fields[3] in (ESTABLISHED, SYN_RECEIVED):
            connections.add((port, peer))
    return connections


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cores", type=int, default=16, help="Python workers at a time")
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="20 tasks on 4 workers")
    parser.add_argument("--without-kafka", action="store_true", help="no effect: only ours is measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.cores, arguments.tasks = 4, 20
    return arguments


if __name__ == "__main__":
    sys.exit(main())
