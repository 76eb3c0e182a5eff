"""From the start of three processes with empty storage to the first write that all in-sync replicas have."""

from __future__ import annotations

import time

import cluster_clients as clients
from cluster_results import Results, Row, below
from cluster_sides import Side, wait_for_background_work

IDLE_AFTER_S = 2.0

FIRST_ACK = Row(
    "startup.first_ack",
    "start to first acknowledged write",
    "s",
    aim="under 2 s, 5 times sooner",
    met=lambda ours, ratio: ours < 2 and (ratio is None or ratio >= 5),
)
IDLE_NODE = Row("memory.idle.node", "memory idle, largest node", "MB", aim="under 60 MB", met=below(60))
IDLE = Row("memory.idle", "memory idle, whole cluster", "MB")


def start(side: Side, results: Results) -> None:
    """The time includes the creation of the topic, with three replicas."""
    began = time.monotonic()
    side.launch()
    clients.create_topic(side.bootstrap, "first", 1)
    clients.write_to_each(side.bootstrap, [("first", 0)])
    results.add(FIRST_ACK, side.name, time.monotonic() - began)
    side.wait_until_ready()


def idle_memory(side: Side, results: Results) -> None:
    wait_for_background_work(IDLE_AFTER_S)
    resident = side.resident_mb()
    results.add(IDLE_NODE, side.name, max(resident))
    results.add(IDLE, side.name, sum(resident))
