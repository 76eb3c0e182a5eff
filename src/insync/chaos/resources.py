"""Memory and file descriptors of every node while a cluster is under test, and whether they grow.

    with ResourceSampler(cluster.nodes, path):
        ...
    growths = measure_growth(read(path))

A sample is a line of a CSV file. Nodes are killed and started again meanwhile, and a process that has just started is
smaller than one at work, so the first seconds of every process do not count. The run is divided into quarters, and the
median of the last is compared with that of the first: a leak of any size shows in a run that is long enough, a burst
does not.
"""

from __future__ import annotations

import csv
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any

from insync.server.local_cluster import LocalNode

INTERVAL_S = 5.0
WARM_UP_S = 20.0
"""Of a process: connections are made and buffers allocated."""
LEAST_SAMPLES = 5
"""In the first quarter and in the last."""
LEAST_JUDGED_S = 1_800.0
"""A shorter run is measured, and not judged."""
MEMORY_TOLERANCE_MB, DESCRIPTOR_TOLERANCE = 8.0, 12
TOLERANCE = 0.1


@dataclass(frozen=True, slots=True)
class Sample:
    seconds: float
    """Since the sampler started."""
    node: int
    pid: int
    age_seconds: float
    """Of the process, as far as the sampler has seen it."""
    rss_mb: float
    descriptors: int


@dataclass(frozen=True, slots=True)
class Growth:
    """Of one node; `first` and `last` are the medians of a quarter of the run each."""

    node: int
    samples: int
    first_mb: float
    last_mb: float
    mb_per_hour: float
    first_descriptors: float
    last_descriptors: float
    descriptors_per_hour: float
    judged: bool
    """Whether the run was long enough to tell growth from noise."""

    @property
    def is_flat(self) -> bool:
        memory = self.last_mb - self.first_mb <= max(MEMORY_TOLERANCE_MB, TOLERANCE * self.first_mb)
        opened = self.last_descriptors - self.first_descriptors
        return memory and opened <= max(DESCRIPTOR_TOLERANCE, TOLERANCE * self.first_descriptors)


class ResourceSampler:
    """A thread that writes a sample of every running node now and then. Linux only: elsewhere the file stays empty."""

    def __init__(self, nodes: Mapping[int, LocalNode], path: Path, interval_s: float = INTERVAL_S) -> None:
        self._nodes = nodes
        self._path = path
        self._interval_s = interval_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="resources", daemon=True)

    def __enter__(self) -> ResourceSampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        started = time.monotonic()
        first_seen: dict[int, float] = {}  # by pid
        with open(self._path, "w", newline="") as file:
            writer = csv.DictWriter(file, [field.name for field in fields(Sample)])
            writer.writeheader()
            while True:
                for node in self._nodes.values():
                    now = time.monotonic()
                    usage = usage_of(node.pid) if node.running else None
                    if usage is not None:
                        age = now - first_seen.setdefault(node.pid, now)
                        sample = Sample(round(now - started, 1), node.id, node.pid, round(age, 1), *usage)
                        writer.writerow(asdict(sample))
                file.flush()
                if self._stopping.wait(self._interval_s):
                    break


def usage_of(pid: int) -> tuple[float, int] | None:
    """(resident memory in MB, open descriptors); None if there is no such process, or no /proc."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return round(int(line.split()[1]) / 1_024, 2), descriptors
    return None  # it has ended and was not waited for yet


def read(path: Path) -> list[Sample]:
    """What a sampler has written."""
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return [
            Sample(
                float(row["seconds"]),
                int(row["node"]),
                int(row["pid"]),
                float(row["age_seconds"]),
                float(row["rss_mb"]),
                int(row["descriptors"]),
            )
            for row in csv.DictReader(file)
        ]


def measure_growth(samples: Iterable[Sample]) -> list[Growth]:
    """By node; a node with too few samples is left out."""
    warm: dict[int, list[Sample]] = {}
    for sample in samples:
        if sample.age_seconds >= WARM_UP_S:
            warm.setdefault(sample.node, []).append(sample)
    growths = [_growth(node, found) for node, found in sorted(warm.items())]
    return [growth for growth in growths if growth is not None]


def _growth(node: int, samples: list[Sample]) -> Growth | None:
    begin, end = samples[0].seconds, samples[-1].seconds
    quarter = (end - begin) / 4
    first = [sample for sample in samples if sample.seconds <= begin + quarter]
    last = [sample for sample in samples if sample.seconds >= end - quarter]
    if min(len(first), len(last)) < LEAST_SAMPLES:
        return None
    hours = (median(s.seconds for s in last) - median(s.seconds for s in first)) / 3_600
    first_mb, last_mb = (median(s.rss_mb for s in part) for part in (first, last))
    first_fds, last_fds = (median(s.descriptors for s in part) for part in (first, last))
    return Growth(
        node=node,
        samples=len(samples),
        first_mb=round(first_mb, 1),
        last_mb=round(last_mb, 1),
        mb_per_hour=round((last_mb - first_mb) / hours, 1),
        first_descriptors=first_fds,
        last_descriptors=last_fds,
        descriptors_per_hour=round((last_fds - first_fds) / hours, 1),
        judged=end - begin >= LEAST_JUDGED_S,
    )


def as_dict(growth: Growth) -> dict[str, Any]:
    return {**asdict(growth), "flat": growth.is_flat}
