"""The cost of one produce request of 16 KB with acks=all: CPU time of the leader's process, and of each follower's."""

from __future__ import annotations

import time

import cluster_clients as clients
from cluster_raw import RawProducer
from cluster_results import Results, Row, below
from cluster_sides import Side

AIM_US = 150
TOPIC = "cpu"
WARM_UP_S = 30.0

LEADER = Row("cpu.leader", "CPU per 16 KB request, leader", "us", aim=f"at most {AIM_US} us", met=below(AIM_US))
FOLLOWER = Row("cpu.follower", "CPU per 16 KB request, follower", "us", aim=f"at most {AIM_US} us", met=below(AIM_US))


def measure(side: Side, results: Results, requests: int) -> None:
    leader_us, follower_us = spend(side, requests)
    results.add(LEADER, side.name, leader_us)
    results.add(FOLLOWER, side.name, follower_us)


def spend(side: Side, requests: int) -> tuple[float, float]:
    """Microseconds of the leader and of a follower per request."""
    clients.create_topic(side.bootstrap, TOPIC, 1)
    clients.write_to_each(side.bootstrap, [(TOPIC, 0)])
    leader, _ = clients.leader_and_isr(side.bootstrap, TOPIC)
    producer = RawProducer(side.address(leader), TOPIC, side.security)
    _warm_up(side, producer, leader, requests // 2)
    spent = _spent_us(side, producer, requests)
    producer.close()
    followers = [used for node, used in spent.items() if node != leader]
    return spent[leader], sum(followers) / len(followers)


def _warm_up(side: Side, producer: RawProducer, leader: int, requests: int) -> None:
    """Repeat until it gets no cheaper: a JVM compiles meanwhile."""
    best, worse, began = float("inf"), 0, time.monotonic()
    while worse < 2 and time.monotonic() - began < WARM_UP_S:
        spent = _spent_us(side, producer, requests)[leader]
        worse = 0 if spent * clients.STILL_FASTER < best else worse + 1
        best = min(best, spent)


def _spent_us(side: Side, producer: RawProducer, requests: int) -> dict[int, float]:
    """CPU time by node, per request."""
    before = side.cpu_us()
    producer.produce(requests)
    return {node: (used - before[node]) / requests for node, used in side.cpu_us().items()}
