"""Samples of the memory and file descriptors of every node during a test, and whether they grow.

    with ResourceSampler(cluster.nodes, path):
        ...
    growths = measure_growth(read(path))

A sample is a line of a CSV file. Nodes are killed and restarted during a test, and a new process is smaller than a busy
one, so the first seconds of every process do not count. The median of the last quarter of the run is compared with that
of the first: a leak of any size shows in a run that is long enough, a burst does not.
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
"""In which a process opens its connections and allocates its buffers."""
MIN_SAMPLES = 5
"""In the first and in the last quarter."""
MIN_JUDGED_S = 1_800.0
"""Growth in a shorter run is reported, but is not a failure."""
MEMORY_TOLERANCE_MB, DESCRIPTOR_TOLERANCE = 8.0, 12
TOLERANCE = 0.1


@dataclass(frozen=True, slots=True)
class Sample:
    seconds: float
    """Since the sampler started."""
    node: int
    pid: int
    age_seconds: float
    """Since the sampler first saw the process."""
    rss_mb: float
    descriptors: int


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of one node; `first` and `last` are the medians of the first and last quarter of the run."""

    node: int
    samples: int
    first_mb: float
    last_mb: float
    mb_per_hour: float
    first_descriptors: float
    last_descriptors: float
    descriptors_per_hour: float
    judged: bool
    """Whether the run was long enough to distinguish growth from noise."""

    @property
    def is_flat(self) -> bool:
        grown_mb = self.last_mb - self.first_mb
        grown_descriptors = self.last_descriptors - self.first_descriptors
        return grown_mb <= max(MEMORY_TOLERANCE_MB, TOLERANCE * self.first_mb) and grown_descriptors <= max(
            DESCRIPTOR_TOLERANCE, TOLERANCE * self.first_descriptors
        )


class ResourceSampler:
    """A thread that periodically samples every running node. Works on Linux; elsewhere the file stays empty."""

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
                    usage = read_usage(node.pid) if node.is_running else None
                    if usage is not None:
                        age = now - first_seen.setdefault(node.pid, now)
                        sample = Sample(round(now - started, 1), node.id, node.pid, round(age, 1), *usage)
                        writer.writerow(asdict(sample))
                file.flush()
                if self._stopping.wait(self._interval_s):
                    break


def read_usage(pid: int) -> tuple[float, int] | None:
    """(resident memory in MB, open descriptors); None if there is no such process or no /proc."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return round(int(line.split()[1]) / 1_024, 2), descriptors
    return None  # a zombie


def read(path: Path) -> list[Sample]:
    """The samples in a sampler's file."""
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
    """One entry per node; a node with too few samples is left out."""
    warm: dict[int, list[Sample]] = {}
    for sample in samples:
        if sample.age_seconds >= WARM_UP_S:
            warm.setdefault(sample.node, []).append(sample)
    growths = [_growth(node, node_samples) for node, node_samples in sorted(warm.items())]
    return [growth for growth in growths if growth is not None]


def _growth(node: int, samples: list[Sample]) -> Growth | None:
    begin, end = samples[0].seconds, samples[-1].seconds
    quarter = (end - begin) / 4
    first = [sample for sample in samples if sample.seconds <= begin + quarter]
    last = [sample for sample in samples if sample.seconds >= end - quarter]
    if min(len(first), len(last)) < MIN_SAMPLES:
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
        judged=end - begin >= MIN_JUDGED_S,
    )


def as_dict(growth: Growth) -> dict[str, Any]:
    return {**asdict(growth), "flat": growth.is_flat}
