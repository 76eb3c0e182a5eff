"""kill -9 of a partition's leader while a stock client writes: how long until a record sent after it is acknowledged?

The client is left at its defaults here. A trial ends when the killed node is back in the ISR.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import cluster_clients as clients
from cluster_clients import BenchError
from cluster_results import Results, Row
from cluster_sides import Side
from confluent_kafka import KafkaError, Message, Producer

TOPIC = "failover"
STEADY_S = 0.5
EVERY_S = 0.005

FAST = Row(
    "failover.fast", "next write after kill -9, fast profile", "s", aim="under 1 s", met=lambda ours, _: ours < 1
)
PRODUCTION = Row("failover.production", "next write after kill -9, production profile", "s")


class Writer:
    """Sends a record every few milliseconds; `acknowledged` is when the newest acknowledged one was sent."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": lambda _: None})
        self.acknowledged = 0.0

    def write_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + clients.TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline:
                raise BenchError("no write is acknowledged")
            self._send(time.monotonic())
            self._producer.poll(EVERY_S)

    def close(self) -> None:
        self._producer.flush(clients.TIMEOUT_S)

    def _send(self, at: float) -> None:
        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self.acknowledged = max(self.acknowledged, at)

        self._producer.produce(TOPIC, b"x" * 100, on_delivery=delivered)


def measure(side: Side, results: Results, rows: tuple[Row, ...], trials: int) -> None:
    clients.create_topic(side.bootstrap, TOPIC, 1)
    for _ in range(trials):
        seconds = _trial(side)
        for row in rows:
            results.add(row, side.name, seconds)


def _trial(side: Side) -> float:
    writer = Writer(side.cluster.bootstrap)
    steady = time.monotonic() + STEADY_S
    writer.write_until(lambda: writer.acknowledged > steady)
    leader, _ = clients.leader_and_isr(side.bootstrap, TOPIC)
    killed = time.monotonic()
    side.kill(leader)
    writer.write_until(lambda: writer.acknowledged > killed)
    seconds = time.monotonic() - killed
    side.start_node(leader)
    writer.write_until(lambda: len(clients.leader_and_isr(side.bootstrap, TOPIC)[1]) == clients.REPLICATION)
    writer.close()
    return seconds
