"""What security costs: PLAINTEXT beside SASL_SSL, of insync and, where its jars are, of Apache Kafka.

    python bench/security.py [--quick] [--without-kafka] [--json FILE]

Each is a cluster of three, with TLS between its nodes and an authorizer where clients use SASL_SSL with SCRAM-SHA-512.
The four are measured in turn, in rounds, each with only its own processes running, by the same client on the same
machine. What counts are the ratios. CPU is that of all nodes, or of the client, in the same seconds.

librdkafka cuts a batch of uncompressed records into TLS records of about 2 kB, each of which costs both sides. The CPU
per request of 16 KB is measured with a client that does not.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cluster_clients as clients
import cluster_cpu
from cluster_raw import connect, exchange
from cluster_results import INSYNC, KAFKA
from cluster_sides import Side, cluster_of, kafka_says
from common import table

from insync.server.local_security import LocalSecurity

PARTITIONS = 6
SIZES = (1_000, 100)
CONNECTIONS = 300
API_VERSIONS = struct.pack(">hhih", 18, 0, 1, -1)
"""The first request of every client; it is answered before authentication."""
SIDES = tuple((name, is_secured) for name in (INSYNC, KAFKA) for is_secured in (False, True))

SideKey = tuple[str, bool]
"""The name of a side, and whether it is secured."""


@dataclass(frozen=True, slots=True)
class Effort:
    rounds: int = 2
    warm_up_s: float = 12.0
    seconds: float = 5.0
    requests: int = 4_000


QUICK = Effort(rounds=1, warm_up_s=3.0, seconds=2.0, requests=1_000)


def measure(side: Side, effort: Effort) -> dict[str, float]:
    values: dict[str, float] = {}
    for size in SIZES:
        topic, warm_up_s = f"load-{size}", effort.warm_up_s if size == SIZES[0] else 1.0
        clients.create_topic(side.bootstrap, topic, PARTITIONS)
        clients.warm_up(side.bootstrap, [(topic, clients.ANY)], size, warm_up_s)
        produce = partial(clients.produce_for, side.bootstrap, [(topic, clients.ANY)], size, effort.seconds)
        consume = partial(clients.consume_all, side.bootstrap, topic, PARTITIONS)
        for title, run in ((f"produce {size} B", produce), (f"consume {size} B", consume)):
            values |= measure_load(title, size, side, run)
    leader_us, follower_us = cluster_cpu.spend(side, effort.requests)
    values |= {"16 KB request, leader's CPU, us": leader_us, "16 KB request, follower's CPU, us": follower_us}
    return values | measure_connections(side)


def measure_load(title: str, size: int, side: Side, run: Callable[[], clients.Rate]) -> dict[str, float]:
    nodes, client = sum(side.cpu_us().values()), _own_cpu_us()
    rate = run()
    nodes, client = sum(side.cpu_us().values()) - nodes, _own_cpu_us() - client
    megabytes = rate.records * size / 1e6
    return {
        f"{title}, MB/s": rate.per_second * size / 1e6,
        f"{title}, nodes' CPU, ms per MB": nodes / 1e3 / megabytes,
        f"{title}, client's CPU, ms per MB": client / 1e3 / megabytes,
    }


def measure_connections(side: Side) -> dict[str, float]:
    """A connection with its handshake of TLS, if there is one, and one request."""
    address, security = side.address(1), side.security
    for _ in range(CONNECTIONS // 3):
        _ask_once(address, security)
    before, began = side.cpu_us()[1], time.monotonic()
    for _ in range(CONNECTIONS):
        _ask_once(address, security)
    took = time.monotonic() - began
    return {
        "new connection, ms": took * 1e3 / CONNECTIONS,
        "new connection, node's CPU, ms": (side.cpu_us()[1] - before) / 1e3 / CONNECTIONS,
    }


def _ask_once(address: tuple[str, int], security: LocalSecurity | None) -> None:
    with connect(address, security) as sock:
        exchange(sock, API_VERSIONS)


def _own_cpu_us() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return (usage.ru_utime + usage.ru_stime) * 1e6


class SecurityResults:
    """Samples by row and side."""

    def __init__(self, kafka_says: str, sides: list[SideKey]) -> None:
        self._kafka_says = kafka_says
        self._sides = sides
        self._samples: dict[str, dict[SideKey, list[float]]] = {}

    def add(self, side: SideKey, values: dict[str, float]) -> None:
        for row, value in values.items():
            self._samples.setdefault(row, {}).setdefault(side, []).append(value)
            print(f"    {_title(side):16} {row}: {value:.2f}", flush=True)

    def print(self) -> None:
        has_kafka = (KAFKA, True) in self._sides
        columns = ["", *(_title(side) for side in self._sides), "insync: SASL_SSL / PLAINTEXT"]
        if has_kafka:
            columns += ["kafka: SASL_SSL / PLAINTEXT", "SASL_SSL: insync / kafka"]
        rows = []
        for row, samples in self._samples.items():
            medians = {side: statistics.median(values) for side, values in samples.items()}
            pairs = [((INSYNC, True), (INSYNC, False))]
            if has_kafka:
                pairs += [((KAFKA, True), (KAFKA, False)), ((INSYNC, True), (KAFKA, True))]
            ratios = [medians[above] / medians[below] if medians[below] else float("nan") for above, below in pairs]
            rows.append([row, *(medians[side] for side in self._sides), *ratios])
        table(f"clusters of three, replication factor 3, acks=all (medians); {self._kafka_says}", columns, rows)

    def write(self, path: Path) -> None:
        rows = {
            row: {_title(side): values for side, values in samples.items()} for row, samples in self._samples.items()
        }
        path.write_text(json.dumps({"kafka": self._kafka_says, "rows": rows}, indent=2) + "\n")


def _title(side: SideKey) -> str:
    return f"{side[0]} {'SASL_SSL' if side[1] else 'PLAINTEXT'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, shorter")
    parser.add_argument("--without-kafka", action="store_true", help="measure insync only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to this file")
    arguments = parser.parse_args()
    effort = QUICK if arguments.quick else Effort()
    available, heading = kafka_says()
    if arguments.without_kafka:
        available, heading = False, "Kafka: left out"
    sides = [side for side in SIDES if available or side[0] == INSYNC]
    results = SecurityResults(heading, sides)
    for _ in range(effort.rounds):
        for name, is_secured in sides:
            with cluster_of(name, is_secured=is_secured) as side:
                print(f"  {_title((name, is_secured))}", flush=True)
                side.launch()
                side.wait_until_ready()
                results.add((name, is_secured), measure(side, effort))
    results.print()
    if arguments.json:
        results.write(arguments.json)


if __name__ == "__main__":
    main()
