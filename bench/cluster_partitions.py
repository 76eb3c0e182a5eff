"""The same cluster with 1, 100, 1,000 and 5,000 partitions, three replicas each.

Topics are added up to each number. Creating ends when a record is acknowledged on every new partition; restarting
begins with the processes, after a clean stop of the whole cluster, and ends when a record is acknowledged on every
partition. For the throughput, records go to all partitions in turn, which is the worst case for batching.
"""

from __future__ import annotations

import time

import cluster_clients as clients
from cluster_clients import Place
from cluster_results import Results, Row
from cluster_sides import Side, wait_for_background_work

COUNTS = (1, 100, 1_000, 5_000)
SIZE = 100
BACKGROUND_WORK_S = 1.0


def measure(side: Side, results: Results, counts: tuple[int, ...], seconds: float) -> None:
    places: list[Place] = []
    for count in counts:
        rows = {name: _row(count, name) for name in ("create", "produce", "memory", "restart")}
        results.add(rows["create"], side.name, _grow(side, places, count))
        clients.produce_for(side.bootstrap, places, SIZE, seconds / 2)
        results.add(rows["produce"], side.name, clients.produce_for(side.bootstrap, places, SIZE, seconds).per_second)
        wait_for_background_work(BACKGROUND_WORK_S)
        results.add(rows["memory"], side.name, max(side.resident_mb()))
        results.add(rows["restart"], side.name, _restart(side, places))


def _grow(side: Side, places: list[Place], count: int) -> float:
    began = time.monotonic()
    topic, more = f"scale-{count}", count - len(places)
    clients.create_topic(side.bootstrap, topic, more)
    added = [(topic, index) for index in range(more)]
    clients.write_to_each(side.bootstrap, added)
    places += added
    return time.monotonic() - began


def _restart(side: Side, places: list[Place]) -> float:
    side.shut_down()
    began = time.monotonic()
    side.launch()
    clients.write_to_each(side.bootstrap, places)
    took = time.monotonic() - began
    side.wait_until_ready()
    return took


_WHAT = {
    "create": ("create, until all are written to", "s", True),
    "produce": ("produce 100 B to all in turn", "records/s", False),
    "memory": ("memory, largest node", "MB", True),
    "restart": ("restart, until all are written to", "s", True),
}


def _row(count: int, name: str) -> Row:
    what, unit, less_is_better = _WHAT[name]
    plural = "partition" if count == 1 else "partitions"
    return Row(f"partitions.{count}.{name}", f"{count:,} {plural}: {what}", unit, less_is_better)
