"""The two clusters to compare, with one interface: three nodes, each broker and controller, on this machine.

Storage is formatted before the clock starts. Only one side's processes run at a time.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster_results import INSYNC, KAFKA

from insync.server.local_cluster import LocalCluster

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import apache_kafka
from apache_kafka import ApacheCluster

BROKERS = 3
PAGE = os.sysconf("SC_PAGE_SIZE")
TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")
STOP_TIMEOUT_S = 60.0


class Side:
    """One cluster; `name` is the column of its figures."""

    def __init__(self, name: str, cluster: LocalCluster | ApacheCluster) -> None:
        self.name = name
        self.cluster = cluster

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def launch(self) -> None:
        """Start the processes; returns at once."""
        if isinstance(self.cluster, ApacheCluster):
            self.cluster.start_all()
        else:
            self.cluster.start(is_cancelled=lambda: True)

    def wait_until_ready(self) -> None:
        self.cluster.wait_until_ready(timeout_s=180)

    def shut_down(self) -> None:
        """Stop all nodes at once, as cleanly as is possible while the quorum loses its majority."""
        self.cluster.stop(timeout_s=STOP_TIMEOUT_S)

    def kill(self, node_id: int) -> None:
        self.cluster.kill(node_id)

    def start_node(self, node_id: int) -> None:
        self.cluster.start_node(node_id)

    def address(self, node_id: int) -> tuple[str, int]:
        return self.cluster.nodes[node_id].address

    def resident_mb(self) -> list[float]:
        """Resident memory per node."""
        return [_resident_mb(node.pid) for node in self.cluster.nodes.values()]

    def cpu_us(self) -> dict[int, float]:
        """CPU time of each node since its start, in user and kernel mode."""
        return {node.id: _cpu_us(node.pid) for node in self.cluster.nodes.values()}


@contextmanager
def cluster_of(name: str, profile: str = "fast") -> Iterator[Side]:
    """A formatted cluster that is not running yet. At the end its processes are killed and its directory is removed."""
    directory = tempfile.mkdtemp(prefix=f"bench-{name}-")
    side: Side | None = None
    try:
        if name == KAFKA:
            kafka = ApacheCluster(BROKERS, directory)
            kafka.format()
            side = Side(KAFKA, kafka)
        else:
            side = Side(INSYNC, LocalCluster(brokers=BROKERS, directory=directory, profile=profile))
        yield side
    finally:
        if side is not None:
            side.cluster.stop(timeout_s=0)
        shutil.rmtree(directory, ignore_errors=True)


def kafka_says() -> tuple[bool, str]:
    """Whether Kafka can be measured, and the heading of its column."""
    if apache_kafka.is_available():
        return True, f"Kafka {apache_kafka.version()}"
    return False, "Kafka: not available (make apache-kafka)"


def wait_for_background_work(seconds: float) -> None:
    """Give background work time to end before memory is measured."""
    time.sleep(seconds)


def _resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6


def _cpu_us(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_US
